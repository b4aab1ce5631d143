package ml

import (
	"math"
	"slices"
	"sync"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/tree"
	"github.com/onward-ml/onward/internal/kernels/vec"
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

// treeNode compares one feature with a threshold. next[0] and next[1] are the successors
// if the comparison is false and true: a node index, or ^leaf.
type treeNode struct {
	threshold float64
	feature   int32
	next      [2]int32
	mode      treeMode
	missing   bool // NaN takes the true branch
}

// treeForest is an ensemble of decision trees.
type treeForest struct {
	nodes   []treeNode
	members [][]float64 // sorted set of each node with treeMember; nil if no node has that mode
	roots   []int32
	first   []int32     // votes of leaf i: votes[first[i]:first[i+1]]
	votes   []tree.Term // weights of leaves for targets
}

// treeModel is the common representation of the three tree operators.
type treeModel struct {
	forest    *treeForest
	features  int // minimum number of columns of X
	trees     int
	targets   int
	aggregate tree.Aggregate
	base      []float64 // one per target, or nil
	transform postTransform

	// fast evaluates the forest without branches. It is nil if the kernel does not support the
	// model: many sets of numbers, subtrees with several parents, or infinite weights of which it
	// takes the minimum or maximum. [treeModel.prepare] sets it.
	fast  *tree.Ensemble
	scale *treeScale
	once  sync.Once
}

var treeKernelModes = map[treeMode]tree.Mode{treeLEQ: tree.LEQ, treeLT: tree.LT, treeGTE: tree.GTE, treeGT: tree.GT}

// kernel returns the forest in the form of package tree, with thresholds in the numbers of the
// scale, or nil if that does not support it.
func (f *treeForest) kernel(targets int, aggregate tree.Aggregate, scale *treeScale) *tree.Ensemble {
	if targets == 0 || len(f.roots) == 0 {
		return nil
	}
	src := tree.Source{
		Roots: f.roots, Targets: targets, Aggregate: aggregate,
		Nodes: len(f.nodes), Leaves: len(f.first) - 1,
		Node: func(i int32) tree.Node {
			n := &f.nodes[i]
			return tree.Node{Mode: treeKernelModes[n.mode], Feature: n.feature,
				Value: scale.threshold(n.mode, n.feature, n.threshold), Next: n.next, Missing: n.missing}
		},
		Leaf: func(i int32) []tree.Term { return f.votes[f.first[i]:f.first[i+1]] },
	}
	if !slices.ContainsFunc(f.nodes, func(n treeNode) bool { _, ok := treeKernelModes[n.mode]; return !ok }) {
		if e, err := tree.New(src); err == nil {
			return e
		}
	}
	nodes, roots, ok := f.expand(scale)
	if !ok {
		return nil
	}
	src.Roots, src.Nodes, src.Node = roots, len(nodes), func(i int32) tree.Node { return nodes[i] }
	e, err := tree.New(src)
	if err != nil {
		return nil
	}
	return e
}

// Prepare implements [ir.Preparer] for the operators of trees, which stay as they are.
func (m *treeModel) Prepare(_ []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	if x := types[0]; x.Kind == tensor.KindTensor && x.Elem != 0 {
		m.prepare(false, x.Elem)
	}
	return nil, nil, nil
}

// prepare builds the kernel's form when the model is opened, or in the first run if the type of X
// was unknown, and drops the other one if runs do not need it. The engine and the type of X are the
// same in all runs.
func (m *treeModel) prepare(generic bool, x tensor.DType) {
	m.once.Do(func() {
		if generic {
			return
		}
		if x != tensor.TypeFloat32 && x != tensor.TypeFloat16 {
			if m.scale = m.forest.scale(m.features); m.scale == nil {
				return
			}
		}
		if m.fast = m.forest.kernel(m.targets, m.aggregate, m.scale); m.fast != nil {
			m.forest = nil
		}
	})
}

// runKernel is like run, but uses the branchless kernel.
func (m *treeModel) runKernel(c *ir.Call, x []float32, n, cols int, direct []float32,
	done func(i int, scores []float64)) error {
	const worthThreads = 1 << 11 // traversals of a tree
	par := c.Par()
	if n*m.trees < worthThreads {
		par = nil
	}
	if direct != nil {
		tree.Run(m.fast, par, direct, x, n, cols)
		return nil
	}
	scores, err := ir.ScratchOf[float64](c, n*m.targets)
	if err != nil {
		return err
	}
	tree.Run(m.fast, par, scores, x, n, cols)
	c.Parallel(n, kit.GrainFor(16*m.targets), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			done(i, scores[i*m.targets:][:m.targets])
		}
	})
	return nil
}

// finish checks the indices of the nodes and leaves, and that the graph has no cycles;
// nodes may share subtrees.
func (m *treeModel) finish() error {
	f := m.forest
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
					return fail.Errorf("node %d has a missing child", i)
				case k >= 0 && state[k] == open:
					return fail.Errorf("nodes %d and %d form a cycle", i, k)
				case k >= 0 && state[k] == 0:
					stack = append(stack, k)
				}
			}
		}
	}
	for i := range f.nodes {
		n := &f.nodes[i]
		if n.feature < 0 {
			return fail.Errorf("node %d has feature %d, want a non-negative index", i, n.feature)
		}
		m.features = max(m.features, int(n.feature)+1)
	}
	for i, v := range f.votes {
		if v.Target < 0 || int(v.Target) >= m.targets {
			return fail.Errorf("weight %d is for target %d, want 0 to %d", i, v.Target, m.targets-1)
		}
	}
	m.trees = len(f.roots)
	return nil
}

