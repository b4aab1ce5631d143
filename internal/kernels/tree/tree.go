// Package tree evaluates ensembles of decision trees.
//
// The outcome of a comparison in a tree is hard to predict, so the traversal does not branch on it:
// eight rows traverse one tree together (or one row traverses eight trees), each step computes the
// next node from the outcome, and each traversal takes as many steps as the tree is deep. Shallow
// full trees are stored as heaps, in which the children of node i are 2i and 2i+1; other trees
// store the index of the first child.
package tree

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
)

// Float is the type of features and thresholds.
type Float interface{ float32 | float64 }

// Mode is the comparison of a node.
type Mode uint8

// The modes of ONNX's tree ensembles. Leaf nodes do not compare.
const (
	Leaf Mode = iota
	LEQ       // feature <= value
	LT
	GTE
	GT
	EQ
	NEQ
)

// Node is one node of a tree.
type Node[T Float] struct {
	Mode        Mode
	Feature     int
	Value       T
	True, False int    // children, indices of nodes
	MissingTrue bool   // NaN goes to True
	Weights     []Term // of a leaf
}

// Term is the contribution of a leaf to one target.
type Term struct {
	Target int
	Weight float64
}

// Aggregate is the combination of the values of the trees.
type Aggregate uint8

// The aggregates of ONNX's tree ensembles. Targets without a term are 0.
const (
	Sum Aggregate = iota
	Average
	Min
	Max
)

// maxHeapDepth limits a tree that is stored as a heap to 4 KiB.
const maxHeapDepth = 9

// step is a node of a heap.
type step[T Float] struct {
	value   T
	feature uint32 // the top bit is set if NaN goes to the first child
}

const missingBit = 1 << 31

// branch is a node that stores the index of its children, which are adjacent.
type branch[T Float] struct {
	value   T
	feature uint32
	child   uint32
	one     uint32 // 1, or 0 for a leaf, whose child is the leaf itself
	mode    Mode
	missing bool
}

// walk describes a stored tree.
type walk struct {
	depth int
	first int // index in steps or branches
	leaf  int // index in leaves of the leftmost leaf of a heap, or of node first
}

// Ensemble is a set of trees prepared for evaluation. It is immutable.
type Ensemble[T Float] struct {
	targets  int
	features int // minimum number of columns
	agg      Aggregate
	trees    int
	missing  bool // a node sends NaN to True
	other    bool // a node has another mode than LEQ and LT
	single   bool // one target, at most one term per leaf

	heaps    []walk
	steps    []step[T]
	pointers []walk
	branches []branch[T]

	tables []uint32 // of the heaps, for the kernel of sixteen rows; or nil

	value  []float64  // by leaf, if single is set
	ranges [][2]int32 // terms by leaf, otherwise
	terms  []Term
}

// New prepares the trees with the given roots. It fails if a node, feature or target is out of
// range, or if a node is reached twice.
func New[T Float](nodes []Node[T], roots []int, targets int, agg Aggregate) (*Ensemble[T], error) {
	e := &Ensemble[T]{targets: targets, agg: agg, trees: len(roots), single: targets == 1}
	if targets < 1 {
		return nil, fmt.Errorf("tree ensemble with %d targets, want at least 1", targets)
	}
	b := builder[T]{e: e, nodes: nodes, seen: make([]bool, len(nodes))}
	for i := range nodes {
		n := &nodes[i]
		if n.Mode == Leaf {
			if len(n.Weights) > 1 {
				e.single = false
			}
			for _, w := range n.Weights {
				if w.Target < 0 || w.Target >= targets {
					return nil, fmt.Errorf("node %d adds to target %d of %d", i, w.Target, targets)
				}
			}
			if len(n.Weights) == 0 && (agg == Min || agg == Max) {
				e.single = false // a missing term is not zero for Min and Max
			}
			continue
		}
		if n.Feature < 0 || n.Feature >= missingBit {
			return nil, fmt.Errorf("node %d has feature %d, want 0 to %d", i, n.Feature, missingBit-1)
		}
		if n.Mode > NEQ {
			return nil, fmt.Errorf("node %d has unknown mode %d", i, n.Mode)
		}
		e.features = max(e.features, n.Feature+1)
		e.missing = e.missing || n.MissingTrue
		e.other = e.other || n.Mode > LT
	}
	for t, r := range roots {
		if err := b.add(r); err != nil {
			return nil, fmt.Errorf("tree %d: %w", t, err)
		}
	}
	e.tabulate(cpu.Active())
	return e, nil
}

