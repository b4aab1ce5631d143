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

// pixel is Run for sums in parts: par distributes the parts but the first one, and then the panels,
// to which the others are added.
func (d *Direct) pixel(level cpu.Level, par gemm.Par, y, x []float32, ep *BlockedEpilogue, parts int) {
	if par == nil {
		par = func(n int, fn func(lo, hi int)) { fn(0, n) }
	}
	w := d.Weights
	panels := len(w.panels)
	row, whole := rows{1, 1, true, false, 1}, NewLayout(d.Out.C, 1, 1, 0, 0, 0, 0)
	size := whole.Len()
	sums, zeros := memory.Slice[float32]((parts-1)*size), memory.Slice[float32](len(w.Bias))
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
		if c.Weights = &v; k > 0 {
			c.Out, v.Bias = whole, zeros
		}
		return &c
	}
	others := make([]*Direct, parts-1)
	for k := range others {
		others[k] = part(k + 1)
	}
	none := &BlockedEpilogue{}
	par(len(others)*panels, func(lo, hi int) {
		for u := lo; u < hi; u++ {
			k, p := u/panels, u%panels
			others[k].panel(level, sums[k*size:][:size], x, none, p, &row, 0, 1)
		}
	})
	first, last := part(0), *ep
	last.AddLayout, last.Add = whole, sums[:size]
	par(panels, func(lo, hi int) {
		for p := lo; p < hi; p++ {
			n := &w.panels[p]
			for b := n.block; b < n.block+n.blocks; b++ {
				to := sums[whole.At(b, 0, 0):][:Lanes]
				for k := 1; k < len(others); k++ {
					vec.AddF32(level, to, to, sums[k*size+whole.At(b, 0, 0):][:Lanes])
				}
			}
			first.panel(level, y, x, &last, p, &row, 0, 1)
		}
	})
}
