package ml

import (
	"fmt"
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/tree"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// treeMode is the comparison of a node; the values are those of TreeEnsemble-5.
type treeMode uint8

const (
	treeLEQ treeMode = iota
	treeLT
	treeGTE
	treeGT
	treeEQ
	treeNEQ
	treeMember
	treeLeaf // only in TreeEnsembleClassifier and TreeEnsembleRegressor
)

var treeModeNames = map[string]treeMode{
	"BRANCH_LEQ": treeLEQ, "BRANCH_LT": treeLT, "BRANCH_GTE": treeGTE, "BRANCH_GT": treeGT,
	"BRANCH_EQ": treeEQ, "BRANCH_NEQ": treeNEQ, "LEAF": treeLeaf,
}

// treeAggregate is the function that combines the leaf weights of the trees for a target.
type treeAggregate uint8

const (
	treeAverage treeAggregate = iota
	treeSum
	treeMin
	treeMax
)

// treeNode compares one feature with a threshold. next[0] and next[1] are the successors
// if the comparison is false and true: a node index, or ^leaf.
type treeNode[T mlFloat] struct {
	threshold T
	feature   int32
	next      [2]int32
	mode      treeMode
	missing   bool // NaN takes the true branch
}

// treeVote is a weight of a leaf for a target.
type treeVote struct {
	target int32
	weight float64
}

// treeForest is an ensemble of decision trees. T is float32 if model and input are
// float32, else float64.
type treeForest[T mlFloat] struct {
	nodes   []treeNode[T]
	members [][]T // sorted set of each node with treeMember; nil if there is none
	roots   []int32
	first   []int32 // votes of leaf i: votes[first[i]:first[i+1]]
	votes   []treeVote
	leq     bool // all nodes compare with ≤, and NaN takes the false branch
}

// treeModel is the common representation of the three tree operators.
type treeModel struct {
	forest    treeForest[float64]
	single    *treeForest[float32] // the same in float32, if that holds all thresholds exactly
	features  int                  // minimum number of columns of X
	targets   int
	aggregate treeAggregate
	base      []float64 // one per target, or nil
	transform postTransform

	// fast evaluates the forest without branches for float32 inputs. It is nil if the kernel
	// does not support the model: aggregates other than sum and average, treeMember nodes,
	// and subtrees with two parents.
	fast *tree.Ensemble[float32]
}

var treeKernelModes = map[treeMode]tree.Mode{treeLEQ: tree.LEQ, treeLT: tree.LT, treeGTE: tree.GTE, treeGT: tree.GT, treeEQ: tree.EQ, treeNEQ: tree.NEQ}

// kernel returns the forest in the form of package tree, or nil if that does not support
// it.
func (m *treeModel) kernel() *tree.Ensemble[float32] {
	f := m.single
	if f == nil || f.members != nil || m.aggregate != treeSum && m.aggregate != treeAverage || m.targets == 0 || len(f.roots) == 0 {
		return nil
	}
	index := func(i int32) int {
		if i < 0 {
			return len(f.nodes) + int(^i)
		}
		return int(i)
	}
	nodes := make([]tree.Node[float32], len(f.nodes)+len(f.first)-1)
	for i, n := range f.nodes {
		mode, ok := treeKernelModes[n.mode]
		if !ok {
			return nil
		}
		nodes[i] = tree.Node[float32]{Mode: mode, Feature: int(n.feature), Value: n.threshold, True: index(n.next[1]), False: index(n.next[0]), MissingTrue: n.missing}
	}
	for l := range len(f.first) - 1 {
		for _, v := range f.votes[f.first[l]:f.first[l+1]] {
			nodes[len(f.nodes)+l].Weights = append(nodes[len(f.nodes)+l].Weights, tree.Term{Target: int(v.target), Weight: v.weight})
		}
	}
	roots := make([]int, len(f.roots))
	for i, r := range f.roots {
		roots[i] = index(r)
	}
	agg := tree.Sum
	if m.aggregate == treeAverage {
		agg = tree.Average
	}
	e, err := tree.New(nodes, roots, m.targets, agg)
	if err != nil {
		return nil
	}
	return e
}

// runKernel is like run, but uses the branchless kernel.
func (m *treeModel) runKernel(c *ir.Call, x []float32, n, cols int, done func(i int, scores []float64)) error {
	dst, err := ir.ScratchOf[float32](c, n*m.targets)
	if err != nil {
		return err
	}
	scores, err := ir.ScratchOf[float64](c, m.targets)
	if err != nil {
		return err
	}
	const worthThreads = 1 << 11 // traversals of a tree
	par := c.Par()
	if n*len(m.forest.roots) < worthThreads {
		par = nil
	}
	m.fast.Run(par, dst, x, n, cols)
	c.Serial(n, kit.GrainFor(16*m.targets), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			for k, v := range dst[i*m.targets:][:m.targets] {
				scores[k] = float64(v)
			}
			done(i, scores)
		}
	})
	return nil
}