// Features returns the minimum number of columns of the rows.
func (e *Ensemble[T]) Features() int { return e.features }

type builder[T Float] struct {
	e     *Ensemble[T]
	nodes []Node[T]
	seen  []bool
	order []int // nodes of the tree, breadth first
	depth int
}

// add stores one tree.
func (b *builder[T]) add(root int) error {
	e := b.e
	b.order, b.depth = b.order[:0], 0
	visit := func(i, parent int) error {
		if i < 0 || i >= len(b.nodes) {
			return fmt.Errorf("node %d has child %d, the number of nodes is %d", parent, i, len(b.nodes))
		}
		if b.seen[i] {
			return fmt.Errorf("node %d is reached a second time, from node %d", i, parent)
		}
		b.seen[i] = true
		b.order = append(b.order, i)
		return nil
	}
	if err := visit(root, root); err != nil {
		return err
	}
	for lo := 0; lo < len(b.order); { // one level per iteration
		hi := len(b.order)
		for ; lo < hi; lo++ {
			i := b.order[lo]
			n := &b.nodes[i]
			if n.Mode == Leaf {
				continue
			}
			if err := visit(n.True, i); err != nil {
				return err
			}
			if err := visit(n.False, i); err != nil {
				return err
			}
		}
		if len(b.order) > hi {
			b.depth++
		}
	}
	if !e.other && b.depth <= maxHeapDepth && 1<<b.depth <= 4*len(b.order) {
		w := walk{depth: b.depth, first: len(e.steps), leaf: e.leaves()}
		e.steps = append(e.steps, make([]step[T], 1<<b.depth)...)
		e.grow(1 << b.depth)
		b.heap(&w, root, 1, 0)
		e.heaps = append(e.heaps, w)
		return nil
	}
	w := walk{depth: b.depth, first: len(e.branches), leaf: e.leaves()}
	e.grow(len(b.order))
	at := w.first + 1 // children are stored in the order of their parents
	for k, i := range b.order {
		n := &b.nodes[i]
		br := branch[T]{child: uint32(w.first + k), mode: n.Mode}
		if n.Mode == Leaf {
			e.setLeaf(w.leaf+k, n.Weights)
		} else {
			br.value, br.mode = threshold(n)
			br.feature, br.missing, br.child, br.one = uint32(n.Feature), n.MissingTrue, uint32(at), 1
			at += 2
		}
		e.branches = append(e.branches, br)
	}
	e.pointers = append(e.pointers, w)
	return nil
}

// threshold converts LT to LEQ of the next smaller value. No value is less than -Inf.
func threshold[T Float](n *Node[T]) (T, Mode) {
	if n.Mode != LT {
		return n.Value, n.Mode
	}
	switch v := any(n.Value).(type) {
	case float32:
		if math.IsInf(float64(v), -1) {
			return T(math.NaN()), LEQ
		}
		return T(math.Nextafter32(v, float32(math.Inf(-1)))), LEQ
	case float64:
		if math.IsInf(v, -1) {
			return T(math.NaN()), LEQ
		}
		return T(math.Nextafter(v, math.Inf(-1))), LEQ
	}
	panic("unreachable")
}

// heap stores node i at position p of level d. A leaf above the last level fills all nodes below
// it.
func (b *builder[T]) heap(w *walk, i, p, d int) {
	n := &b.nodes[i]
	if n.Mode == Leaf {
		lo, hi := p<<(w.depth-d)-1<<w.depth, (p+1)<<(w.depth-d)-1<<w.depth
		for k := lo; k < hi; k++ {
			b.e.setLeaf(w.leaf+k, n.Weights)
		}
		return
	}
	s := &b.e.steps[w.first+p]
	s.value, _ = threshold(n)
	s.feature = uint32(n.Feature)
	if n.MissingTrue {
		s.feature |= missingBit
	}
	b.heap(w, n.True, 2*p, d+1)
	b.heap(w, n.False, 2*p+1, d+1)
}

func (e *Ensemble[T]) leaves() int {
	if e.single {
		return len(e.value)
	}
	return len(e.ranges)
}

func (e *Ensemble[T]) grow(n int) {
	if e.single {
		e.value = append(e.value, make([]float64, n)...)
	} else {
		e.ranges = append(e.ranges, make([][2]int32, n)...)
	}
}

