package ml

import (
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/tree"
	"github.com/onward-ml/onward/tensor"
)

// TestTreesArePreparedAtOpening checks that the kernel's form is built before the first run, which
// would take a thousand times as long as others.
func TestTreesArePreparedAtOpening(t *testing.T) {
	for x, want := range map[tensor.DType]bool{tensor.TypeFloat32: true, tensor.TypeFloat64: true, 0: false} {
		f := &treeForest{nodes: []treeNode{{mode: treeLEQ, threshold: 0.5, next: [2]int32{^0, ^1}}},
			members: make([][]float64, 1), first: []int32{0, 1, 2}, votes: []tree.Term{{Weight: 1}, {Weight: 2}},
			roots: []int32{0}}
		m := &treeModel{forest: f, targets: 1, aggregate: tree.Sum}
		if err := m.finish(); err != nil {
			t.Fatal(err)
		}
		var op ir.Preparer = &TreeEnsemble{m}
		if _, _, err := op.Prepare(nil, []ir.Type{ir.TensorType(x, ir.Known(4), ir.Known(1))}); err != nil {
			t.Fatal(err)
		}
		if got := m.fast != nil; got != want {
			t.Errorf("X of %v: prepared %v, want %v", x, got, want)
		}
	}
}
