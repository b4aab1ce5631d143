package conv

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/kernels/gemm"
)

// Excite computes the factors of squeeze-and-excitation (Hu and others, "Squeeze-and-Excitation
// Networks", 2018), two 1×1 convolutions of the mean of each plane, and applies them, in two
// launches: convolutions of a pixel take less time than threads need to wait for each other. Each
// part of the first launch sums some rows of the image, and their share of the first convolution.
// In the second one, each thread adds these and computes those factors that it applies. It is
// immutable.
type Excite struct {
	in            Layout
	first, second *Direct
	parts         []excitePart
}

// excitePart is a range of the rows of all blocks, in order, and the first convolution of the
// blocks that it touches.
type excitePart struct {
	lo, hi int
	*Direct
}

// The number of parts does not depend on the number of threads, because results depend on it.
const (
	exciteElements = 1 << 11 // of the image, at least, for a part
	mostExcite     = 16      // parts, unless they have manyElements
	manyElements   = 1 << 16
)

// NewExcite makes the kernel for images in a layout. Both convolutions must be of one tap without
// groups, as [Direct.Scales] reports, and of one pixel.
func NewExcite(in Layout, first, second *Direct) (*Excite, error) {
	for _, d := range []*Direct{first, second} {
		if !d.Scales() || d.In.H*d.In.W*d.Out.H*d.Out.W != 1 || d.Top|d.Left != 0 {
			return nil, fail.Errorf("convolution from %+v to %+v is not one of a pixel", d.In, d.Out)
		}
	}
	if first.In.C != in.C || second.In.C != first.Out.C || second.Out.C != in.C {
		return nil, fail.Errorf("convolutions of %d to %d and of %d to %d channels do not make factors of %d",
			first.In.C, first.Out.C, second.In.C, second.Out.C, in.C)
	}
	e := &Excite{in: in, first: first.pixelOf(), second: second.pixelOf()}
	size, rows := in.Blocks()*Lanes*in.H*in.W, in.Blocks()*in.H
	n := max(1, min(mostExcite, size/exciteElements), size/manyElements)
	n = min(n, rows)
	for k := range n {
		p := excitePart{lo: rows * k / n, hi: rows * (k + 1) / n}
		p.Direct = e.first.part(p.lo/in.H, (p.hi+in.H-1)/in.H, k == 0)
		e.parts = append(e.parts, p)
	}
	return e, nil
}

// pixelOf returns the convolution of one pixel between images without space between blocks.
func (d *Direct) pixelOf() *Direct {
	c := *d
	c.In = Layout{C: d.In.C, H: 1, W: 1, Row: Lanes, Block: Lanes}
	c.Out = Layout{C: d.Out.C, H: 1, W: 1, Row: Lanes, Block: Lanes}
	return &c
}

// onePixel are the rows of an image of one pixel.
var onePixel = rows{1, 1, true, false, 1}

// noEpilogue stores sums as they are.
var noEpilogue = new(BlockedEpilogue)

// Work returns the number of elements of memory that Run needs for a number of threads.
func (e *Excite) Work(threads int) int {
	return len(e.parts)*(e.first.In.Len()+e.first.Out.Len()) + threads*(e.first.Out.Len()+e.second.Out.Len())
}

// Run computes the factors of image x, and calls apply for each panel of one or two blocks of
// channels with factors from channel 0 of its first block on, and with a range of pieces, of the
// given number: the calls cover all pieces of each panel. work has [Excite.Work] elements. The
// epilogues are those of the convolutions.
func (e *Excite) Run(level cpu.Level, par gemm.Par, threads int, work, x []float32, first, second *BlockedEpilogue,
	pieces int, apply func(factors []float32, block, blocks, lo, hi int)) {
	e.in.check("input", x)
	par = orSerial(par)
	n, in, mid := len(e.parts), e.first.In.Len(), e.first.Out.Len()
	sums, means, own := work[:n*mid], work[n*mid:][:n*in], work[n*(mid+in):]
	par(n, func(lo, hi int) {
		for k := lo; k < hi; k++ {
			e.squeeze(level, sums[k*mid:][:mid], means[k*in:][:in], x, &e.parts[k])
		}
	})
	all, each := len(e.second.Weights.panels)*pieces, mid+e.second.Out.Len()
	units := min(threads, all)
	par(units, func(lo, hi int) {
		if lo == hi {
			return
		}
		h, factors := own[lo*each:][:mid], own[lo*each:][mid:each]
		e.first.total(level, h, sums, n, first)
		for at, end := all*lo/units, all*hi/units; at < end; {
			p := at / pieces
			last := min(end, (p+1)*pieces)
			e.second.panel(level, factors, h, second, p, &onePixel, 0, 1)
			panel := e.second.Weights.panels[p]
			apply(factors[panel.block*Lanes:], panel.block, panel.blocks, at-p*pieces, last-p*pieces)
			at = last
		}
	})
}

// squeeze writes the sums of a part of the first convolution. means has an element per channel.
func (e *Excite) squeeze(level cpu.Level, sums, means, x []float32, p *excitePart) {
	for at := p.lo; at < p.hi; {
		b := at / e.in.H
		end := min(p.hi, (b+1)*e.in.H)
		rows := e.in
		rows.Top, rows.H = rows.Top+at-b*e.in.H, end-at
		for l, v := range SumBlock(level, &rows, x, b) {
			means[b*Lanes+l] = float32(v / float64(e.in.H*e.in.W))
		}
		at = end
	}
	for i := range p.Weights.panels {
		p.panel(level, sums, means, noEpilogue, i, &onePixel, 0, 1)
	}
}
