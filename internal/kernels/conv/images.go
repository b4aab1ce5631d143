package conv

import (
	"sync"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
)

// Images of one row of few pixels fill only a part of a tile, which then waits for its sums. Tiles
// of RunImages have one pixel of several images instead.

// imageSums holds the sums of a tile, [block][image][16].
type imageSums [2 * TilePixels * Lanes]float32

var imageSumsPool = sync.Pool{New: func() any { return new(imageSums) }}

// takesImages reports whether tiles of several of n images are larger than those of one, and can
// be computed with ep.
func takesImages(level cpu.Level, out *Layout, n int, ep *BlockedEpilogue) bool {
	return out.H == 1 && 2*out.W <= min(n, tilePixels(level)) && ep.Add == nil && ep.Last == nil
}

// runImages calls tile for each pixel of up to 14 images [i, i+n) and each panel, which computes
// the sums in t.c, and stores these in y.
func runImages(level cpu.Level, par gemm.Par, out *Layout, panels []panel, y []float32, n int, ep *BlockedEpilogue,
	tile func(t *tileArgs, p *panel, pixel, i, n int)) {
	most, size := tilePixels(level), len(y)/n
	orSerial(par)(tiles(n, most)*len(panels), func(lo, hi int) {
		sums := imageSumsPool.Get().(*imageSums)
		defer imageSumsPool.Put(sums)
		for u := lo; u < hi; u++ {
			p := &panels[u%len(panels)]
			i0, i1 := split(n, most, u/len(panels))
			for pixel := range out.W {
				t := tileArgs{c: ptr(sums[:]), ldc: TilePixels * Lanes * 4}
				t.lo, t.hi = ep.bounds()
				tile(&t, p, pixel, i0, i1-i0)
				for b := range p.blocks {
					for i := i0; i < i1; i++ {
						copy(y[i*size+out.At(p.block+b, 0, pixel):][:Lanes], sums[(b*TilePixels+i-i0)*Lanes:])
					}
				}
			}
			for i := i0; i < i1 && ep.finishes(); i++ {
				ep.finish(level, out, y[i*size:][:size], p.block, p.block, p.blocks, 0, 0, out.W)
			}
		}
	})
}

// TakesImages reports whether [Direct.RunImages] computes n images faster than Run.
func (d *Direct) TakesImages(level cpu.Level, n int, ep *BlockedEpilogue) bool {
	return takesImages(level, &d.Out, n, ep) && d.Weights.each == 0 && d.parts(ep) == 1
}

// RunImages computes the n images of x and y, which are equally long, with the same bits as Run.
// par distributes groups of images and panels of output channels; if it is nil, one call computes
// everything.
func (d *Direct) RunImages(level cpu.Level, par gemm.Par, y, x []float32, n int, ep *BlockedEpilogue) {
	size := len(x) / n
	d.In.check("input", x[:size])
	d.Out.check("output", y[:len(y)/n])
	w := d.Weights
	perBlock := w.KH * w.KW * Lanes
	runImages(level, par, &d.Out, w.panels, y, n, ep, func(t *tileArgs, p *panel, pixel, i, n int) {
		a := d.args(p)
		a.c, a.ldc, a.lo, a.hi = t.c, t.ldc, t.lo, t.hi
		a.pixel = size * 4
		chunks := min(tiles(p.cbs*perBlock, steps(level)), p.cbs)
		for c := range chunks {
			cb0, cb1 := p.cbs*c/chunks, p.cbs*(c+1)/chunks
			a.cb, a.acc = cb1-cb0, uint64(min(c, 1))
			a.a = at(ptr(x), i*size+d.In.At(p.cb+cb0, -d.Top, pixel*d.StrideW-d.Left))
			a.b, a.bias = at(ptr(w.Data), p.offset+cb0*perBlock*p.blocks*Lanes), at(ptr(w.Bias), p.block*Lanes)
			a.prefetch = uintptr(a.b)
			if c == chunks-1 {
				a.act = uint64(ep.Act)
				a.leaveOut(p.idle)
			}
			runTile(level, n, p.blocks, &a)
		}
	})
}

// TakesImages reports whether [NCHWInput.RunImages] computes n images faster than Run.
func (d *NCHWInput) TakesImages(level cpu.Level, n int, ep *BlockedEpilogue) bool {
	w := d.Weights
	return takesImages(level, &d.Out, n, ep) && d.Top == 0 && d.Left == 0 && (w.KH-1)*d.DilationH < d.H &&
		(d.Out.W-1)*d.StrideW+(w.KW-1)*d.DilationW < d.W
}

// RunImages is [Direct.RunImages].
func (d *NCHWInput) RunImages(level cpu.Level, par gemm.Par, y, x []float32, n int, ep *BlockedEpilogue) {
	size := len(x) / n
	d.check(x[:size])
	d.Out.check("output", y[:len(y)/n])
	runImages(level, par, &d.Out, d.Weights.panels, y, n, ep, func(t *tileArgs, p *panel, pixel, i, n int) {
		d.args(t, p, ep)
		t.pixel = size * 4
		t.a = at(ptr(x), i*size+pixel*d.StrideW)
		runNCHW(level, n, p.blocks, t)
	})
}
