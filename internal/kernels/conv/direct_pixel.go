package conv

import (
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
)

// The sums of a single pixel, such as those of squeeze-and-excitation, are divided if there are few
// of them over many channels: into at most mostParts parts of at least partBlocks blocks of
// channels.
const (
	partBlocks = 8
	mostParts  = 8
	fewPanels  = 2
)

// parts returns the number of parts into which the sums of the output are divided. It does not
// depend on the number of threads, because results depend on it.
func (d *Direct) parts(ep *BlockedEpilogue) int {
	w := d.Weights
	if d.Out.H*d.Out.W > 1 || w.KH*w.KW > 1 || len(w.panels) > fewPanels || ep.Add != nil || ep.Last != nil ||
		!d.Scales() {
		return 1
	}
	return max(1, min(mostParts, d.In.Blocks()/partBlocks))
}

// pixel is Run for sums in parts: par distributes the parts, which one call then
// adds.
func (d *Direct) pixel(level cpu.Level, par gemm.Par, y, x []float32, ep *BlockedEpilogue, parts int) {
	if par == nil {
		par = func(n int, fn func(lo, hi int)) { fn(0, n) }
	}
	w := d.Weights
	panels := len(w.panels)
	row, whole := rows{1, 1, true, false, 1}, NewLayout(d.Out.C, 1, 1, 0, 0, 0, 0)
	size := whole.Len()
	sums, zeros := memory.Slice[float32](parts*size), memory.Slice[float32](len(w.Bias))
	part := func(k int) *Direct {
		v := *w
		v.panels = slices.Clone(w.panels)
		for i := range v.panels {
			p := &v.panels[i]
			from, to := p.cbs*k/parts, p.cbs*(k+1)/parts
			p.cb, p.cbs, p.offset = p.cb+from, to-from, p.offset+from*Lanes*p.blocks*Lanes
			if k < parts-1 {
				p.idle = 0
			}
		}
		c := *d
		if c.Weights, c.Out = &v, whole; k > 0 {
			v.Bias = zeros
		}
		return &c
	}
	all := make([]*Direct, parts)
	for k := range all {
		all[k] = part(k)
	}
	none := &BlockedEpilogue{}
	par(parts*panels, func(lo, hi int) {
		for u := lo; u < hi; u++ {
			k, p := u/panels, u%panels
			all[k].panel(level, sums[k*size:][:size], x, none, p, &row, 0, 1)
		}
	})
	least, most := ep.bounds()
	par(1, func(lo, hi int) { // a launch on several threads takes longer than these few blocks
		if lo == hi {
			return
		}
		for b := range whole.Blocks() {
			to, at := y[d.Out.At(b, 0, 0):][:Lanes], whole.At(b, 0, 0)
			copy(to, sums[at:])
			for k := 1; k < parts; k++ {
				vec.AddF32(level, to, to, sums[k*size+at:])
			}
			if ep.Act != gemm.None {
				vec.ClipF32(level, to, to, least, most)
			}
		}
		if ep.finishes() {
			ep.finish(level, &d.Out, y, 0, 0, whole.Blocks(), 0, 0, 1)
		}
	})
}
