package conv

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/memory"
)

// A block of 16 channels can hold several groups. Dense kernels multiply the other groups by
// zeros, so that an eighth to a half of the multiplications are useful. With 2, 4 or 8 channels per
// group, AVX-512 permutes the pixel in its register, so that each lane multiplies channels of its
// own group. A permutation and a multiply-add take at least 1.33 cycles on AMD Zen 4, where they
// share a unit.

// Grouped is a convolution over NCHW16c, with any kernel, stride and dilation, whose groups of 2, 4
// or 8 channels have as many outputs. Unlike [Direct], it does not multiply zeros for the other
// groups of a block.
type Grouped struct {
	In, Out              Layout
	StrideH, StrideW     int
	DilationH, DilationW int
	Top, Left            int // padding
	Weights              *GroupedWeights
}

// GroupedWeights are the packed weights of [Grouped]: [block][kh][kw][channel of the group][16
// outputs].
type GroupedWeights struct {
	C, Each, KH, KW int // channels, and those of a group
	data, bias      []float32
	lanes           [Lanes]int32 // for each lane of a block, the first one of its group
}

// Bytes returns the size of the packed weights.
func (p *GroupedWeights) Bytes() int64 { return int64(len(p.data)+len(p.bias)) * 4 }

// GroupedPays reports whether [Grouped] supports a convolution and is faster than [Direct] on a
// level.
func GroupedPays(level cpu.Level, cin, cout, group, kh, kw int) bool {
	if cin != cout || group < 2 || cin%group != 0 {
		return false
	}
	each := cin / group
	return level == cpu.AVX512 && (each == 2 || each == 4 || each == 8) && each*kh*kw <= maxSteps
}

// PackGrouped packs w of shape (c, each, kh, kw) for [Grouped]. bias may be nil.
func PackGrouped(w, bias []float32, c, each, kh, kw int) *GroupedWeights {
	p := &GroupedWeights{C: c, Each: each, KH: kh, KW: kw, bias: memory.Slice[float32](tiles(c, Lanes) * Lanes)}
	copy(p.bias, bias)
	for j := range p.lanes {
		p.lanes[j] = int32(j / each * each)
	}
	taps := kh * kw
	p.data = memory.Slice[float32](tiles(c, Lanes) * taps * each * Lanes)
	for o := range c {
		for i := range each {
			for t, v := range w[(o*each+i)*taps:][:taps] {
				p.data[((o/Lanes*taps+t)*each+i)*Lanes+o%Lanes] = v
			}
		}
	}
	return p
}

// Check validates the layouts against the weights; call it once per shape.
func (d *Grouped) Check() error {
	if w := d.Weights; d.In.C != w.C || d.Out.C != w.C {
		return fail.Errorf("layouts of %d and %d channels do not fit weights of %d", d.In.C, d.Out.C, w.C)
	}
	return checkWindow(&d.In, &d.Out, d.Weights.KH, d.Weights.KW, d.StrideH, d.StrideW, d.DilationH,
		d.DilationW, d.Top, d.Left)
}

// To returns the convolution with another output layout of the same size.
func (d *Grouped) To(out Layout) *Grouped {
	c := *d
	c.Out = out
	return &c
}

// Run computes one image. par is as in [Direct.Run].
func (d *Grouped) Run(level cpu.Level, par gemm.Par, y, x []float32, ep *BlockedEpilogue) {
	d.In.check("input", x)
	d.Out.check("output", y)
	if ep.Add != nil {
		ep.AddLayout.check("residual", ep.Add)
	}
	w := d.Weights
	blocks := d.Out.Blocks()
	rows := newRows(&d.In, &d.Out, ep, blocks, len(w.data), w.KH*w.KW == 1 && d.StrideH == 1 && d.StrideW == 1 &&
		d.Top == 0 && d.Left == 0)
	rows.byPixels = false // each block reads other input channels
	rows.panels(par, blocks, func(block, g0, g1 int) {
		t := tileArgs{kh: w.KH, kw: w.KW, pixel: d.StrideW * Lanes * 4, dkw: (d.DilationW - 1) * Lanes * 4,
			dkh: (d.DilationH*d.In.Row - w.KW*d.DilationW*Lanes) * 4, cb: w.Each, deltas: unsafe.Pointer(&w.lanes),
			act: uint64(ep.Act),
			b:   at(ptr(w.data), block*w.KH*w.KW*w.Each*Lanes), bias: at(ptr(w.bias), block*Lanes)}
		t.lo, t.hi = ep.bounds()
		for g := g0; g < g1; g++ {
			row, x0, x1 := rows.unit(g)
			n := groupedPixels(x1 - x0)
			for a := x0; a < x1; a += n {
				a = min(a, x1-n) // the last tile overlaps the one before it
				t.a = at(ptr(x), d.In.At(block, row*d.StrideH-d.Top, a*d.StrideW-d.Left))
				t.c = at(ptr(y), d.Out.At(block, row, a))
				if ep.Add != nil {
					t.add = at(ptr(ep.Add), ep.AddLayout.At(block, row, a))
				}
				runGrouped(level, n, &t)
			}
			if ep.finishes() {
				ep.finish(level, &d.Out, y, block, block, 1, row, x0, x1)
			}
		}
	})
}

// groupedPixels returns the number of pixels of the largest tile that a row of the given width
// holds.
func groupedPixels(width int) int {
	for _, n := range [...]int{14, 7, 4, 2} {
		if width >= n {
			return n
		}
	}
	return 1
}

// groupedGeneric computes a tile of [Grouped]. t.cb is the number of channels of a group, and
// t.deltas has, as 16 int32, the lane of the first one for each output.
//
//	for p := range pixels {
//		for j := range 16 {
//			s := bias[j]
//			for kh, kw, k {
//				s += a[p][kh][kw][deltas[j]+k] * b[kh][kw][k][j]
//			}
//			c[p][j] = act(s + add[p][j])
//		}
//	}
func groupedGeneric(pixels int, t *tileArgs) {
	first := (*[Lanes]int32)(t.deltas)
	for p := range pixels {
		s := *lanes(t.bias)
		a, b := p*t.pixel, 0
		for range t.kh {
			for range t.kw {
				x := lanes(unsafe.Add(t.a, a))
				for k := range t.cb {
					for j, w := range lanes(at(t.b, b)) {
						s[j] += x[int(first[j])+k] * w
					}
					b += Lanes
				}
				a += Lanes*4 + t.dkw
			}
			a += t.dkh
		}
		t.finish(s[:], p)
	}
}