func (e *Ensemble[T]) setLeaf(i int, terms []Term) {
	if e.single {
		if len(terms) > 0 {
			e.value[i] = terms[0].Weight
		}
		return
	}
	lo := len(e.terms)
	e.terms = append(e.terms, terms...)
	e.ranges[i] = [2]int32{int32(lo), int32(len(e.terms))}
}

// lanesN is the number of traversals that advance together.
const lanesN = 8

// Run writes the aggregated values of the rows to dst, rows×targets. x has rows rows of at least
// Features values at stride ldx. par distributes the rows; if it is nil, one call computes
// everything. The sums are float64.
func (e *Ensemble[T]) Run(par gemm.Par, dst, x []T, rows, ldx int) {
	if rows == 0 {
		return
	}
	_, _ = dst[rows*e.targets-1], x[:(rows-1)*ldx+e.features]
	if par == nil {
		e.run(dst, x, ldx, 0, rows)
		return
	}
	groups := (rows + heapLanes - 1) / heapLanes
	par(groups, func(lo, hi int) { e.run(dst, x, ldx, lo*heapLanes, min(rows, hi*heapLanes)) })
}

// sums holds the state of up to eight rows.
type sums struct {
	v   []float64 // [row][target]
	set []bool    // for Min and Max
}

func (e *Ensemble[T]) run(dst, x []T, ldx, lo, hi int) {
	var s sums
	const few = 10 // targets that need no allocation
	var v [lanesN * few]float64
	var set [lanesN * few]bool
	s.v, s.set = v[:], set[:]
	if e.targets > few {
		s.v, s.set = make([]float64, lanesN*e.targets), make([]bool, lanesN*e.targets)
	}
	s.v, s.set = s.v[:lanesN*e.targets], s.set[:lanesN*e.targets]
	if e.single || e.agg < Min {
		s.set = nil
	}
	for r := lo + e.heapRows16(dst, x, ldx, lo, hi); r < hi; {
		n := min(lanesN, hi-r)
		e.start(&s)
		if n == lanesN {
			e.rows(&s, x[r*ldx:], ldx)
		} else {
			n = 1
			e.row(&s, x[r*ldx:])
		}
		for i, v := range s.v[:n*e.targets] {
			switch {
			case s.set != nil && !s.set[i]:
				v = 0
			case e.agg == Average:
				v /= float64(e.trees)
			}
			dst[r*e.targets+i] = T(v)
		}
		r += n
	}
}

func (e *Ensemble[T]) start(s *sums) {
	v := 0.0
	switch {
	case e.trees == 0:
	case e.agg == Min:
		v = math.Inf(1)
	case e.agg == Max:
		v = math.Inf(-1)
	}
	for i := range s.v {
		s.v[i] = v
	}
	clear(s.set)
}

// leaf adds leaf i to row r.
func (e *Ensemble[T]) leaf(s *sums, r, i int) {
	if e.single {
		switch e.agg {
		case Min:
			s.v[r] = min(s.v[r], e.value[i])
		case Max:
			s.v[r] = max(s.v[r], e.value[i])
		default:
			s.v[r] += e.value[i]
		}
		return
	}
	g := e.ranges[i]
	for _, t := range e.terms[g[0]:g[1]] {
		k := r*e.targets + t.Target
		switch e.agg {
		case Min:
			s.v[k] = min(s.v[k], t.Weight)
			s.set[k] = true
		case Max:
			s.v[k] = max(s.v[k], t.Weight)
			s.set[k] = true
		default:
			s.v[k] += t.Weight
		}
	}
}

// next returns 1 for the second child. If missing is set, NaN goes to the first child of nodes with
// the bit.
func next[T Float](v, value T, feature uint32, missing bool) uintptr {
	b := uintptr(0)
	if !(v <= value) {
		b = 1
	}
	if missing && v != v {
		b = uintptr(^feature >> 31)
	}
	return b
}

