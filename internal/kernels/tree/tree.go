// Package tree evaluates ensembles of decision trees.
//
// The result of a comparison in a tree is hard to predict, so the traversal does not branch on it: each step computes the
// next node from the result of its comparison, and a traversal takes as many steps as the tree is deep. Eight
// traversals, of one tree by eight rows or of eight trees by one row, do not depend on each other, so that the processor
// overlaps them.
package tree

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/onward-ml/onward/internal/cpu"
)

// Mode is the comparison of a node.
type Mode uint8

// The modes of ONNX's tree ensembles that have one threshold and an order.
const (
	LEQ Mode = iota
	LT
	GTE
	GT
)

// Node compares a feature with a threshold. Next has the successors if the comparison is false and
// true: the index of a node, or ^leaf.
type Node struct {
	Value   float32
	Feature int32
	Next    [2]int32
	Mode    Mode
	Missing bool // NaN takes Next[1]
}

// Term is the contribution of a leaf to one target.
type Term struct {
	Target int32
	Weight float64
}

// Source is an ensemble to prepare. Node and Leaf are called for each reachable node and leaf.
type Source struct {
	Roots   []int32 // nodes or ^leaf
	Nodes   int
	Node    func(i int32) Node
	Leaves  int
	Leaf    func(i int32) []Term // valid until the next call
	Targets int
	Average bool // of the trees' values instead of their sum
}

// A node takes two words: the threshold, and the feature with the index of the first child in the bits above it. The
// second child is the next node. The threshold of a leaf is a NaN, whose low bits are the number of the leaf in its tree,
// and its child is the node before it: as no number is at most NaN, a traversal that has reached a leaf stays there.
const (
	leafNaN  = 0x7fc00000
	leafBits = 22
	innerNaN = 0xffc00000 // threshold of other nodes that no number is at most
)

func isLeaf(threshold uint32) bool { return threshold>>leafBits == leafNaN>>leafBits }

// walk describes a stored tree.
type walk struct {
	at     int   // index of its first node
	leaf   int   // index of its first leaf
	target int32 // of all leaves, if the form is one
	depth  int32
	table  int  // index of its table, or -1
	full   bool // all leaves are on the last level
}

// form is what a leaf stands for.
type form uint8

const (
	one    form = iota // a weight; all leaves of a tree add to one target
	dense              // a row of weights, one per target
	sparse             // a list of terms
)

// Ensemble is a set of trees prepared for evaluation. It is immutable.
type Ensemble struct {
	targets  int
	features int // minimum number of columns
	trees    []walk
	average  bool
	bits     uint     // of a node's feature
	nodes    []uint32 // two words each
	missing  []uint64 // set of nodes that send NaN to their first child; nil if none does

	form      form
	weights   []float32
	weights64 []float64 // instead of weights, if float32 does not hold all of them exactly
	starts    []int32   // list i is terms[starts[i]:starts[i+1]]
	terms     []Term

	tables []uint32 // of shallow trees, for the kernel of sixteen rows; may be nil
	slots  []uint8  // their leaves, at the position below the last level modulo 64
}

// New prepares an ensemble. It fails if an index is out of range, if a node is reached twice, if a threshold
// of GT or GTE is NaN, or if a tree has more nodes and features than its words hold.
func New(s Source) (*Ensemble, error) {
	if s.Targets < 1 {
		return nil, fmt.Errorf("tree ensemble with %d targets, want at least 1", s.Targets)
	}
	e := &Ensemble{targets: s.Targets, average: s.Average}
	b := builder{e: e, s: &s, seen: make([]uint64, (s.Nodes+63)/64)}
	if err := b.survey(); err != nil {
		return nil, err
	}
	tables := cpu.Active() == cpu.AVX512
	for t, r := range s.Roots {
		if err := b.add(r, tables); err != nil {
			return nil, fmt.Errorf("tree %d: %w", t, err)
		}
	}
	return e, nil
}

// Features returns the minimum number of columns of the rows.
func (e *Ensemble) Features() int { return e.features }

