package ml

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/kernels/tree"
)

// expander writes a forest as trees whose nodes compare by order only, as package tree needs them.
// A node that looks for equal numbers becomes a search tree over them, and a subtree with several
// parents is repeated.
type expander struct {
	f     *treeForest
	scale *treeScale
	nodes []tree.Node
	limit int // of nodes; -1 if a tree is too deep
	depth int // of the node that is appended
}

// deepest bounds the recursion over the nodes of a tree. Go ends the process if a stack exceeds
// 1 GB.
const deepest = 1 << 14

// expand returns the nodes and roots of the trees, or false if they were much larger than the
// forest, or are deep.
func (f *treeForest) expand(scale *treeScale) ([]tree.Node, []int32, bool) {
	e := &expander{f: f, scale: scale, limit: 4*len(f.nodes) + 1024}
	roots := make([]int32, len(f.roots))
	for i, r := range f.roots {
		roots[i] = e.node(r)
		if len(e.nodes) > e.limit {
			return nil, nil, false
		}
	}
	return e.nodes, roots, true
}

// node appends node i with the subtrees below it and returns its new index. A leaf keeps its index.
func (e *expander) node(i int32) int32 {
	if i < 0 || len(e.nodes) > e.limit {
		return i
	}
	if e.depth == deepest {
		e.limit = -1
		return i
	}
	e.depth++
	r := e.subtree(i)
	e.depth--
	return r
}

// subtree appends node i, which is not a leaf, with the subtrees below it. It returns its index.
func (e *expander) subtree(i int32) int32 {
	n := &e.f.nodes[i]
	var set []float64
	in, out, missing := n.next[1], n.next[0], n.missing
	switch n.mode {
	case treeMember:
		set = e.f.members[i]
	case treeEQ:
		set = []float64{n.threshold}
	case treeNEQ:
		set = []float64{n.threshold}
		in, out, missing = out, in, false // NaN is unequal to all numbers
	default:
		return e.add(tree.Node{Mode: treeKernelModes[n.mode], Feature: n.feature,
			Value: e.scale.threshold(n.mode, n.feature, n.threshold), Missing: n.missing}, n.next[0], n.next[1])
	}
	var values []float32
	for _, v := range set {
		if r := e.scale.threshold(treeEQ, n.feature, v); r == r {
			values = append(values, r)
		}
	}
	if len(values) == 0 {
		return e.add(tree.Node{Value: float32(math.NaN()), Feature: n.feature, Missing: missing}, out, in)
	}
	return e.search(slices.Compact(values), n.feature, in, out, missing, false)
}

// add appends a node whose successors are subtrees of the forest.
func (e *expander) add(n tree.Node, no, yes int32) int32 {
	i := e.put(n)
	no, yes = e.node(no), e.node(yes)
	e.nodes[i].Next = [2]int32{no, yes}
	return i
}

func (e *expander) put(n tree.Node) int32 {
	e.nodes = append(e.nodes, n)
	return int32(len(e.nodes) - 1)
}

// search appends a search tree that leads to in if the feature is one of the ascending values, else
// to out. NaN, which is greater than all numbers, leads to in if missing is set. bounded says that
// the feature is at most the last value.
func (e *expander) search(values []float32, feature, in, out int32, missing, bounded bool) int32 {
	m := len(values) / 2
	if m == 0 {
		n := tree.Node{Mode: tree.LT, Value: values[0], Feature: feature}
		if bounded {
			return e.add(n, in, out)
		}
		i := e.put(n)
		no, yes := e.add(tree.Node{Value: values[0], Feature: feature, Missing: missing}, out, in), e.node(out)
		e.nodes[i].Next = [2]int32{no, yes}
		return i
	}
	i := e.put(tree.Node{Value: values[m-1], Feature: feature})
	no, yes := e.search(values[m:], feature, in, out, missing, bounded),
		e.search(values[:m], feature, in, out, false, true)
	e.nodes[i].Next = [2]int32{no, yes}
	return i
}