// rows evaluates eight rows in every tree.
func (e *Ensemble[T]) rows(s *sums, x []T, ldx int) {
	var z T
	p, stride := unsafe.Pointer(unsafe.SliceData(x)), uintptr(ldx)*unsafe.Sizeof(z)
	for i := range e.heaps {
		w := &e.heaps[i]
		var l [lanesN]uintptr
		if w.depth > 0 {
			l = heapRows[T](unsafe.Pointer(&e.steps[w.first]), w.depth, p, stride, e.missing)
		}
		if e.single && e.agg <= Average {
			leaf := e.value[w.leaf:][:1<<w.depth]
			for r := range l {
				s.v[r] += leaf[l[r]]
			}
			continue
		}
		for r := range l {
			e.leaf(s, r, w.leaf+int(l[r]))
		}
	}
	for i := range e.pointers {
		w := &e.pointers[i]
		var l [lanesN]uint32
		if e.other {
			for r := range l {
				l[r] = e.down(w, x[r*ldx:])
			}
		} else {
			l = pointerRows(e.branches, w, p, stride, e.missing)
		}
		for r := range l {
			e.leaf(s, r, w.leaf+int(l[r])-w.first)
		}
	}
}

// heapRows returns the leaves, counted from the left, that eight rows reach in the heap at nodes.
func heapRows[T Float](nodes unsafe.Pointer, depth int, x unsafe.Pointer, stride uintptr, missing bool) (l [lanesN]uintptr) {
	var i0, i1, i2, i3, i4, i5, i6, i7 uintptr = 1, 1, 1, 1, 1, 1, 1, 1
	x0, x1, x2, x3 := x, unsafe.Add(x, stride), unsafe.Add(x, 2*stride), unsafe.Add(x, 3*stride)
	x4, x5, x6, x7 := unsafe.Add(x, 4*stride), unsafe.Add(x, 5*stride), unsafe.Add(x, 6*stride), unsafe.Add(x, 7*stride)
	if missing {
		for range depth {
			i0 = down[T](nodes, i0, x0)
			i1 = down[T](nodes, i1, x1)
			i2 = down[T](nodes, i2, x2)
			i3 = down[T](nodes, i3, x3)
			i4 = down[T](nodes, i4, x4)
			i5 = down[T](nodes, i5, x5)
			i6 = down[T](nodes, i6, x6)
			i7 = down[T](nodes, i7, x7)
		}
	} else {
		for range depth {
			i0 = downPlain[T](nodes, i0, x0)
			i1 = downPlain[T](nodes, i1, x1)
			i2 = downPlain[T](nodes, i2, x2)
			i3 = downPlain[T](nodes, i3, x3)
			i4 = downPlain[T](nodes, i4, x4)
			i5 = downPlain[T](nodes, i5, x5)
			i6 = downPlain[T](nodes, i6, x6)
			i7 = downPlain[T](nodes, i7, x7)
		}
	}
	m := uintptr(1) << depth
	return [lanesN]uintptr{i0 - m, i1 - m, i2 - m, i3 - m, i4 - m, i5 - m, i6 - m, i7 - m}
}

// evenHeaps reports whether eight heaps have one depth.
func evenHeaps(w *[lanesN]walk) bool {
	for k := range w {
		if w[k].depth != w[0].depth {
			return false
		}
	}
	return true
}

// heapTrees returns the leaves, counted from the left, that one row reaches in eight adjacent heaps
// of equal depth.
func heapTrees[T Float](nodes unsafe.Pointer, depth int, x unsafe.Pointer) (l [lanesN]uintptr) {
	var i0, i1, i2, i3, i4, i5, i6, i7 uintptr = 1, 1, 1, 1, 1, 1, 1, 1
	size := unsafe.Sizeof(step[T]{}) << depth
	n1, n2, n3 := unsafe.Add(nodes, size), unsafe.Add(nodes, 2*size), unsafe.Add(nodes, 3*size)
	n4, n5, n6, n7 := unsafe.Add(nodes, 4*size), unsafe.Add(nodes, 5*size), unsafe.Add(nodes, 6*size), unsafe.Add(nodes, 7*size)
	for range depth {
		i0 = downPlain[T](nodes, i0, x)
		i1 = downPlain[T](n1, i1, x)
		i2 = downPlain[T](n2, i2, x)
		i3 = downPlain[T](n3, i3, x)
		i4 = downPlain[T](n4, i4, x)
		i5 = downPlain[T](n5, i5, x)
		i6 = downPlain[T](n6, i6, x)
		i7 = downPlain[T](n7, i7, x)
	}
	m := uintptr(1) << depth
	return [lanesN]uintptr{i0 - m, i1 - m, i2 - m, i3 - m, i4 - m, i5 - m, i6 - m, i7 - m}
}