// finish checks the indices of the nodes and leaves, and that the graph has no cycles;
// nodes may share subtrees. It then builds the float32 form if exact is set, that is, if
// float32 holds all thresholds exactly.
func (m *treeModel) finish(exact bool) error {
	f := &m.forest
	const open, done = 1, 2
	state := make([]uint8, len(f.nodes))
	var stack []int32
	leaves := int32(len(f.first) - 1)
	for _, r := range f.roots {
		if r < 0 {
			continue
		}
		stack = append(stack[:0], r)
		for len(stack) > 0 {
			i := stack[len(stack)-1]
			if state[i] == done {
				stack = stack[:len(stack)-1]
				continue
			}
			if state[i] == open {
				state[i] = done
				stack = stack[:len(stack)-1]
				continue
			}
			state[i] = open
			for _, k := range f.nodes[i].next {
				switch {
				case k < 0 && ^k >= leaves, k >= int32(len(f.nodes)):
					return fmt.Errorf("node %d has a missing child", i)
				case k >= 0 && state[k] == open:
					return fmt.Errorf("nodes %d and %d form a cycle", i, k)
				case k >= 0 && state[k] == 0:
					stack = append(stack, k)
				}
			}
		}
	}
	f.leq = f.members == nil
	for i := range f.nodes {
		n := &f.nodes[i]
		if n.feature < 0 {
			return fmt.Errorf("node %d has feature %d, want a non-negative index", i, n.feature)
		}
		m.features = max(m.features, int(n.feature)+1)
		f.leq = f.leq && n.mode == treeLEQ && !n.missing
	}
	for i, v := range f.votes {
		if v.target < 0 || int(v.target) >= m.targets {
			return fmt.Errorf("weight %d is for target %d, want 0 to %d", i, v.target, m.targets-1)
		}
	}
	if exact {
		m.single = &treeForest[float32]{roots: f.roots, first: f.first, votes: f.votes, leq: f.leq,
			nodes: make([]treeNode[float32], len(f.nodes))}
		for i, n := range f.nodes {
			m.single.nodes[i] = treeNode[float32]{float32(n.threshold), n.feature, n.next, n.mode, n.missing}
		}
		for _, s := range f.members {
			t := make([]float32, len(s))
			for k, v := range s {
				t[k] = float32(v)
			}
			m.single.members = append(m.single.members, t)
		}
	}
	m.fast = m.kernel()
	return nil
}

// leaf returns the index of the leaf of a tree that x reaches.
func (f *treeForest[T]) leaf(root int32, x []T) int32 {
	i := root
	if f.leq {
		for i >= 0 {
			n := &f.nodes[i]
			k := 0
			if x[n.feature] <= n.threshold {
				k = 1
			}
			i = n.next[k]
		}
		return ^i
	}
	for i >= 0 {
		n := &f.nodes[i]
		v := x[n.feature]
		var ok bool
		switch n.mode {
		case treeLEQ:
			ok = v <= n.threshold
		case treeLT:
			ok = v < n.threshold
		case treeGTE:
			ok = v >= n.threshold
		case treeGT:
			ok = v > n.threshold
		case treeEQ:
			ok = v == n.threshold
		case treeNEQ:
			ok = v != n.threshold
		case treeMember:
			_, ok = slices.BinarySearch(f.members[i], v)
		}
		k := 0
		if ok || n.missing && v != v {
			k = 1
		}
		i = n.next[k]
	}
	return ^i
}