// reachedLeaf returns the index of the leaf of a tree that x reaches.
func reachedLeaf(meter *ir.Meter, f *treeForest, root int32, x []float64) int32 {
	i := root
	for i >= 0 {
		meter.Check(0)
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
			if set := f.members[i]; len(set) > 8 {
				_, ok = slices.BinarySearch(set, v)
			} else {
				for _, m := range set {
					if m >= v {
						ok = m == v
						break
					}
				}
			}
		}
		k := 0
		if ok || n.missing && v != v {
			k = 1
		}
		i = n.next[k]
	}
	return ^i
}

// treeScores combines the leaf weights for one row into scores, which must be zero initially.
func treeScores(meter *ir.Meter, f *treeForest, agg tree.Aggregate, x, scores []float64, seen []bool) {
	if agg == tree.Sum || agg == tree.Average {
		for _, r := range f.roots {
			l := reachedLeaf(meter, f, r, x)
			for _, v := range f.votes[f.first[l]:f.first[l+1]] {
				scores[v.Target] += v.Weight
			}
		}
		return
	}
	clear(seen)
	for _, r := range f.roots {
		l := reachedLeaf(meter, f, r, x)
		for _, v := range f.votes[f.first[l]:f.first[l+1]] {
			s := &scores[v.Target]
			if !seen[v.Target] || agg == tree.Min && v.Weight < *s || agg == tree.Max && v.Weight > *s {
				*s, seen[v.Target] = v.Weight, true
			}
		}
	}
}

// run computes the scores of all rows of x, [N, F] or [F]. It calls done with each row's
// index and scores, to which the base values have not been added. Calls may be
// concurrent. If direct is not nil, the scores may go there instead.
func (m *treeModel) run(c *ir.Call, x *tensor.Tensor, n, cols int, direct []float32,
	done func(i int, scores []float64)) error {
	if cols < m.features {
		return fail.Errorf("X has shape %v, but the trees read feature %d", x.Shape(), m.features-1)
	}
	if n == 0 {
		return nil
	}
	m.prepare(c.Generic, x.DType())
	used := min(m.features, cols)
	if t := x.DType(); m.fast != nil && t != tensor.TypeFloat32 && t != tensor.TypeFloat16 {
		data, err := ir.ScratchOf[float32](c, n*used)
		if err != nil {
			return err
		}
		c.Parallel(n, kit.GrainFor(rankCost*used), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				switch row := data[i*used:][:used]; t {
				case tensor.TypeInt32:
					scaleRow(m.scale, row, tensor.MustData[int32](x)[i*cols:])
				case tensor.TypeInt64:
					scaleRow(m.scale, row, tensor.MustData[int64](x)[i*cols:])
				default:
					scaleRow(m.scale, row, tensor.MustData[float64](x)[i*cols:])
				}
			}
		})
		return m.runKernel(c, data, n, used, direct, done)
	}
	if m.fast != nil {
		data, err := kit.RealIn[float32](c, x)
		if err != nil {
			return err
		}
		return m.runKernel(c, data, n, cols, direct, done)
	}
	if t := x.DType(); used < cols && (t == tensor.TypeInt32 || t == tensor.TypeInt64) {
		data, err := ir.ScratchOf[float64](c, n*used)
		if err != nil {
			return err
		}
		l := cpu.Active()
		c.Parallel(n, kit.GrainFor(used), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				if row := data[i*used:][:used]; t == tensor.TypeInt32 {
					vec.I32ToF64(l, row, tensor.MustData[int32](x)[i*cols:][:used])
				} else {
					vec.I64ToF64(l, row, tensor.MustData[int64](x)[i*cols:][:used])
				}
			}
		})
		return runForest(c, m, data, n, used, done)
	}
	numbers := mlNumbersAs[float64]
	if x.DType() == tensor.TypeFloat16 {
		numbers = kit.RealIn[float64]
	}
	data, err := numbers(c, x)
	if err != nil {
		return err
	}
	return runForest(c, m, data, n, cols, done)
}

func runForest(c *ir.Call, m *treeModel, x []float64, n, cols int, done func(i int, scores []float64)) error {
	const block = 64
	items := (n + block - 1) / block
	spaces := kit.WorkspaceCount(c, items)
	scratch, err := ir.ScratchOf[float64](c, spaces*m.targets)
	if err != nil {
		return err
	}
	flags, err := ir.ScratchOf[bool](c, spaces*m.targets)
	if err != nil {
		return err
	}
	return kit.InWorkspaces(c, items, func(ws, b int) error {
		meter := ir.Meter{C: c}
		scores, seen := scratch[ws*m.targets:][:m.targets], flags[ws*m.targets:][:m.targets]
		for i := b * block; i < min(n, (b+1)*block); i++ {
			clear(scores)
			treeScores(&meter, m.forest, m.aggregate, x[i*cols:][:cols], scores, seen)
			if m.aggregate == tree.Average {
				for k := range scores {
					scores[k] /= float64(m.trees)
				}
			}
			done(i, scores)
		}
		return nil
	})
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

func int32Of[I int | int64](v I) int32 {
	if v < 0 || v > math.MaxInt32-1 {
		return -1
	}
	return int32(v)
}
