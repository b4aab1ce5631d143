package goengine

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/tensor"
)

// Estimated times in picoseconds: the compilation of a node, the packing of a byte of weights, and
// what a specialized plan saves on a node of a model whose branches are chosen, and on a
// multiplication and an element of the result of a Conv. General plans compute depthwise
// convolutions in NCHW16c too, and 1×1 convolutions as matrix products, but the functions that
// follow in passes over the image. The analysis of a shape takes about as long as the compilation
// of half of the nodes. For few elements, it would take longer than the first run, which does not
// wait for it.
const (
	nodeCost      = 10_000_000
	packTime      = 500
	nodeGain      = 500_000 // if branches are chosen: their nodes are captured
	inputTime     = 150_000 // the least that a run takes for an element of its inputs
	windowGain    = 12
	pointwiseGain = 1
	depthwiseGain = 5
	elementGain   = 250
)

// gain estimates what one run of a graph with known shapes saves with a specialized plan, in
// picoseconds.
func gain(g *ir.Graph) (total int64) {
	const most = 1 << 50
	for _, n := range g.Nodes {
		for _, s := range n.Graphs {
			total += gain(s)
		}
		var group int
		switch op := n.Op.(type) {
		case *ops.Conv:
			group = op.Group
		case *ops.FusedConv:
			group = op.Group
		default:
			continue
		}
		out, ok := ir.Ints(g.Values[n.Out[0]].Type.Shape)
		w, constant := g.Values[n.In[1]].Const.(*tensor.Tensor)
		if !ok || !constant || len(out) < 3 || w.Rank() < 3 {
			continue
		}
		each := int64(windowGain)
		switch {
		case group > 1 && w.Dim(1) == 1:
			each = depthwiseGain
		case w.Len() == w.Dim(0)*w.Dim(1):
			each = pointwiseGain
		}
		if count, err := tensor.Elements(append(slices.Clone(out), w.Shape()[1:]...)); err == nil {
			total += min(int64(count), most/each) * each
		}
		if count, err := tensor.Elements(out); err == nil {
			total += min(int64(count), most/elementGain) * elementGain
		}
		total = min(total, most)
	}
	return total
}

// short reports whether a run may take less time than the analysis of the shapes of its inputs.
func (s *specializer) short(in []tensor.Value) bool {
	n := 0
	for i := range in {
		if t, ok := s.input(in, i).(*tensor.Tensor); ok {
			n = max(n, t.Len())
		}
	}
	return int64(n) < s.cost/inputTime
}

// analysis returns a function that estimates the gain of a shape. It does not read the inputs,
// which belong to the caller.
func (s *specializer) analysis(sh *shape, in []tensor.Value, decided bool) func() {
	shapes, contents := s.known(in, decided)
	for i, t := range contents {
		if t != nil {
			contents[i] = t.Clone()
		}
	}
	return func() {
		g, _, err := s.shaped(s.ctx, shapes, contents)
		if err == nil {
			s.gains(sh, g, decided)
		}
		s.finish(sh, nil, err)
	}
}

// gains estimates what a run of a shape saves with a plan, from its graph.
func (s *specializer) gains(sh *shape, g *ir.Graph, decided bool) int64 {
	n := gain(g)
	if decided {
		n += int64(countNodes(g)) * nodeGain
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sh.gain, sh.credit = n, n
	return n
}
