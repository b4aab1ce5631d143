package conv

import (
	"math"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/kernels/gemm"
)

// PoolKind is the function of a pooling.
type PoolKind uint8

const (
	// MaxPool returns the maximum of a window, without the padding. NaN propagates.
	MaxPool PoolKind = iota
	// AveragePool divides the sum by the number of elements inside of the image.
	AveragePool
	// AveragePoolIncludePad divides the sum by the number of elements inside of the image and its
	// padding.
	AveragePoolIncludePad
)

// Pool is a pooling over NCHW16c. It does not read the border of the input.
type Pool struct {
	Kind                     PoolKind
	In, Out                  Layout
	KH, KW                   int
	StrideH, StrideW         int
	DilationH, DilationW     int
	Top, Left, Bottom, Right int // padding
}

// Check validates the layouts.
func (p *Pool) Check() error {
	if p.In.C != p.Out.C {
		return fail.Errorf("output has %d channels, want those of the input, %d", p.Out.C, p.In.C)
	}
	if p.KH < 1 || p.KW < 1 || p.StrideH < 1 || p.StrideW < 1 || p.DilationH < 1 || p.DilationW < 1 {
		return fail.Errorf("kernel %d×%d, stride %d, %d and dilation %d, %d must be at least 1", p.KH, p.KW, p.StrideH,
			p.StrideW, p.DilationH, p.DilationW)
	}
	return nil
}

// Run computes one image. par distributes blocks and rows; if it is nil, one call computes
// everything. For a window without elements the result is -Inf for MaxPool and 0 otherwise.
func (p *Pool) Run(level cpu.Level, par gemm.Par, y, x []float32) {
	p.In.check("input", x)
	p.Out.check("output", y)
	n := p.Out.Blocks() * p.Out.H
	if par == nil {
		p.run(level, y, x, 0, n)
		return
	}
	par(n, func(lo, hi int) { p.run(level, y, x, lo, hi) })
}

// clip returns the taps [lo, hi) within [0, n) of a window of k taps from start on.
func clip(start, k, dilation, n int) (lo, hi int) {
	if start < 0 {
		lo = (-start + dilation - 1) / dilation
	}
	hi = k
	if last := n - 1 - start; last < 0 {
		hi = 0
	} else {
		hi = min(k, last/dilation+1)
	}
	return min(lo, k), max(hi, min(lo, k))
}

func (p *Pool) run(level cpu.Level, y, x []float32, lo, hi int) {
	var t tileArgs
	t.pixel = p.StrideW * Lanes * 4
	t.dkw = p.DilationW * Lanes * 4
	most := tilePixels(level)
	// Output columns [in0, in1) have windows inside of the image.
	in0 := min(p.Out.W, tiles(p.Left, p.StrideW))
	in1 := in0
	if last := p.In.W - 1 - (p.KW-1)*p.DilationW + p.Left; last >= 0 {
		in1 = max(in0, min(p.Out.W, last/p.StrideW+1))
	}
	for u := lo; u < hi; u++ {
		cb, row := u/p.Out.H, u%p.Out.H
		y0 := row*p.StrideH - p.Top
		k0, k1 := clip(y0, p.KH, p.DilationH, p.In.H)
		_, padded := clip(y0, p.KH, p.DilationH, p.In.H+p.Bottom)
		tile := func(col, n, a, b, paddedCols int) { // n outputs with taps [a, b) of each row
			out := p.Out.At(cb, row, col)
			if k0 == k1 || a == b {
				p.empty(y[out:][:n*Lanes])
				return
			}
			t.kh, t.kw = k1-k0, b-a
			t.dkh = (p.DilationH*p.In.Row - t.kw*p.DilationW*Lanes) * 4
			t.a = at(ptr(x), p.In.At(cb, y0+k0*p.DilationH, col*p.StrideW-p.Left+a*p.DilationW))
			t.c = at(ptr(y), out)
			switch p.Kind {
			case MaxPool:
				runMaximum(level, n, &t)
				return
			case AveragePool:
				t.lo = 1 / float32(t.kh*t.kw)
			case AveragePoolIncludePad:
				t.lo = 1 / float32(padded*paddedCols)
			}
			runSum(level, n, &t)
		}
		edge := func(from, to int) {
			for c := from; c < to; c++ {
				a, b := clip(c*p.StrideW-p.Left, p.KW, p.DilationW, p.In.W)
				_, cols := clip(c*p.StrideW-p.Left, p.KW, p.DilationW, p.In.W+p.Right)
				tile(c, 1, a, b, cols)
			}
		}
		edge(0, in0)
		for i := range tiles(in1-in0, most) {
			a, b := split(in1-in0, most, i)
			tile(in0+a, b-a, 0, p.KW, p.KW)
		}
		edge(in1, p.Out.W)
	}
}

var negInf = float32(math.Inf(-1))

func (p *Pool) empty(y []float32) {
	v := float32(0)
	if p.Kind == MaxPool {
		v = negInf
	}
	for i := range y {
		y[i] = v
	}
}

// SumBlock returns the sums over the pixels of block cb: up to 14 rows, or parts of a row, are
// added in float32, each by itself and then their sums, and the sums of these in float64.
func SumBlock(level cpu.Level, l *Layout, x []float32, cb int) (sum [Lanes]float64) {
	l.reduceBlock(level, x, cb, false, func(part [Lanes]float32) {
		for j, v := range part {
			sum[j] += float64(v)
		}
	})
	return sum
}

// MaxBlock returns the maxima over the pixels of block cb. NaN propagates.
func MaxBlock(level cpu.Level, l *Layout, x []float32, cb int) (largest [Lanes]float32) {
	for j := range largest {
		largest[j] = negInf
	}
	l.reduceBlock(level, x, cb, true, func(part [Lanes]float32) {
		for j, v := range part {
			largest[j] = max(largest[j], v)
		}
	})
	return largest
}

// reduceBlock calls fn with sums or maxima of rows of block cb, as many as a tile reduces at a
// time. The rows of images with few of them are divided.
func (l *Layout) reduceBlock(level cpu.Level, x []float32, cb int, largest bool, fn func(part [Lanes]float32)) {
	l.check("input", x)
	most := tilePixels(level)
	var parts [14][Lanes]float32
	var total [Lanes]float32
	t := tileArgs{kh: 1, dkw: Lanes * 4, lo: 1}
	tile := func(n int) {
		if largest {
			runMaximum(level, n, &t)
		} else {
			runSum(level, n, &t)
		}
	}
	// reduce processes n parts of kw pixels, of stride step.
	reduce := func(at0, n, kw, step int) {
		t.a, t.kw, t.pixel, t.c = at(ptr(x), at0), kw, step*4, unsafe.Pointer(&parts)
		tile(n)
		t.a, t.kw, t.c = t.c, n, unsafe.Pointer(&total)
		tile(1)
		fn(total)
	}
	if l.H > 1 || l.W < 4*most {
		for r := 0; r < l.H; r += most {
			reduce(l.At(cb, r, 0), min(most, l.H-r), l.W, l.Row)
		}
		return
	}
	kw := l.W / most
	reduce(l.At(cb, 0, 0), most, kw, kw*Lanes)
	if rest := l.W - most*kw; rest > 0 {
		reduce(l.At(cb, 0, most*kw), 1, rest, l.Row)
	}
}
