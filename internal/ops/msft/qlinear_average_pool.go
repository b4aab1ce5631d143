package msft

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// QLinearAveragePool returns the means of quantized numbers over sliding windows
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearAveragePool).
type QLinearAveragePool struct {
	ops.AveragePool
	ChannelsLast bool
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "QLinearAveragePool", Since: kit.Versions{1},
	In: "X:T, x_scale:float, x_zero_point:T?, y_scale:float, y_zero_point:T?", Out: "Y:T", Types: "T: " + byteTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("kernel_shape")
		p := &QLinearAveragePool{ops.AveragePool{Window: window.Read(a, false)}, a.Bool("channels_last", false)}
		p.Ceil, p.CountIncludePad = a.Bool("ceil_mode", false), a.Bool("count_include_pad", false)
		return p
	}})

// Infer computes the output shape.
func (p *QLinearAveragePool) Infer(c *ir.InferContext) error {
	if p.ChannelsLast {
		return window.InferPoolLast(c, &p.Window, ir.UnrankedTensor(c.Elem(0)))
	}
	return window.InferPool(c, &p.Window, ir.UnrankedTensor(c.Elem(0)))
}

// Run averages integers less the zero point, so that the sums are exact; padding is 0.
func (p *QLinearAveragePool) Run(c *ir.Call) error {
	x := c.Tensor(0)
	in, err := byteQuantOf(c, "X", x.DType(), 1, 2)
	if err != nil {
		return err
	}
	out, err := byteQuantOf(c, "Y", x.DType(), 3, 4)
	if err != nil {
		return err
	}
	if r := x.Rank(); p.ChannelsLast && !c.Generic && (r == 3 || r == 4) {
		return p.pixels(c, x, in, out)
	}
	if p.ChannelsLast {
		if x, err = window.ChannelsFirst(c, x); err != nil {
			return err
		}
	}
	g, shape, err := window.PoolGeom(&p.Window, x.Shape())
	if err != nil {
		return err
	}
	y, done, err := window.ChannelsOutput(c, 0, x.DType(), shape, p.ChannelsLast)
	if err != nil || y.Len() == 0 {
		return err
	}
	ratio := in.scale / out.scale
	in.scale = 1
	src, err := realBytes(c, x, &in)
	if err != nil {
		return err
	}
	dst, err := ir.ScratchOf[float32](c, y.Len())
	if err != nil {
		return err
	}
	if err := window.AveragePlanes(c, p.CountIncludePad, &g, src, dst, shape[0]*shape[1]); err != nil {
		return err
	}
	if err := quantizeBytes(c, y, dst, ratio, &out); err != nil {
		return err
	}
	done()
	return nil
}

// pixels averages rows of pixels in parallel: the sums of the rows of a window, then those of its
// columns, all channels together. Sums in float32 are exact for windows of up to 65,793 taps of 8
// bits.
func (p *QLinearAveragePool) pixels(c *ir.Call, x *tensor.Tensor, in, out byteQuant) error {
	g, shape, err := window.PoolGeom(&p.Window, window.ChannelsFirstShape(x.Shape()))
	if err != nil {
		return err
	}
	y, err := c.Output(0, x.DType(), window.ChannelsLastShape(shape)...)
	if err != nil || y.Len() == 0 {
		return err
	}
	r, src, dst, last := newPixelRows(&g, shape[1]), x.Bytes(), y.Bytes(), len(g.In)-1
	rows, per, stride, dilation := shape[0]*r.rows, 2*r.inRow+r.outRow, g.Stride[last]*r.ch, g.Dilation[last]*r.ch
	across, down := g.Counts(last, p.CountIncludePad), []int{1}
	if last == 1 {
		down = g.Counts(0, p.CountIncludePad)
	}
	scratch, err := ir.ScratchOf[float32](c, per*kit.WorkspaceCount(c, rows))
	if err != nil {
		return err
	}
	l, ratio, plain := cpu.Active(), in.scale/out.scale, byteQuant{scale: 1, signed: in.signed}
	return kit.InWorkspaces(c, rows, func(ws, row int) error {
		s := scratch[ws*per:][:per]
		columns, more, sums := s[:r.inRow], s[r.inRow:][:r.inRow], s[2*r.inRow:]
		meter := ir.Meter{C: c}
		taps, at, step := r.taps(row)
		for k := range taps {
			bytes := src[at+k*step:][:r.inRow]
			if k == 0 {
				plain.widen(l, columns, bytes)
			} else {
				plain.widen(l, more, bytes)
				vec.AddF32(l, columns, columns, more)
			}
			meter.Check(r.inRow)
		}
		tall, high := max(0, taps), down[row%r.rows]
		r.runs(func(i, n, at, taps int) {
			together := 1 // outputs whose columns are adjacent
			if stride == r.ch {
				together = n
			}
			for ; n > 0; i, n, at = i+together, n-together, at+together*stride {
				sum := sums[i*r.ch:][:together*r.ch]
				if taps*tall <= 0 {
					clear(sum)
					continue
				}
				first := columns[at:]
				for k := 1; k < taps; k++ {
					vec.AddF32(l, sum, first[:len(sum)], columns[at+k*dilation:][:len(sum)])
					first = sum
				}
				vec.SubScalarF32(l, sum, first[:len(sum)], float32(taps*tall*int(in.zero)))
				meter.Check(len(sum) * taps)
			}
		})
		for i, n := 0, 0; i < len(across); i += n {
			for n = 1; i+n < len(across) && across[i+n] == across[i]; n++ {
			}
			pixels := sums[i*r.ch:][:n*r.ch]
			vec.DivScalarF32(l, pixels, pixels, float32(max(1, high*across[i])))
		}
		vec.MulScalarF32(l, sums, sums, ratio)
		out.narrow(l, dst[row*r.outRow:][:r.outRow], sums, 1)
		return nil
	})
}

// realBytes returns the dequantized elements of t.
func realBytes(c *ir.Call, t *tensor.Tensor, q *byteQuant) ([]float32, error) {
	r, err := ir.ScratchOf[float32](c, t.Len())
	if err != nil {
		return nil, err
	}
	table, src := q.reals(), t.Bytes()
	if !c.Generic {
		l := cpu.Active()
		c.Parallel(len(src), kit.GrainCheap, func(lo, hi int) { q.widen(l, r[lo:hi], src[lo:hi]) })
		return r, nil
	}
	c.Parallel(len(src), kit.GrainCheap, func(lo, hi int) {
		dst := r[lo:hi]
		for i, v := range src[lo:hi] {
			dst[i] = table[v]
		}
	})
	return r, nil
}

// quantizeBytes quantizes x·ratio, given in multiples of q's scale, to y; it overwrites
// x.
func quantizeBytes(c *ir.Call, y *tensor.Tensor, x []float32, ratio float32, q *byteQuant) error {
	dst := y.Bytes()
	if !c.Generic {
		l := cpu.Active()
		c.Parallel(len(x), kit.GrainCheap, func(lo, hi int) {
			vec.MulScalarF32(l, x[lo:hi], x[lo:hi], ratio)
			q.narrow(l, dst[lo:hi], x[lo:hi], 1)
		})
		return nil
	}
	c.Parallel(len(x), kit.GrainCheap, func(lo, hi int) {
		for i := range x[lo:hi] {
			x[lo+i] *= ratio
		}
		q.quantize(dst[lo:hi], x[lo:hi])
	})
	return nil
}
