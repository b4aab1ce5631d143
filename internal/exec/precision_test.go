package exec

import (
	"runtime/debug"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
)

// recurrent is an operator with a state.
type recurrent struct{ addOne }

func (recurrent) Recurrent() {}

// TestUnroundedDoesNotRecurse follows a chain of nodes with a stack that is too small for one call
// per node. A stack overflow ends the process.
func TestUnroundedDoesNotRecurse(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(1 << 20))
	const n = 60_000
	g := &ir.Graph{Values: make([]ir.Value, n+1), Inputs: []ir.ValueID{0}, Outputs: []ir.ValueID{n}}
	for i := range ir.ValueID(n) {
		g.Nodes = append(g.Nodes, &ir.Node{Op: addOne{}, In: []ir.ValueID{i}, Out: []ir.ValueID{i + 1}})
	}
	g.Nodes[n-1].Op = recurrent{}
	if r := unrounded(g); len(r) != n {
		t.Errorf("%d nodes, want %d", len(r), n)
	}
}
