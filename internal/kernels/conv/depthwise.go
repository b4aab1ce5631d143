package conv

import (
	"fmt"
	"sync"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/align"
	"github.com/onward-ml/onward/internal/kernels/gemm"
)

// DepthwiseWeights are packed for [Depthwise]: [channel block][kh][kw][16].
type DepthwiseWeights struct {
	C, KH, KW  int
	Data, Bias []float32
}

// PackDepthwise packs w, which is (c, 1, kh, kw). bias may be nil.
func PackDepthwise(w, bias []float32, c, kh, kw int) *DepthwiseWeights {
	p := &DepthwiseWeights{C: c, KH: kh, KW: kw}
	taps, blocks := kh*kw, tiles(c, Lanes)
	p.Data = align.Slice[float32](blocks * taps * Lanes)
	p.Bias = align.Slice[float32](blocks * Lanes)
	copy(p.Bias, bias)
	for i := range c {
		for t := range taps {
			p.Data[(i/Lanes*taps+t)*Lanes+i%Lanes] = w[i*taps+t]
		}
	}
	return p
}

// Depthwise convolves every channel with a kernel of its own, over NCHW16c. The input's
// border must hold the padding.
type Depthwise struct {
	In, Out              Layout
	StrideH, StrideW     int
	DilationH, DilationW int
	Top, Left            int // padding
	Weights              *DepthwiseWeights
}

// Check validates the layouts against the weights.
func (d *Depthwise) Check() error {
	w := d.Weights
	if d.In.C != w.C || d.Out.C != w.C {
		return fmt.Errorf("layouts of %d and %d channels do not fit weights of %d", d.In.C, d.Out.C, w.C)
	}
	return checkWindow(&d.In, &d.Out, w.KH, w.KW, d.StrideH, d.StrideW, d.DilationH, d.DilationW, d.Top, d.Left)
}

// Run computes one image. par splits blocks and rows; nil stands for one call.
func (d *Depthwise) Run(level cpu.Level, par gemm.Par, y, x []float32, ep *BlockedEpilogue) {
	d.In.check("input", x)
	d.Out.check("output", y)
	if ep.Add != nil {
		ep.AddLayout.check("residual", ep.Add)
	}
	n := d.Out.Blocks() * d.Out.H
	if par == nil {
		d.run(level, y, x, ep, 0, n)
		return
	}
	par(n, func(lo, hi int) { d.run(level, y, x, ep, lo, hi) })
}

func (d *Depthwise) run(level cpu.Level, y, x []float32, ep *BlockedEpilogue, lo, hi int) {
	w := d.Weights
	var t tileArgs
	t.kh, t.kw = w.KH, w.KW
	t.pixel = d.StrideW * Lanes * 4
	t.dkw = d.DilationW * Lanes * 4
	t.dkh = (d.DilationH*d.In.Row - w.KW*d.DilationW*Lanes) * 4
	t.lo, t.hi = ep.bounds()
	most := tilePixels(level)
	for u := lo; u < hi; u++ {
		cb, row := u/d.Out.H, u%d.Out.H
		t.b = at(ptr(w.Data), cb*w.KH*w.KW*Lanes)
		t.bias = at(ptr(w.Bias), cb*Lanes)
		for i := range tiles(d.Out.W, most) {
			a, b := split(d.Out.W, most, i)
			t.a = at(ptr(x), d.In.At(cb, row*d.StrideH-d.Top, a*d.StrideW-d.Left))
			t.c = at(ptr(y), d.Out.At(cb, row, a))
			if ep.Add != nil {
				t.add = at(ptr(ep.Add), ep.AddLayout.At(cb, row, a))
			}
			runDepthwise(level, b-a, &t)
		}
	}
}

// Stem is the first convolution of a network: it reads few channels in (C, H, W) and writes NCHW16c. The
// weights are packed by [PackStem].
type Stem struct {
	Cin, H, W            int // of the input
	Out                  Layout
	StrideH, StrideW     int
	DilationH, DilationW int
	Top, Left            int // padding
	Weights              *Weights
}

