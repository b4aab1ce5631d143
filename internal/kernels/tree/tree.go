// Package tree evaluates ensembles of decision trees.
//
// The result of a comparison in a tree is hard to predict, so the traversal does not branch on it:
// each step computes the next node from the result of its comparison, and a traversal takes as many
// steps as the tree is deep. Eight traversals, of any trees by any rows, do not depend on each
// other, so that the processor overlaps them.
//
// Numbers are compared as integers of the same order, because the latency of that is a third of
// that of comparing floats.
package tree

import (
	"math"
	"math/bits"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
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

// Aggregate is the function that combines the weights of the trees' leaves for a target; the values
// are those of TreeEnsemble-5.
type Aggregate uint8

// The aggregates of ONNX's tree ensembles. The minimum and the maximum of no weights are 0.
const (
	Average Aggregate = iota
	Sum
	Min
	Max
)

// Term is the contribution of a leaf to one target.
type Term struct {
	Target int32
	Weight float64
}

// Source is an ensemble to prepare. Node and Leaf are called for each reachable node and leaf.
type Source struct {
	Roots     []int32 // nodes or ^leaf
	Nodes     int
	Node      func(i int32) Node
	Leaves    int
	Leaf      func(i int32) []Term // valid until the next call
	Targets   int
	Aggregate Aggregate
}

// A node is one number. The upper half is the key of the threshold ([vec.Order]), the lower half
// the feature with the distance to the first child in the bits above it. The second child is the
// next node. The threshold of a leaf is above the key of every number, and its distance is 0, so
// that a traversal that has reached a leaf stays there. Its low bits are the number of the leaf in
// its tree.
const (
	leafKey  = 0xffc00000
	leafBits = 22
)

func isLeaf(node uint64) bool { return node>>(32+leafBits) == leafKey>>leafBits }

// leafOf returns the number of a leaf in its tree.
func leafOf(node uint64) uint32 { return uint32(node>>32) &^ leafKey }

// thresholdKey returns the key that is less than those of the numbers greater than v, and of NaN.
func thresholdKey(v float32) uint32 {
	if v != v {
		return 0 // no number is at most NaN
	}
	return vec.Order(v + 0) // +0 for −0
}

const lineNodes = memory.Line / 8 // nodes of a cache line

// walk describes a stored tree.
type walk struct {
	leaf   int   // index of its first leaf
	target int32 // of all leaves, if the form is one
	depth  int32
}

// form is the kind of a leaf's weights.
type form uint8

const (
	one    form = iota // a weight; all leaves of a tree add to one target
	dense              // a row of weights, one per target
	sparse             // a list of terms
)

// Ensemble is a set of trees prepared for evaluation. It is immutable.
type Ensemble struct {
	targets   int
	features  int // minimum number of columns
	trees     []walk
	roots     []uint32 // indices of nodes
	aggregate Aggregate
	bits      uint // of a node's feature
	nodes     []uint64
	missing   []uint64 // set of nodes that send NaN to their first child; nil if it is empty

	form      form
	weights   []float32
	weights64 []float64 // instead of weights, if float32 does not hold all of them exactly
	starts    []int32   // list i is terms[starts[i]:starts[i+1]]
	terms     []Term    // with negated weights for Min

	// Tables for the kernel of sixteen rows, if all trees are shallow. Their leaves, or weights if
	// the form is one and the targets are few, are at the position below the last level modulo 64.
	tables      []uint32
	slots       []uint8
	slotWeights []float32
}

// New prepares an ensemble. It fails if an index is out of range or a node is reached twice. It
// also fails if a threshold of GT or GTE is NaN, a weight for Min or Max is not finite, or the
// nodes and features of a tree do not fit its words.
func New(s Source) (*Ensemble, error) {
	if s.Targets < 1 {
		return nil, fail.Errorf("tree ensemble with %d targets, want at least 1", s.Targets)
	}
	e := &Ensemble{targets: s.Targets, aggregate: s.Aggregate}
	b := builder{e: e, s: &s, seen: make([]uint64, (s.Nodes+63)/64)}
	if err := b.survey(); err != nil {
		return nil, err
	}
	for t, r := range s.Roots {
		if err := b.add(r); err != nil {
			return nil, fail.Errorf("tree %d: %w", t, err)
		}
	}
	nodes := memory.Slice[uint64](len(e.nodes))
	copy(nodes, e.nodes)
	e.nodes = nodes
	e.tabulate()
	return e, nil
}

// extreme says that a leaf is a list of terms, of which the greatest per target counts.
func (e *Ensemble) extreme() bool { return e.aggregate >= Min }

type builder struct {
	e      *Ensemble
	s      *Source
	seen   []uint64
	leaves int
	exact  bool // float32 holds all weights exactly
}

// node returns node i with the comparison LEQ, and the successors of true and false. The comparison
// v < t is v ≤ t', where t' is the number before t. The comparisons v ≥ t and v > t are negations,
// with the successors swapped, for which NaN must be sent to the other one too.
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
				return fail.Errorf("got node %d, the number of nodes is %d", i, s.Nodes)
			case b.seen[i/64]>>(i%64)&1 != 0:
				return fail.Errorf("node %d is reached a second time", i)
			}
			b.seen[i/64] |= 1 << (i % 64)
			stack = append(stack, i)
			return nil
		}
		if int(^i) >= s.Leaves {
			return fail.Errorf("got leaf %d, the number of leaves is %d", ^i, s.Leaves)
		}
		leaves++
		t := s.Leaf(^i)
		terms += len(t)
		single = single && len(t) < 2
		for k, w := range t {
			if w.Target < 0 || int(w.Target) >= s.Targets {
				return fail.Errorf("leaf %d adds to target %d of %d", ^i, w.Target, s.Targets)
			}
			if e.extreme() && w.Weight-w.Weight != 0 {
				return fail.Errorf("leaf %d has the weight %g, want a finite one", ^i, w.Weight)
			}
			single = single && (target < 0 || int(w.Target) == target)
			target = int(w.Target)
			// Weights for the same target are added, which may round.
			b.exact = b.exact && (float64(float32(w.Weight)) == w.Weight || w.Weight != w.Weight) &&
				(k == 0 || t[k-1].Target < w.Target)
		}
		return nil
	}
	for t, r := range s.Roots {
		target = -1
		err := visit(r)
		for err == nil && len(stack) > 0 {
			i := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			nodes++
			n := s.Node(i)
			if n.Feature < 0 {
				return fail.Errorf("tree %d: node %d has feature %d, want at least 0", t, i, n.Feature)
			}
			if n.Mode > GT || n.Mode >= GTE && n.Value != n.Value {
				return fail.Errorf("tree %d: node %d compares by mode %d with %g", t, i, n.Mode, n.Value)
			}
			e.features = max(e.features, int(n.Feature)+1)
			missing = missing || n.Missing != (n.Mode >= GTE)
			if err = visit(n.Next[0]); err == nil {
				err = visit(n.Next[1])
			}
		}
		if err != nil {
			return fail.Errorf("tree %d: %w", t, err)
		}
	}
	e.bits = uint(bits.Len(uint(max(1, e.features) - 1)))
	e.trees = make([]walk, 0, len(s.Roots))
	most := 2 * (nodes + leaves + lineNodes*len(s.Roots)) // two consecutive subtrees fill more than a line
	if uint64(most) > math.MaxUint32 {
		return fail.Errorf("got %d nodes and leaves in %d trees, want at most %d", nodes+leaves,
			len(s.Roots), math.MaxUint32/2)
	}
	e.roots = make([]uint32, 0, len(s.Roots))
	e.nodes = make([]uint64, 0, nodes+leaves)
	if missing {
		e.missing = make([]uint64, (most+63)/64)
	}
	switch {
	case single && !e.extreme():
		e.form = one
		if b.exact {
			e.weights = make([]float32, 0, leaves)
		} else {
			e.weights64 = make([]float64, 0, leaves)
		}
	case e.extreme() || 2*terms < leaves*s.Targets:
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

// siblings are two adjacent nodes, or the root alone.
type siblings struct {
	nodes  [2]int32
	n      int
	parent int // index in the ensemble's nodes
	level  int32
}

// lineSize returns the number of nodes that are stored in one line with s at the top.
func (b *builder) lineSize(s siblings) int {
	line := append(make([]int32, 0, lineNodes+1), s.nodes[:s.n]...)
	for k := 0; k < len(line) && len(line)+2 <= lineNodes; k++ {
		if i := line[k]; i >= 0 {
			_, first, second := b.node(i)
			line = append(line, first, second)
		}
	}
	return len(line)
}

// add stores one tree. The children of a node are adjacent, and each cache line holds a subtree,
// from the top level by level, so that a traversal reads few lines.
func (b *builder) add(root int32) error {
	e := b.e
	w := walk{leaf: b.leaves}
	var line []siblings
	queue := []siblings{{nodes: [2]int32{root}, n: 1}} // tops of lines
	for next := 0; next < len(queue); next++ {
		size := b.lineSize(queue[next])
		for size > -len(e.nodes)&(lineNodes-1) && len(e.nodes)%lineNodes != 0 {
			e.nodes = append(e.nodes, 0)
		}
		at, placed := len(e.nodes), queue[next].n
		if next == 0 {
			e.roots = append(e.roots, uint32(at))
		}
		line = append(line[:0], queue[next])
		for k := 0; k < len(line); k++ {
			s := line[k]
			if s.level > 0 {
				child := len(e.nodes) - s.parent
				if limit := 1 << (32 - e.bits); child >= limit {
					return fail.Errorf("a child is %d nodes after its parent, want less than %d with %d features",
						child, limit, e.features)
				}
				e.nodes[s.parent] |= uint64(child) << e.bits
			}
			w.depth = max(w.depth, s.level)
			for _, i := range s.nodes[:s.n] {
				if i < 0 {
					n := b.leaves - w.leaf
					if n >= 1<<leafBits {
						return fail.Errorf("too many leaves, want at most %d", 1<<leafBits)
					}
					b.leaf(^i, &w)
					e.nodes = append(e.nodes, (leafKey|uint64(n))<<32)
					continue
				}
				n, first, second := b.node(i)
				if n.Missing {
					e.missing[len(e.nodes)/64] |= 1 << (len(e.nodes) % 64)
				}
				below := siblings{nodes: [2]int32{first, second}, n: 2, parent: len(e.nodes), level: s.level + 1}
				e.nodes = append(e.nodes, uint64(thresholdKey(n.Value))<<32|uint64(n.Feature))
				if placed+2 <= lineNodes {
					line = append(line, below)
					placed += 2
				} else {
					queue = append(queue, below)
				}
			}
		}
	}
	e.trees = append(e.trees, w)
	return nil
}

// leaf stores the terms of the next leaf of a tree.
func (b *builder) leaf(i int32, w *walk) {
	e, terms := b.e, b.s.Leaf(i)
	b.leaves++
	switch {
	case e.form == one:
		v := 0.0
		if len(terms) > 0 {
			v, w.target = terms[0].Weight, terms[0].Target
		}
		if e.weights64 != nil {
			e.weights64 = append(e.weights64, v)
		} else {
			e.weights = append(e.weights, float32(v))
		}
	case e.form == sparse:
		for _, t := range terms {
			if e.aggregate == Min {
				t.Weight = -t.Weight
			}
			e.terms = append(e.terms, t)
		}
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
