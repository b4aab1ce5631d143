package optimize

import (
	"fmt"
	"math/bits"
	"reflect"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// mergeCommon computes equal nodes once: same operator, attributes and inputs (common subexpression
// elimination). Equal small constants count as the same input.
func mergeCommon(o *Options, g *ir.Graph) (int, error) {
	subst := map[ir.ValueID]ir.ValueID{}
	consts := map[string]ir.ValueID{}
	seen := nodeTable{newest: map[uint64]int32{}}
	isOutput := make([]bool, len(g.Values))
	for _, id := range g.Outputs {
		isOutput[id] = true
	}
	kept := g.Nodes[:0:0]
	for _, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		for i, id := range n.In {
			if id == ir.None {
				continue
			}
			if b, ok := subst[id]; ok {
				n.In[i] = b
				continue
			}
			if key, ok := constKey(g.Values[id].Const); ok {
				if b, ok := consts[key]; ok {
					n.In[i] = b
				} else {
					consts[key] = id
				}
			}
		}
		if m := seen.findEqual(n, isOutput); m != nil {
			for i, id := range n.Out {
				if id != ir.None {
					subst[id] = m.Out[i]
				}
			}
			continue
		}
		kept = append(kept, n)
	}
	g.Nodes = kept
	replace(g, subst)
	return len(subst), nil
}

// smallConst is the size in bytes up to which constants are compared by contents.
const smallConst = 256

func constKey(v tensor.Value) (string, bool) {
	t, ok := v.(*tensor.Tensor)
	if !ok || t.DType() == tensor.TypeString || len(t.Bytes()) > smallConst {
		return "", false
	}
	return fmt.Sprint(t.DType(), t.Shape(), ":", string(t.Bytes())), true
}

// nodeTable finds nodes by a hash of their operator type and inputs. Nodes of one hash are a
// list, the newest first.
type nodeTable struct {
	newest map[uint64]int32 // by hash: index in nodes
	nodes  []*ir.Node
	older  []int32 // −1: none
}

func hashOf(n *ir.Node) uint64 {
	const prime = 1099511628211 // FNV-1a
	h := uint64(14695981039346656037)
	for i := range len(n.OpType) {
		h = (h ^ uint64(n.OpType[i])) * prime
	}
	for _, id := range n.In {
		h = bits.RotateLeft64((h^uint64(id))*prime, 29)
	}
	return h
}

// findEqual returns an earlier node that computes the same results, or records n.
func (t *nodeTable) findEqual(n *ir.Node, isOutput []bool) *ir.Node {
	if _, random := n.Op.(ir.Nondeterministic); random || len(n.Graphs) > 0 {
		return nil
	}
	h := hashOf(n)
	first, ok := t.newest[h]
	if !ok {
		first = -1
	}
	// Without a limit, many nodes with different attributes would make the search quadratic.
	const most = 16
	count := 0
	for i := first; i >= 0; i = t.older[i] {
		count++
		m := t.nodes[i]
		if m.Domain != n.Domain || m.OpType != n.OpType || len(m.Out) != len(n.Out) || !slices.Equal(m.In, n.In) ||
			!reflect.DeepEqual(m.Op, n.Op) {
			continue
		}
		same := true
		for i, id := range n.Out {
			// Two graph outputs must stay two values, and m must compute all outputs that are
			// needed.
			same = same && (id == ir.None || m.Out[i] != ir.None && !isOutput[id])
		}
		if same {
			return m
		}
	}
	if count < most {
		t.newest[h] = int32(len(t.nodes))
		t.nodes, t.older = append(t.nodes, n), append(t.older, first)
	}
	return nil
}
