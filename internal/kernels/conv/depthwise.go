package conv

import (
	"sync"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/memory"
)

// DepthwiseWeights are the packed weights of [Depthwise]: [channel block][kh][kw][16].
type DepthwiseWeights struct {
	C, KH, KW  int
	Data, Bias []float32

	turn sync.Once
	ring []float32
}

// Bytes returns the size of the packed weights.
func (p *DepthwiseWeights) Bytes() int64 { return int64(len(p.Data)+len(p.Bias)) * 4 }

// turned returns the weights for [FusedDepthwise], [first row of the ring][block][KH][KW][16], with
// the rows rotated like the ring. Convolutions of all sizes share them.
func (p *DepthwiseWeights) turned() []float32 {
	p.turn.Do(func() {
		blocks, taps := tiles(p.C, Lanes), p.KH*p.KW*Lanes
		p.ring = memory.Slice[float32](p.KH * blocks * taps)
		for turn := range p.KH {
			for b := range blocks {
				for k := range p.KH {
					to := (turn*blocks+b)*taps + (turn+k)%p.KH*p.KW*Lanes
					copy(p.ring[to:][:p.KW*Lanes], p.Data[b*taps+k*p.KW*Lanes:])
				}
			}
		}
	})
	return p.ring
}

// PackDepthwise packs w of shape (c, 1, kh, kw). bias may be nil.
func PackDepthwise(w, bias []float32, c, kh, kw int) *DepthwiseWeights {
	p := &DepthwiseWeights{C: c, KH: kh, KW: kw}
	taps, blocks := kh*kw, tiles(c, Lanes)
	p.Data = memory.Slice[float32](blocks * taps * Lanes)
	p.Bias = memory.Slice[float32](blocks * Lanes)
	copy(p.Bias, bias)
	for i := range c {
		for t := range taps {
			p.Data[(i/Lanes*taps+t)*Lanes+i%Lanes] = w[i*taps+t]
		}
	}
	return p
}

// Depthwise is a depthwise convolution over NCHW16c. The border of the input must include the
// padding, above and below the image only if DepthwiseNeedsRows says so.
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
		return fail.Errorf("layouts of %d and %d channels do not fit weights of %d", d.In.C, d.Out.C, w.C)
	}
	err := checkWindow(&d.In, &d.Out, w.KH, w.KW, d.StrideH, d.StrideW, d.DilationH, d.DilationW, d.Top, d.Left)
	if err != nil && d.lacksRows() &&
		!DepthwiseNeedsRows(d.Out.W, w.KH, d.DilationH, d.Top, (d.Out.H-1)*d.StrideH-d.Top+w.KH-d.In.H) {
		return checkWindow(&d.In, &d.Out, 1, w.KW, 0, d.StrideW, 1, d.DilationW, 0, d.Left) // a row of the kernel
	}
	return err
}

// DepthwiseNeedsRows reports whether [Depthwise] reads rows of padding in the border of an image,
// for rows of the given width in the output: if one tile can compute several rows, or if a kernel
// may be outside of the image.
func DepthwiseNeedsRows(width, kh, dilation, top, bottom int) bool {
	return width <= TilePixels || dilation > 1 || max(top, bottom) >= kh
}

// lacksRows reports whether the border does not have the padding above or below the image.
func (d *Depthwise) lacksRows() bool {
	return d.In.Top < d.Top ||
		(d.Out.H-1)*d.StrideH-d.Top+(d.Weights.KH-1)*d.DilationH >= d.In.H+d.In.Bottom
}

// To returns the convolution with another output layout of the same size.
func (d *Depthwise) To(out Layout) *Depthwise {
	c := *d
	c.Out = out
	return &c
}

// Run computes one image. par distributes blocks and rows; if it is nil, one call computes
// everything.
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
	short := d.Out.W <= tilePixels(level) // one tile computes a row
	for u := lo; u < hi; {
		cb, row := u/d.Out.H, u%d.Out.H
		n := 1
		if short {
			n = min(hi-u, d.Out.H-row)
		}
		top, k0 := row*d.StrideH-d.Top, 0
		if !short {
			k0, t.kh = d.rowsInside(top)
		}
		t.b = at(ptr(w.Data), (cb*w.KH+k0)*w.KW*Lanes)
		t.bias = at(ptr(w.Bias), cb*Lanes)
		t.a = at(ptr(x), d.In.At(cb, top+k0*d.DilationH, -d.Left))
		t.c = at(ptr(y), d.Out.At(cb, row, 0))
		if ep.Add != nil {
			t.add = at(ptr(ep.Add), ep.AddLayout.At(cb, row, 0))
		}
		if short {
			t.aStep, t.cStep, t.addStep = d.StrideH*d.In.Row*4, d.Out.Row*4, ep.AddLayout.Row*4
			depthwiseRun(level, d.Out.W, n, &t)
		} else {
			depthwiseRow(level, d.Out.W, &t)
		}
		if ep.finishes() {
			for r := range n {
				ep.finish(level, &d.Out, y, cb, cb, 1, row+r, 0, d.Out.W)
			}
		}
		u += n
	}
}

// rowsInside returns the first row of the kernel whose input row is inside the image, and the
// number of such rows, if row 0 of the kernel reads row top. Rows in the padding are zero. It
// returns all rows of a kernel that is outside.
func (d *Depthwise) rowsInside(top int) (first, count int) {
	kh := d.Weights.KH
	first = min(kh, tiles(max(0, -top), d.DilationH))
	if count = min(kh, tiles(max(0, d.In.H-top), d.DilationH)) - first; count <= 0 {
		return 0, kh
	}
	return first, count
}