func downPlain[T Float](nodes unsafe.Pointer, i uintptr, x unsafe.Pointer) uintptr {
	n := (*step[T])(unsafe.Add(nodes, i*unsafe.Sizeof(step[T]{})))
	v := *(*T)(unsafe.Add(x, uintptr(n.feature)*unsafe.Sizeof(n.value)))
	b := uintptr(0)
	if !(v <= n.value) {
		b = 1
	}
	return 2*i + b
}

func down[T Float](nodes unsafe.Pointer, i uintptr, x unsafe.Pointer) uintptr {
	n := (*step[T])(unsafe.Add(nodes, i*unsafe.Sizeof(step[T]{})))
	v := *(*T)(unsafe.Add(x, uintptr(n.feature&^missingBit)*unsafe.Sizeof(n.value)))
	return 2*i + next(v, n.value, n.feature, true)
}

// pointerRows returns the leaves that eight rows reach in a tree of branches.
func pointerRows[T Float](branches []branch[T], w *walk, x unsafe.Pointer, stride uintptr, missing bool) (l [lanesN]uint32) {
	for r := range l {
		l[r] = uint32(w.first)
	}
	for range w.depth {
		for r := range l {
			n := &branches[l[r]]
			v := *(*T)(unsafe.Add(x, uintptr(r)*stride+uintptr(n.feature)*unsafe.Sizeof(n.value)))
			b := uint32(0)
			if !(v <= n.value) {
				b = 1
			}
			if missing && n.missing && v != v {
				b = 0
			}
			l[r] = n.child + b&n.one
		}
	}
	return l
}

// row evaluates one row in all trees, eight heaps at a time.
func (e *Ensemble[T]) row(s *sums, x []T) {
	p := unsafe.Pointer(unsafe.SliceData(x))
	i := 0
	for ; i+lanesN <= len(e.heaps); i += lanesN {
		w := (*[lanesN]walk)(e.heaps[i:])
		deepest := 0
		var at [lanesN]uintptr
		for k := range at {
			at[k] = 1
			deepest = max(deepest, w[k].depth)
		}
		// Heaps of equal depth are adjacent, at equal distances.
		if size := w[1].first - w[0].first; !e.missing && e.single && e.agg <= Average && deepest > 0 && size == 1<<deepest && w[7].first == w[0].first+7*size && w[0].depth == deepest && evenHeaps(w) {
			at := heapTrees[T](unsafe.Pointer(&e.steps[w[0].first]), deepest, p)
			leaf := e.value[w[0].leaf:][:lanesN<<deepest]
			v := s.v[0]
			for k, i := range at {
				v += leaf[k<<deepest+int(i)]
			}
			s.v[0] = v
			continue
		}
		for d := range deepest {
			for k := range at {
				if d >= w[k].depth {
					continue
				}
				n := &e.steps[w[k].first+int(at[k])]
				v := *(*T)(unsafe.Add(p, uintptr(n.feature&^missingBit)*unsafe.Sizeof(n.value)))
				at[k] = 2*at[k] + next(v, n.value, n.feature, e.missing)
			}
		}
		for k := range at {
			e.leaf(s, 0, w[k].leaf+int(at[k])-1<<w[k].depth)
		}
	}
	for ; i < len(e.heaps); i++ {
		w := &e.heaps[i]
		at := uintptr(1)
		for range w.depth {
			n := &e.steps[w.first+int(at)]
			at = 2*at + next(x[n.feature&^missingBit], n.value, n.feature, e.missing)
		}
		e.leaf(s, 0, w.leaf+int(at)-1<<w.depth)
	}
	for i := range e.pointers {
		w := &e.pointers[i]
		e.leaf(s, 0, w.leaf+int(e.down(w, x))-w.first)
	}
}

// down evaluates one row in one tree of branches with any mode.
func (e *Ensemble[T]) down(w *walk, x []T) uint32 {
	i := uint32(w.first)
	for {
		n := &e.branches[i]
		if n.one == 0 {
			return i
		}
		v := x[n.feature]
		var yes bool
		switch n.mode {
		case LEQ:
			yes = v <= n.value
		case GTE:
			yes = v >= n.value
		case GT:
			yes = v > n.value
		case EQ:
			yes = v == n.value
		case NEQ:
			yes = v != n.value
		}
		if n.missing && v != v {
			yes = true
		}
		i = n.child
		if !yes {
			i++
		}
	}
}