// PackStem packs w, which is (cout, cin, kh, kw), for [Stem]. bias may be nil.
func PackStem(w, bias []float32, cin, cout, kh, kw int) *Weights {
	p := &Weights{Cin: cin, Cout: cout, KH: kh, KW: kw}
	blocks, k := tiles(cout, Lanes), cin*kh*kw
	p.Bias = align.Slice[float32](blocks * Lanes)
	copy(p.Bias, bias)
	p.Data = align.Slice[float32](blocks * Lanes * k)
	for b := 0; b < blocks; b += 2 {
		n := panel{block: b, blocks: min(2, blocks-b), offset: b * Lanes * k}
		width := n.blocks * Lanes
		for j := range min(width, cout-b*Lanes) {
			for i, v := range w[(b*Lanes+j)*k:][:k] {
				p.Data[n.offset+i*width+j] = v
			}
		}
		p.panels = append(p.panels, n)
	}
	return p
}

var stemPool = sync.Pool{New: func() any { return new([]float32) }}

// Run computes one image. par splits the rows of the output; nil stands for one call.
func (d *Stem) Run(level cpu.Level, par gemm.Par, y, x []float32, ep *BlockedEpilogue) {
	d.Out.check("output", y)
	if len(x) < d.Cin*d.H*d.W {
		panic(fmt.Sprintf("conv: input of %d elements, want %d×%d×%d", len(x), d.Cin, d.H, d.W))
	}
	if ep.Add != nil {
		ep.AddLayout.check("residual", ep.Add)
	}
	if par == nil {
		d.run(level, y, x, ep, 0, d.Out.H)
		return
	}
	par(d.Out.H, func(lo, hi int) { d.run(level, y, x, ep, lo, hi) })
}

// run copies the input rows of each output row between zeros, and runs the tiles on them.
func (d *Stem) run(level cpu.Level, y, x []float32, ep *BlockedEpilogue, lo, hi int) {
	w := d.Weights
	width := (d.Out.W-1)*d.StrideW + (w.KW-1)*d.DilationW + 1 // of the padded row
	bp := stemPool.Get().(*[]float32)
	defer stemPool.Put(bp)
	if n := d.Cin * w.KH * width; cap(*bp) < n {
		*bp = align.Slice[float32](n)
	}
	rows := (*bp)[:d.Cin*w.KH*width]
	clear(rows)
	var t tileArgs
	t.cb, t.kh, t.kw = d.Cin, w.KH, w.KW
	t.pixel = d.StrideW * 4
	t.dkw = (d.DilationW - 1) * 4
	t.dkh = (width - w.KW*d.DilationW) * 4
	t.ldc = d.Out.Block * 4
	t.act = uint64(ep.Act)
	t.lo, t.hi = ep.bounds()
	if ep.Add != nil {
		t.ldadd = ep.AddLayout.Block * 4
	}
	most := tilePixels(level)
	n := max(0, min(d.W, width-d.Left)) // columns of the input that are read
	for row := lo; row < hi; row++ {
		for c := range d.Cin {
			for k := range w.KH {
				r := rows[(c*w.KH+k)*width:][:width]
				iy := row*d.StrideH - d.Top + k*d.DilationH
				if iy < 0 || iy >= d.H {
					clear(r)
				} else if d.Left < width {
					copy(r[d.Left:], x[(c*d.H+iy)*d.W:][:n])
				}
			}
		}
		for pi := range w.panels {
			p := &w.panels[pi]
			t.b = at(ptr(w.Data), p.offset)
			t.bias = at(ptr(w.Bias), p.block*Lanes)
			t.bStep = p.blocks * Lanes * 4
			for i := range tiles(d.Out.W, most) {
				a, b := split(d.Out.W, most, i)
				t.a = at(ptr(rows), a*d.StrideW)
				t.c = at(ptr(y), d.Out.At(p.block, row, a))
				if ep.Add != nil {
					t.add = at(ptr(ep.Add), ep.AddLayout.At(p.block, row, a))
				}
				runStem(level, b-a, p.blocks, &t)
			}
		}
	}
}