type builder struct {
	e      *Ensemble
	s      *Source
	seen   []uint64
	order  []int32 // nodes and leaves of a tree, breadth first
	leaves int
	exact  bool // float32 holds all weights exactly
}

// node returns node i with the comparison LEQ, and the successors of true and false. The comparison v < t is v ≤ t',
// where t' is the number before t. The comparisons v ≥ t and v > t are negations, with the successors
// swapped, for which NaN must be sent to the other one too.
func (b *builder) node(i int32) (n Node, first, second int32) {
	n = b.s.Node(i)
	first, second = n.Next[1], n.Next[0]
	if n.Mode == LT || n.Mode == GTE {
		if math.IsInf(float64(n.Value), -1) {
			n.Value = float32(math.NaN()) // no number is less than -∞
		} else {
			n.Value = math.Nextafter32(n.Value, float32(math.Inf(-1)))
		}
	}
	if n.Mode >= GTE {
		first, second = second, first
		n.Missing = !n.Missing
	}
	return n, first, second
}

// survey checks the ensemble and chooses the form of its leaves.
func (b *builder) survey() error {
	e, s := b.e, b.s
	b.exact = true
	var terms, leaves, nodes, target int
	var missing bool
	single := true // all leaves of each tree have at most one term, for the same target
	var stack []int32
	visit := func(i int32) error {
		if i >= 0 {
			switch {
			case int(i) >= s.Nodes:
				return fmt.Errorf("got node %d, the number of nodes is %d", i, s.Nodes)
			case b.seen[i/64]>>(i%64)&1 != 0:
				return fmt.Errorf("node %d is reached a second time", i)
			}
			b.seen[i/64] |= 1 << (i % 64)
			stack = append(stack, i)
			return nil
		}
		if int(^i) >= s.Leaves {
			return fmt.Errorf("got leaf %d, the number of leaves is %d", ^i, s.Leaves)
		}
		leaves++
		t := s.Leaf(^i)
		terms += len(t)
		single = single && len(t) < 2
		for k, w := range t {
			if w.Target < 0 || int(w.Target) >= s.Targets {
				return fmt.Errorf("leaf %d adds to target %d of %d", ^i, w.Target, s.Targets)
			}
			single = single && (target < 0 || int(w.Target) == target)
			target = int(w.Target)
			// Weights for the same target are added, which may round.
			b.exact = b.exact && (float64(float32(w.Weight)) == w.Weight || w.Weight != w.Weight) && (k == 0 || t[k-1].Target < w.Target)
		}
		return nil
	}
	for t, r := range s.Roots {
		if target = -1; r < 0 {
			leaves++ // add stores it twice
		}
		err := visit(r)
		for err == nil && len(stack) > 0 {
			i := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			nodes++
			n := s.Node(i)
			if n.Feature < 0 {
				return fmt.Errorf("tree %d: node %d has feature %d, want at least 0", t, i, n.Feature)
			}
			if n.Mode > GT || n.Mode >= GTE && n.Value != n.Value {
				return fmt.Errorf("tree %d: node %d compares by mode %d with %g", t, i, n.Mode, n.Value)
			}
			e.features = max(e.features, int(n.Feature)+1)
			missing = missing || n.Missing != (n.Mode >= GTE)
			if err = visit(n.Next[0]); err == nil {
				err = visit(n.Next[1])
			}
		}
		if err != nil {
			return fmt.Errorf("tree %d: %w", t, err)
		}
	}
	e.bits = uint(bits.Len(uint(max(1, e.features) - 1)))
	e.trees = make([]walk, 0, len(s.Roots))
	e.nodes = make([]uint32, 0, 2*(nodes+leaves))
	if missing {
		e.missing = make([]uint64, (nodes+leaves+63)/64)
	}
	switch {
	case single && b.exact:
		e.form = one
		e.weights = make([]float32, 0, leaves)
	case 2*terms < leaves*s.Targets:
		e.form = sparse
		e.starts = append(make([]int32, 0, leaves+1), 0)
		e.terms = make([]Term, 0, terms)
	case b.exact:
		e.form = dense
		e.weights = make([]float32, 0, leaves*s.Targets)
	default:
		e.form = dense
		e.weights64 = make([]float64, 0, leaves*s.Targets)
	}
	return nil
}

