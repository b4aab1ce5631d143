package optimize

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
)

// dropLone removes depthwise convolutions from the plan that have no blocked neighbours: their own
// kernel converts a block while it is in the first-level cache.
func (b *blocker) dropLone() {
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
