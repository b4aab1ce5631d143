package conv

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/kernels/gemm"
)

// PerTap is a convolution over NCHW16c with stride 1 that multiplies a tap only for the outputs for
// which it reads a pixel. For others it reads padding, as do most taps of a kernel whose dilation
// is almost as large as the image. The input needs no border.
type PerTap struct {
	In, Out              Layout
	KH, KW               int
	DilationH, DilationW int
	Top, Left            int      // padding
	Weights              *Weights // of PackPerTap
}

// PackPerTap packs w of shape (cout, cin, kh, kw) for [PerTap]: weights of a 1×1 convolution of the
// channels of all taps. bias may be nil.
func PackPerTap(level cpu.Level, w, bias []float32, cin, cout, kh, kw int) *Weights {
	taps, ci := kh*kw, tiles(cin, Lanes)*Lanes
	flat := make([]float32, cout*taps*ci)
	for o := range cout {
		for c := range cin {
			for t, v := range w[(o*cin+c)*taps:][:taps] {
				flat[(o*taps+t)*ci+c] = v
			}
		}
	}
	return PackWeights(level, flat, bias, taps*ci, cout, 1, 1, 1)
}

// Check validates the layouts against the weights; call it once per shape.
func (d *PerTap) Check() error {
	w, taps := d.Weights, d.KH*d.KW
	if d.In.Blocks()*Lanes*taps != w.Cin || d.Out.C != w.Cout {
		return fail.Errorf("layouts of %d and %d channels do not fit weights of %d taps from %d to %d channels", d.In.C,
			d.Out.C, taps, w.Cin, w.Cout)
	}
	if d.multiplications() == 0 {
		return fail.Errorf("an output of %d×%d has no tap inside of %d×%d pixels", d.Out.H, d.Out.W, d.In.H, d.In.W)
	}
	return nil
}

// Pays reports whether the convolution saves a quarter of the multiplications at least.
func (d *PerTap) Pays() bool {
	n := d.multiplications()
	return n > 0 && n*4 <= d.KH*d.KW*d.Out.H*d.Out.W*3 && d.In.Blocks()*Lanes <= maxSteps
}

// multiplications returns the number of pairs of an output and a tap that reads a pixel, or 0 if
// an output has no such tap.
func (d *PerTap) multiplications() int {
	axis := func(out, k, dilation, pad, in int) (n int) {
		for i := range out {
			lo, hi := tapsInside(i-pad, k, dilation, in)
			if lo >= hi {
				return 0
			}
			n += hi - lo
		}
		return n
	}
	return axis(d.Out.H, d.KH, d.DilationH, d.Top, d.In.H) * axis(d.Out.W, d.KW, d.DilationW, d.Left, d.In.W)
}

// tapsInside returns the taps [lo, hi) of an axis that read one of n pixels, if tap 0 is at pixel
// at.
func tapsInside(at, k, dilation, n int) (lo, hi int) {
	return max(0, tiles(-at, dilation)), min(k, tiles(n-at, dilation))
}

// To returns the convolution with another output layout of the same size.
func (d *PerTap) To(out Layout) *PerTap {
	c := *d
	c.Out = out
	return &c
}

// Run computes one image. par distributes panels of output channels and rows; if it is nil, one
// call computes everything.
func (d *PerTap) Run(level cpu.Level, par gemm.Par, y, x []float32, ep *BlockedEpilogue) {
	d.In.check("input", x)
	d.Out.check("output", y)
	if ep.Add != nil {
		ep.AddLayout.check("residual", ep.Add)
	}
	w, rows := d.Weights, rows{units: d.Out.H, width: d.Out.W}
	rows.panels(par, len(w.panels), func(p, g0, g1 int) { d.panel(level, y, x, ep, &w.panels[p], g0, g1) })
}

// panel computes the output rows [y0, y1) of a panel, one tap after the other, so that the weights
// of a tap stay in the second-level cache.
func (d *PerTap) panel(level cpu.Level, y, x []float32, ep *BlockedEpilogue, p *panel, y0, y1 int) {
	w, cbs := d.Weights, d.In.Blocks()
	t := tileArgs{cb: cbs, kh: 1, kw: 1, pixel: Lanes * 4, dcb: (d.In.Block - Lanes) * 4, ldc: d.Out.Block * 4,
		bias: at(ptr(w.Bias), p.block*Lanes), bStep: p.blocks * Lanes * 4}
	t.half = w.half(p)
	t.leaveOut(d.In.idleGroups())
	t.lo, t.hi = ep.bounds()
	if ep.Add != nil {
		t.ldadd = ep.AddLayout.Block * 4
	}
	for tap := range d.KH * d.KW {
		ky, kx := tap/d.KW, tap%d.KW
		t.b = at(ptr(w.Data), p.offset+tap*cbs*Lanes*p.blocks*Lanes)
		t.prefetch = uintptr(t.b)
		for row := y0; row < y1; row++ {
			top, bottom := tapsInside(row-d.Top, d.KH, d.DilationH, d.In.H)
			if ky < top || ky >= bottom {
				continue
			}
			for a, b := 0, 0; a < d.Out.W; a = b {
				var left, right int
				left, right, b = d.segment(a)
				if kx < left || kx >= right {
					continue
				}
				t.acc, t.act, t.add = 1, 0, nil
				if ky == top && kx == left {
					t.acc = 0
				}
				last := ky == bottom-1 && kx == right-1
				if last {
					t.act = uint64(ep.Act)
				}
				most := tilePixels(level)
				for i := range tiles(b-a, most) {
					lo, hi := split(b-a, most, i)
					t.a = at(ptr(x), d.In.At(0, row-d.Top+ky*d.DilationH, a+lo-d.Left+kx*d.DilationW))
					t.c = at(ptr(y), d.Out.At(p.block, row, a+lo))
					if last && ep.Add != nil {
						t.add = at(ptr(ep.Add), ep.AddLayout.At(p.block, row, a+lo))
					}
					runTile(level, hi-lo, p.blocks, &t)
				}
			}
		}
	}
	if ep.finishes() {
		for row := y0; row < y1; row++ {
			ep.finish(level, &d.Out, y, p.block, p.block, p.blocks, row, 0, d.Out.W)
		}
	}
}

// segment returns the columns [left, right) of the kernel that read a pixel for output a of a row,
// and the end b of the outputs for which these are the same.
func (d *PerTap) segment(a int) (left, right, b int) {
	left, right = tapsInside(a-d.Left, d.KW, d.DilationW, d.In.W)
	for b = a + 1; b < d.Out.W; b++ {
		if l, r := tapsInside(b-d.Left, d.KW, d.DilationW, d.In.W); l != left || r != right {
			break
		}
	}
	return left, right, b
}