// add stores one tree, its nodes breadth first. Children have the order of their parents, so that those
// of a node are adjacent.
func (b *builder) add(root int32, tables bool) error {
	e := b.e
	w := walk{at: len(e.nodes) / 2, leaf: b.leaves, table: -1}
	b.order = append(b.order[:0], root)
	if root < 0 { // a second one, which the first one leads to
		b.order = append(b.order, root)
	}
	for lo := 0; lo < len(b.order); w.depth++ { // one level per iteration
		for hi := len(b.order); lo < hi; lo++ {
			i, at := b.order[lo], w.at+lo
			if i < 0 {
				n := b.leaves - w.leaf
				if n >= 1<<leafBits {
					return fmt.Errorf("it has more than %d leaves", 1<<leafBits)
				}
				b.leaf(^i, &w)
				e.nodes = append(e.nodes, leafNaN|uint32(n), uint32(max(lo-1, 0))<<e.bits)
				continue
			}
			n, first, second := b.node(i)
			threshold := math.Float32bits(n.Value)
			if n.Value != n.Value {
				threshold = innerNaN
			}
			e.nodes = append(e.nodes, threshold, uint32(len(b.order))<<e.bits|uint32(n.Feature))
			if n.Missing {
				e.missing[at/64] |= 1 << (at % 64)
			}
			b.order = append(b.order, first, second)
		}
	}
	w.depth--
	w.full = b.leaves-w.leaf == 1<<w.depth
	if limit := uint64(1) << (32 - e.bits); uint64(len(b.order)) > limit {
		return fmt.Errorf("it has %d nodes, want at most %d with %d features", len(b.order), limit, e.features)
	}
	if tables && w.depth >= 1 && w.depth <= heapLevels {
		w.table = len(e.tables) / heapTable
		e.tables = append(e.tables, make([]uint32, heapTable)...)
		e.tables[len(e.tables)-heapTable/2] = uint32(w.depth)
		e.slots = append(e.slots, make([]uint8, heapTable/2)...)
		e.tabulate(&w, 0, 1, 0)
	}
	e.trees = append(e.trees, w)
	return nil
}

// tabulate stores node i at position p of level d of the table. A leaf above the last level is stored in
// the place of each leaf below it.
func (e *Ensemble) tabulate(w *walk, i, p, d int) {
	n := e.nodes[2*(w.at+i):]
	if isLeaf(n[0]) {
		for q := p << (int(w.depth) - d); q < (p+1)<<(int(w.depth)-d); q++ {
			e.slots[w.table*heapTable/2+q%(heapTable/2)] = uint8(n[0])
		}
		return
	}
	t := e.tables[w.table*heapTable:]
	t[p], t[heapTable/2+p] = n[0], n[1]&(1<<e.bits-1)
	e.tabulate(w, int(n[1]>>e.bits), 2*p, d+1)
	e.tabulate(w, int(n[1]>>e.bits)+1, 2*p+1, d+1)
}

// leaf stores the terms of the next leaf of a tree.
func (b *builder) leaf(i int32, w *walk) {
	e, terms := b.e, b.s.Leaf(i)
	b.leaves++
	switch {
	case e.form == one:
		v := float32(0)
		if len(terms) > 0 {
			v, w.target = float32(terms[0].Weight), terms[0].Target
		}
		e.weights = append(e.weights, v)
	case e.form == sparse:
		e.terms = append(e.terms, terms...)
		e.starts = append(e.starts, int32(len(e.terms)))
	case e.weights64 != nil:
		row := len(e.weights64)
		e.weights64 = e.weights64[:row+e.targets]
		for _, t := range terms {
			e.weights64[row+int(t.Target)] += t.Weight
		}
	default:
		row := len(e.weights)
		e.weights = e.weights[:row+e.targets]
		for _, t := range terms {
			e.weights[row+int(t.Target)] += float32(t.Weight)
		}
	}
}
