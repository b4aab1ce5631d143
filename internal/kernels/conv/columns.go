package conv

import (
	"sync"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
)

// Columns is a convolution to few channels. It computes several adjacent columns of the output as
// channels of one pixel, which fill the vectors: a convolution by shifted copies of the weights,
// whose stride and width are larger.
type Columns struct {
	Out     Layout
	columns int        // of a pixel of the wide convolution
	direct  *Direct    // the wide convolution, of one panel, or nil
	input   *NCHWInput // the wide convolution of an image in (C, H, W), or nil
}

// ChooseColumns returns the number of columns that [Columns] computes as channels of one pixel, 1
// if a plain convolution is as fast, for width outputs of a kernel of kw columns.
func ChooseColumns(level cpu.Level, cout, kw, stride, dilation, width int) int {
	// time of a step of a tile, for 8, 16, 24 and 32 channels
	time := [...]float64{0.54, 0.61, 1, 1} // measured on a Xeon with AVX-512
	if level == cpu.AVX2 || level == cpu.NEON {
		time = [...]float64{0.25, 0.5, 0.75, 1} // vectors are halves of blocks
	}
	rate := func(n int) float64 { // outputs in the time of a tap
		return float64(width) / (float64(tiles(width, n)*(kw+(n-1)*stride)) * time[tiles(n*cout, Lanes/2)-1])
	}
	best := 1
	if cout > Lanes {
		return best
	}
	for n := 2; n*cout <= 2*Lanes && n <= width && dilation == 1; n++ {
		if rate(n) > max(rate(best), 1.3*rate(1)) {
			best = n
		}
	}
	return best
}

// WideColumns returns the weights of the wide convolution of columns columns, of shape
// (columns·cout, cin, kh, kw+(columns-1)·stride), and its bias, which is nil if bias is.
func WideColumns(w, bias []float32, cin, cout, kh, kw, stride, columns int) (wide, wideBias []float32) {
	width := kw + (columns-1)*stride
	wide = make([]float32, columns*cout*cin*kh*width)
	for j := range columns {
		for i := range cout * cin * kh {
			copy(wide[(j*cout*cin*kh+i)*width+j*stride:], w[i*kw:][:kw])
		}
		wideBias = append(wideBias, bias...)
	}
	return wide, wideBias
}

// wideLayout returns a layout of one row that all rows of a wide convolution share.
func wideLayout(out *Layout, columns int) Layout {
	w := tiles(out.W, columns)
	return Layout{C: columns * out.C, H: out.H, W: w, Block: w * Lanes}
}

// NewColumns returns the convolution d of which d.Weights are the weights of [WideColumns], in the
// layout of [PackWeights]. The border of the input must include the padding of whole pixels of the
// wide convolution, see [ColumnsBorder].
func NewColumns(d Direct, columns int) (*Columns, error) {
	c := &Columns{Out: d.Out, columns: columns, direct: &d}
	d.Out, d.StrideW = wideLayout(&c.Out, columns), d.StrideW*columns
	return c, d.Check()
}

// NewInputColumns is [NewColumns] for an image in (C, H, W), which needs no border, and weights of
// [PackNCHWInput].
func NewInputColumns(d NCHWInput, columns int) *Columns {
	c := &Columns{Out: d.Out, columns: columns, input: &d}
	d.Out, d.StrideW = wideLayout(&c.Out, columns), d.StrideW*columns
	return c
}

// ColumnsBorder returns the border at the right of an input of the given width that [Columns]
// reads for width outputs.
func ColumnsBorder(in, width, kw, stride, left, columns int) int {
	return max(0, (tiles(width, columns)*columns-1)*stride-left+kw-in)
}

// To returns the convolution with another output layout of the same size.
func (c *Columns) To(out Layout) *Columns {
	r := *c
	r.Out = out
	return &r
}

var columnsPool = sync.Pool{New: func() any { return new([]float32) }}

