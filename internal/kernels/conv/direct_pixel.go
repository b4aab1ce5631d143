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
	par = orSerial(par)
	panels, whole := len(d.Weights.panels), d.pixelOf()
	size := whole.Out.Len()
	sums := memory.Slice[float32](parts * size)
	all := make([]*Direct, parts)
	for k := range all {
		blocks := d.In.Blocks()
		all[k] = whole.part(blocks*k/parts, blocks*(k+1)/parts, k == 0)
		all[k].In = d.In
	}
	par(parts*panels, func(lo, hi int) {
		for u := lo; u < hi; u++ {
			k, p := u/panels, u%panels
			all[k].panel(level, sums[k*size:][:size], x, noEpilogue, p, &onePixel, 0, 1)
		}
	})
	whole.Out = d.Out
	par(1, func(lo, hi int) { // a launch on several threads takes longer than these few blocks
		if lo < hi {
			whole.total(level, y, sums, parts, ep)
		}
	})
}

// part returns the part of a convolution of one pixel that reads blocks [from, to) of its input,
// with the bias or without.
func (d *Direct) part(from, to int, bias bool) *Direct {
	c, w := *d, *d.Weights
	w.panels = slices.Clone(w.panels)
	for i := range w.panels {
		p := &w.panels[i]
		if to < p.cb+p.cbs {
			p.idle = 0
		}
		p.cb, p.cbs, p.offset = p.cb+from, to-from, p.offset+from*Lanes*p.blocks*Lanes
	}
	if c.Weights = &w; !bias {
		w.Bias = memory.Slice[float32](len(w.Bias))
	}
	return &c
}

// total adds sums of parts, without space between their blocks, and applies ep.
func (d *Direct) total(level cpu.Level, y, sums []float32, parts int, ep *BlockedEpilogue) {
	least, most := ep.bounds()
	blocks, run := d.Out.Blocks(), Lanes
	if d.Out.Block == Lanes {
		run = blocks * Lanes
	}
	for at := 0; at < blocks*Lanes; at += run {
		to := y[d.Out.At(at/Lanes, 0, 0):][:run]
		copy(to, sums[at:])
		for k := 1; k < parts; k++ {
			vec.AddF32(level, to, to, sums[k*blocks*Lanes+at:])
		}
		if ep.Act != gemm.None {
			vec.ClipF32(level, to, to, least, most)
		}
	}
	if ep.finishes() {
		ep.finish(level, &d.Out, y, 0, 0, blocks, 0, 0, 1)
	}
}