// score combines the leaf weights for one row into scores, which must be zero initially.
func (f *treeForest[T]) score(agg treeAggregate, x []T, scores []float64, seen []bool) {
	if agg == treeSum || agg == treeAverage {
		for _, r := range f.roots {
			l := f.leaf(r, x)
			for _, v := range f.votes[f.first[l]:f.first[l+1]] {
				scores[v.target] += v.weight
			}
		}
		return
	}
	clear(seen)
	for _, r := range f.roots {
		l := f.leaf(r, x)
		for _, v := range f.votes[f.first[l]:f.first[l+1]] {
			s := &scores[v.target]
			if !seen[v.target] || agg == treeMin && v.weight < *s || agg == treeMax && v.weight > *s {
				*s, seen[v.target] = v.weight, true
			}
		}
	}
}

// run computes the scores of all rows of x, [N, F] or [F]. It calls done with each row's
// index and scores, to which the base values have not been added. Calls may be
// concurrent.
func (m *treeModel) run(c *ir.Call, x *tensor.Tensor, n, cols int, done func(i int, scores []float64)) error {
	if cols < m.features {
		return fmt.Errorf("X has shape %v, but the trees read feature %d", x.Shape(), m.features-1)
	}
	if m.single != nil && (x.DType() == tensor.TypeFloat32 || x.DType() == tensor.TypeFloat16) {
		data, err := kit.RealIn[float32](c, x)
		if err != nil {
			return err
		}
		if m.fast != nil && !c.Generic && n > 0 {
			return m.runKernel(c, data, n, cols, done)
		}
		return runForest(c, m, m.single, data, n, cols, done)
	}
	var data []float64
	var err error
	if x.DType() == tensor.TypeFloat16 {
		data, err = kit.RealIn[float64](c, x)
	} else {
		data, err = mlNumbersAs[float64](c, x)
	}
	if err != nil {
		return err
	}
	return runForest(c, m, &m.forest, data, n, cols, done)
}

func runForest[T mlFloat](c *ir.Call, m *treeModel, f *treeForest[T], x []T, n, cols int, done func(i int, scores []float64)) error {
	const block = 64
	items := (n + block - 1) / block
	spaces := kit.WorkspaceCount(items)
	scratch, err := ir.ScratchOf[float64](c, spaces*m.targets)
	if err != nil {
		return err
	}
	flags, err := ir.ScratchOf[bool](c, spaces*m.targets)
	if err != nil {
		return err
	}
	return kit.InWorkspaces(c, items, func(ws, b int) error {
		scores, seen := scratch[ws*m.targets:][:m.targets], flags[ws*m.targets:][:m.targets]
		for i := b * block; i < min(n, (b+1)*block); i++ {
			clear(scores)
			f.score(m.aggregate, x[i*cols:][:cols], scores, seen)
			if m.aggregate == treeAverage {
				for k := range scores {
					scores[k] /= float64(len(f.roots))
				}
			}
			done(i, scores)
		}
		return nil
	})
}

// exactFloats reports whether float32 holds every number exactly.
func exactFloats(v []float64) bool {
	for _, x := range v {
		if float64(float32(x)) != x && x == x {
			return false
		}
	}
	return true
}

// treeNumbers returns the elements of a floating-point tensor as float64, or nil if t is
// nil.
func treeNumbers(t *tensor.Tensor) ([]float64, error) {
	if t == nil {
		return nil, nil
	}
	r := make([]float64, t.Len())
	return r, kit.RealConvert(r, t)
}

// readFloatsOrTensor reads a list of floats, or from version 3 on the tensor attribute
// name_as_tensor, which may hold doubles.
func readFloatsOrTensor(a *kit.Attrs, name string, since3 bool) []float64 {
	var r []float64
	for _, v := range a.Floats(name) {
		r = append(r, float64(v))
	}
	if !since3 {
		return r
	}
	t := a.Tensor(name + "_as_tensor")
	if t == nil || t.Len() == 0 {
		return r
	}
	if r != nil {
		a.Errorf("%s and %[1]s_as_tensor are both set", name)
	}
	v, err := treeNumbers(t)
	if err != nil {
		a.Errorf("%s_as_tensor: %w", name, err)
	}
	return v
}

func int32Of(v int) int32 {
	if v < 0 || v > math.MaxInt32-1 {
		return -1
	}
	return int32(v)
}
