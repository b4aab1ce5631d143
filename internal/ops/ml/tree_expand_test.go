package ml

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/tree"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// TestExpandedTrees compares the kernel with the plain traversal for nodes that look for equal
// numbers and subtrees with several parents, with numbers of X that float32 holds and others.
func TestExpandedTrees(t *testing.T) {
	meter := &ir.Meter{C: &ir.Call{Env: &optest.Env{Ctx: t.Context()}}}
	inf, nan := math.Inf(1), math.NaN()
	numbers := []float64{-inf, -2, -1, math.Copysign(0, -1), 0, 0.1, 1, 2, 3, 1e300, inf}
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, 12).Draw(t, "nodes")
		f := &treeForest{nodes: make([]treeNode, count), members: make([][]float64, count), first: []int32{0}}
		const leaves, features, targets = 4, 3, 2
		for i := range f.nodes {
			n := &f.nodes[i]
			n.mode = treeMode(rapid.IntRange(0, int(treeMember)).Draw(t, "mode"))
			n.feature = rapid.Int32Range(0, features-1).Draw(t, "feature")
			n.threshold = rapid.SampledFrom(append(numbers, nan)).Draw(t, "threshold")
			if n.threshold != n.threshold && n.mode < treeEQ {
				n.threshold = 0
			}
			n.missing = rapid.Bool().Draw(t, "missing")
			if n.mode == treeMember {
				f.members[i] = slices.Sorted(slices.Values(rapid.SliceOfN(rapid.SampledFrom(numbers), 0,
					9).Draw(t, "members")))
			}
			for k := range n.next { // of later nodes, so that there is no cycle
				n.next[k] = rapid.Int32Range(-leaves, int32(count-1)).Draw(t, "next")
				if n.next[k] >= 0 && int(n.next[k]) <= i {
					n.next[k] = ^(n.next[k] % leaves)
				}
			}
		}
		for i := range leaves {
			f.votes = append(f.votes, tree.Term{Target: int32(i % targets), Weight: float64(int(1) << i)})
			f.first = append(f.first, int32(i+1))
		}
		f.roots = rapid.SliceOfN(rapid.Int32Range(0, int32(count-1)), 1, 3).Draw(t, "roots")
		const rows = 9
		x := make([]float64, rows*features)
		near := []float64{nan, 0.5, math.Nextafter(1, 2), math.Nextafter(0.1, 0), math.Nextafter(0.1, 1), -5e-324}
		for i := range x {
			x[i] = rapid.SampledFrom(append(near, numbers...)).Draw(t, "x")
		}
		for _, dtype := range []tensor.DType{tensor.TypeFloat32, tensor.TypeFloat64} {
			m := &treeModel{forest: f, targets: targets, aggregate: tree.Sum}
			if err := m.finish(); err != nil {
				t.Fatal(err)
			}
			m.prepare(false, dtype)
			if m.fast == nil {
				if count < 6 {
					t.Fatal("the kernel does not take a small forest")
				}
				t.Skip("many copies of subtrees")
			}
			narrow, wide, got := make([]float32, features), make([]float64, features), make([]float64, targets)
			for r := range rows {
				copy(wide, x[r*features:])
				if dtype == tensor.TypeFloat32 {
					for i, v := range wide {
						narrow[i] = float32(v)
						wide[i] = float64(narrow[i])
					}
				} else {
					scaleRow(m.scale, narrow[:m.features], wide)
				}
				tree.Run(m.fast, nil, got, narrow, 1, features)
				want := make([]float64, targets)
				if treeScores(meter, f, tree.Sum, wide, want, nil); !slices.Equal(got, want) {
					t.Fatalf("%v row %v: got %g, want %g", dtype, wide, got, want)
				}
			}
		}
	})
}

// chain returns a forest of one tree, in which each of n nodes leads to the next one or a leaf.
func chain(n int) *treeForest {
	f := &treeForest{nodes: make([]treeNode, n), first: []int32{0, 1}, votes: []tree.Term{{Weight: 1}},
		roots: []int32{0}}
	for i := range f.nodes {
		f.nodes[i] = treeNode{mode: treeLEQ, next: [2]int32{^0, int32(i + 1)}}
	}
	f.nodes[n-1].next[1] = ^0
	return f
}

// TestDeepTreesAreNotExpanded: expanding recurses, and a stack above 1 GB ends the process.
func TestDeepTreesAreNotExpanded(t *testing.T) {
	for n, want := range map[int]bool{1000: true, 2 * deepest: false} {
		if _, _, ok := chain(n).expand(nil); ok != want {
			t.Errorf("a tree of depth %d is expanded: %t, want %t", n, ok, want)
		}
	}
}

// TestDeepTreesStop evaluates 2¹⁶ trees of depth 2¹⁰ for one row.
func TestDeepTreesStop(t *testing.T) {
	f := chain(1 << 10)
	f.roots = make([]int32, 1<<16)
	op := &TreeEnsemble{&treeModel{forest: f, targets: 1, features: 1, aggregate: tree.Sum}}
	err := optest.RunCaught(op, &ir.Call{Node: &ir.Node{Op: op}, Generic: true, Out: make([]tensor.Value, 1),
		In:  []tensor.Value{optest.Tensor([]float32{-1}, 1, 1)},
		Env: &optest.Env{Ctx: &ending{t.Context(), 100}, Limit: optest.MemoryLimit}})
	if !errors.Is(err, context.Canceled) {
		t.Error("2²⁶ nodes are evaluated with less than 100 checks of the context:", err)
	}
}