// Run computes one image. par distributes rows, or parts of a single row; if it is nil, one call
// computes everything.
func (c *Columns) Run(level cpu.Level, par gemm.Par, y, x []float32, ep *BlockedEpilogue) {
	c.Out.check("output", y)
	if ep.Add != nil {
		ep.AddLayout.check("residual", ep.Add)
	}
	var none BlockedEpilogue
	var wide *Layout
	var units rows
	var compute func(row []float32, g int)
	if d := c.direct; d != nil {
		d.In.check("input", x)
		wide = &d.Out
		units = newRows(&d.In, wide, &BlockedEpilogue{Threads: ep.Threads}, 1, 0, false)
		compute = func(row []float32, g int) { d.panel(level, row, x, &none, 0, &units, g, g+1) }
	} else {
		d := c.input
		d.check(x)
		wide = &d.Out
		units = rows{units: wide.H, width: wide.W}
		compute = func(row []float32, g int) { d.run(level, row, x, &none, g, g+1) }
	}
	work := func(lo, hi int) {
		bp := columnsPool.Get().(*[]float32)
		defer columnsPool.Put(bp)
		if n := wide.Blocks() * wide.Block; cap(*bp) < n {
			*bp = memory.Slice[float32](n)
		}
		buf := (*bp)[:wide.Blocks()*wide.Block]
		for g := lo; g < hi; g++ {
			compute(buf, g)
			row, a, b := units.unit(g)
			a, b = a*c.columns, min(b*c.columns, c.Out.W)
			c.spread(y[c.Out.At(0, row, a):][:(b-a)*Lanes], buf, wide, a)
			c.mend(level, y, x, row, a, b)
			c.finish(level, y, row, a, b, ep)
		}
	}
	if par == nil {
		work(0, units.units)
	} else {
		par(units.units, work)
	}
}

// spread copies columns from first on, a multiple of c.columns, from the channels of a wide row.
func (c *Columns) spread(dst, wide []float32, l *Layout, first int) {
	var offsets [2 * Lanes]int // of the channels of a pixel
	for k := range offsets {
		offsets[k] = k/Lanes*l.Block + k%Lanes
	}
	n := c.Out.C
	for pixel := first / c.columns; len(dst) > 0; pixel++ {
		src := wide[pixel*Lanes:]
		for k := 0; k < c.columns*n && len(dst) > 0; k += n {
			d := (*[Lanes]float32)(dst)
			*d = [Lanes]float32{}
			for o, at := range offsets[k : k+n] {
				d[o] = src[at]
			}
			dst = dst[Lanes:]
		}
	}
}

// finish applies the epilogue to columns [a, b) of a row.
func (c *Columns) finish(level cpu.Level, y []float32, row, a, b int, ep *BlockedEpilogue) {
	d := y[c.Out.At(0, row, a):][:(b-a)*Lanes]
	if ep.Add != nil {
		vec.AddF32(level, d, d, ep.Add[ep.AddLayout.At(0, row, a):][:len(d)])
	}
	switch ep.Act {
	case gemm.Relu:
		vec.ReluF32(level, d, d)
	case gemm.Clip:
		vec.ClipF32(level, d, d, ep.Lo, ep.Hi)
	}
	if ep.finishes() {
		ep.finish(level, &c.Out, y, 0, 0, 1, row, a, b)
	}
}

// mend recomputes columns [a, b) of a row that are NaN: an infinite or NaN pixel that only other
// columns read was multiplied by zero.
func (c *Columns) mend(level cpu.Level, y, x []float32, row, a, b int) {
	at := c.Out.At(0, row, a)
	if s := vec.SumF32(level, y[at:][:(b-a)*Lanes]); s == s {
		return
	}
	for i, v := range y[at:][:(b-a)*Lanes] {
		if v != v {
			y[at+i] = c.sum(x, row, a+i/Lanes, i%Lanes)
		}
	}
}

// sum returns output o of a column with its bias.
func (c *Columns) sum(x []float32, row, column, o int) float32 {
	pixel, first := column/c.columns, column%c.columns
	channel := first*c.Out.C + o
	w := c.weights()
	width := w.panels[0].blocks * Lanes
	v := w.Bias[channel]
	for in := range w.Cin {
		for ky := range w.KH {
			for kx := range w.KW {
				k := 0 // of the weights
				var pix float32
				var stride int
				if d := c.direct; d != nil {
					stride = d.StrideW / c.columns
					k = ((in/Lanes*w.KH+ky)*w.KW+kx)*Lanes + in%Lanes
					pix = x[d.In.At(in/Lanes, row*d.StrideH-d.Top+ky*d.DilationH, pixel*d.StrideW-d.Left+kx)+in%Lanes]
				} else {
					d := c.input
					stride = d.StrideW / c.columns
					k = (in*w.KH+ky)*w.KW + kx
					iy, ix := row*d.StrideH-d.Top+ky*d.DilationH, pixel*d.StrideW-d.Left+kx
					if iy >= 0 && iy < d.H && ix >= 0 && ix < d.W {
						pix = x[(in*d.H+iy)*d.W+ix]
					}
				}
				if kx >= first*stride && kx < w.KW-(c.columns-1-first)*stride {
					v += pix * w.Data[k*width+channel]
				}
			}
		}
	}
	return v
}

func (c *Columns) weights() *Weights {
	if c.direct != nil {
		return c.direct.Weights
	}
	return c.input.Weights
}
