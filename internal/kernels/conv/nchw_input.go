package conv

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
)

// NCHWInput is an NCHW-input convolution, the first of a network: it reads few channels in (C, H,
// W) and writes NCHW16c. [PackNCHWInput] packs its weights.
type NCHWInput struct {
	Cin, H, W            int // of the input
	Out                  Layout
	StrideH, StrideW     int
	DilationH, DilationW int
	Top, Left            int // padding
	Weights              *Weights
}

// PackNCHWInput packs w of shape (cout, cin, kh, kw) for [NCHWInput]. bias may be nil.
func PackNCHWInput(level cpu.Level, w, bias []float32, cin, cout, kh, kw int) *Weights {
	p := &Weights{Cin: cin, Cout: cout, KH: kh, KW: kw}
	blocks, k := tiles(cout, Lanes), cin*kh*kw
	p.Bias = memory.Slice[float32](blocks * Lanes)
	copy(p.Bias, bias)
	p.Data = memory.Slice[float32](blocks * Lanes * k)
	for b := 0; b < blocks; b += 2 {
		n := panel{block: b, blocks: min(2, blocks-b), offset: b * Lanes * k}
		width := n.blocks * Lanes
		vec.TransposeF32(level, p.Data[n.offset:], width, w[b*Lanes*k:], k, min(width, cout-b*Lanes), k)
		p.panels = append(p.panels, n)
	}
	return p
}

// To returns the convolution with another output layout of the same size.
func (d *NCHWInput) To(out Layout) *NCHWInput {
	c := *d
	c.Out = out
	return &c
}

// Direct returns the convolution of one pixel without padding for images in blocks, or nil if it is
// another one.
func (d *NCHWInput) Direct() *Direct {
	w := d.Weights
	if d.H*d.W*w.KH*w.KW != 1 || d.Top|d.Left != 0 {
		return nil
	}
	all := make([]int, d.Cin)
	for c := range all {
		all[c] = c
	}
	return &Direct{In: NewLayout(d.Cin, 1, 1, 0, 0, 0, 0), Out: d.Out, StrideH: 1, StrideW: 1, DilationH: 1,
		DilationW: 1,
		Weights:   wholeBlocks(d.Cin, w.Cout, w.Data, w.Bias, w.panels, func(int) []int { return all })}
}

var nchwInputPool = sync.Pool{New: func() any { return new([]float32) }}

// Run computes one image. par distributes the rows of the output and their panels of channels; if
// it is nil, one call computes everything.
func (d *NCHWInput) Run(level cpu.Level, par gemm.Par, y, x []float32, ep *BlockedEpilogue) {
	d.Out.check("output", y)
	d.check(x)
	if ep.Add != nil {
		ep.AddLayout.check("residual", ep.Add)
	}
	n := d.Out.H * len(d.Weights.panels)
	if par == nil {
		d.run(level, y, x, ep, 0, n)
		return
	}
	par(n, func(lo, hi int) { d.run(level, y, x, ep, lo, hi) })
}

func (d *NCHWInput) check(x []float32) {
	if len(x) < d.Cin*d.H*d.W {
		panic(fmt.Sprintf("conv: input has %d elements, want %d×%d×%d", len(x), d.Cin, d.H, d.W))
	}
}

func (d *NCHWInput) run(level cpu.Level, y, x []float32, ep *BlockedEpilogue, lo, hi int) {
	bp := nchwInputPool.Get().(*[]float32)
	defer nchwInputPool.Put(bp)
	panels := len(d.Weights.panels)
	for u := lo; u < hi; u++ {
		row, p := u/panels, &d.Weights.panels[u%panels]
		var add unsafe.Pointer
		if ep.Add != nil {
			add = at(ptr(ep.Add), ep.AddLayout.At(p.block, row, 0))
		}
		d.rowOf(level, at(ptr(y), d.Out.At(p.block, row, 0)), d.Out.Block*4, add, x, p, row, ep, bp)
		if ep.finishes() {
			ep.finish(level, &d.Out, y, p.block, p.block, p.blocks, row, 0, d.Out.W)
		}
	}
}

// rowOf computes a row of a panel into c, whose blocks are ldc bytes apart. Tiles whose windows are
// inside the image read it directly; for others, window copies the input with zero padding.
func (d *NCHWInput) rowOf(level cpu.Level, c unsafe.Pointer, ldc int, add unsafe.Pointer, x []float32, p *panel,
	row int, ep *BlockedEpilogue, bp *[]float32) {
	w := d.Weights
	t := tileArgs{ldc: ldc}
	d.args(&t, p, ep)
	if add != nil {
		t.ldadd = ep.AddLayout.Block * 4
	}
	y0 := row*d.StrideH - d.Top
	rowsInside := y0 >= 0 && y0+(w.KH-1)*d.DilationH < d.H
	most := tilePixels(level)
	for i := range tiles(d.Out.W, most) {
		a, b := split(d.Out.W, most, i)
		x0 := a*d.StrideW - d.Left
		width := (b-a-1)*d.StrideW + (w.KW-1)*d.DilationW + 1
		if rowsInside && x0 >= 0 && x0+width <= d.W {
			t.a = at(ptr(x), y0*d.W+x0)
			t.dkh, t.dcb = d.advances()
		} else {
			t.a = ptr(d.window(bp, x, y0, x0, width))
			t.dkh = (width - w.KW*d.DilationW) * 4
			t.dcb = 0
		}
		t.c = at(c, a*Lanes)
		if add != nil {
			t.add = at(add, a*Lanes)
		}
		runNCHW(level, b-a, p.blocks, &t)
	}
}

// args sets the arguments of a tile of a panel that do not depend on its place, for a tile inside
// of the image.
func (d *NCHWInput) args(t *tileArgs, p *panel, ep *BlockedEpilogue) {
	w := d.Weights
	t.cb, t.kh, t.kw, t.pixel, t.dkw = d.Cin, w.KH, w.KW, d.StrideW*4, (d.DilationW-1)*4
	t.dkh, t.dcb = d.advances()
	t.b, t.bias, t.bStep = at(ptr(w.Data), p.offset), at(ptr(w.Bias), p.block*Lanes), p.blocks*Lanes*4
	t.act = uint64(ep.Act)
	t.lo, t.hi = ep.bounds()
}

// advances returns the increments after a kernel row and after a channel, inside of the image.
func (d *NCHWInput) advances() (dkh, dcb int) {
	w := d.Weights
	return (d.DilationH*d.W - w.KW*d.DilationW) * 4, (d.H - w.KH*d.DilationH) * d.W * 4
}

// window copies the columns [x0, x0+width) of the rows that a kernel at y0 reads, zero-padded:
// [Cin][KH][width].
func (d *NCHWInput) window(bp *[]float32, x []float32, y0, x0, width int) []float32 {
	kh := d.Weights.KH
	if n := d.Cin * kh * width; cap(*bp) < n {
		*bp = memory.Slice[float32](n)
	}
	rows := (*bp)[:d.Cin*kh*width]
	clear(rows)
	from, to := max(0, x0), min(d.W, x0+width)
	for i := range d.Cin * kh {
		if y := y0 + i%kh*d.DilationH; y >= 0 && y < d.H && from < to {
			copy(rows[i*width+from-x0:(i+1)*width], x[(i/kh*d.H+y)*d.W:][from:to])
		}
	}
	return rows
}
