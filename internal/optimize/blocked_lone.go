package optimize

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit/window"
)

// byRows reports whether a node is a convolution that is fastest row by row in the plain layout.
func (b *blocker) byRows(n *ir.Node) bool {
	var cv *ops.Conv
	switch op := n.Op.(type) {
	case *ops.Conv:
		cv = op
	case *ops.FusedConv:
		cv = &op.Conv
	default:
		return false
	}
	in, _ := b.imageOf(n.In[0])
	out, _ := b.imageOf(n.Out[0])
	w := constTensor(b.g, n, 1)
	if in.rank != 4 || w == nil || w.Rank() != 4 {
		return false
	}
	g, err := cv.Resolve([]int{in.h, in.w}, w.Shape()[2:])
	return err == nil && window.ByRows(&g, w.Dim(1), out.c)
}

// dropNarrow removes regions from the plan whose convolutions are all fastest row by row.
func (b *blocker) dropNarrow() {
	region := map[ir.ValueID]ir.ValueID{} // parents of disjoint sets
	root := func(id ir.ValueID) ir.ValueID { return follow(region, id) }
	for n, p := range b.plans {
		for _, id := range p.in {
			if a, z := root(id), root(n.Out[0]); a != z {
				region[a] = z
			}
		}
	}
	wide := map[ir.ValueID]bool{}
	for n := range b.plans {
		switch n.Op.(type) {
		case *ops.Conv, *ops.FusedConv:
			if !b.byRows(n) {
				wide[root(n.Out[0])] = true
			}
		}
	}
	for n := range b.plans {
		if !wide[root(n.Out[0])] {
			delete(b.plans, n)
			delete(b.made, n.Out[0])
		}
	}
}

// dropLone removes depthwise convolutions from the plan that have no blocked neighbours: their own
// kernel converts a block while it is in the first-level cache.
func (b *blocker) dropLone() {
	b.dropNarrow()
	read := map[ir.ValueID]bool{} // read by blocked nodes
	for _, p := range b.plans {
		for _, id := range p.in {
			read[id] = true
		}
	}
	for n, p := range b.plans {
		cv, ok := n.Op.(*ops.Conv)
		if f, fused := n.Op.(*ops.FusedConv); fused {
			cv, ok = &f.Conv, true
		}
		if !ok || read[n.Out[0]] {
			continue
		}
		in, _ := b.imageOf(n.In[0])
		out, _ := b.imageOf(n.Out[0])
		if !ops.LoneDepthwise(cv.Group, in.c, out.c) {
			continue
		}
		blocked := false
		for _, id := range p.in {
			blocked = blocked || b.made[id]
		}
		if !blocked {
			delete(b.plans, n)
			delete(b.made, n.Out[0])
		}
	}
}
