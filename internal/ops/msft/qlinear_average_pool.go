package msft

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
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
		p := &QLinearAveragePool{ops.AveragePool{Window: kit.ReadWindow(a, false)}, a.Bool("channels_last", false)}
		p.Ceil, p.CountIncludePad = a.Bool("ceil_mode", false), a.Bool("count_include_pad", false)
		return p
	}})

// Infer computes the output shape.
func (p *QLinearAveragePool) Infer(c *ir.InferContext) error {
	if p.ChannelsLast {
		return kit.InferPoolLast(c, &p.Window, ir.UnrankedTensor(c.Elem(0)))
	}
	return kit.InferPool(c, &p.Window, ir.UnrankedTensor(c.Elem(0)))
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
	if p.ChannelsLast {
		if x, err = kit.ChannelsFirst(c, x); err != nil {
			return err
		}
	}
	g, shape, err := kit.PoolGeom(&p.Window, x.Shape())
	if err != nil {
		return err
	}
	y, done, err := kit.ChannelsOutput(c, 0, x.DType(), shape, p.ChannelsLast)
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
	if err := kit.AveragePlanes(c, p.CountIncludePad, &g, src, dst, shape[0]*shape[1]); err != nil {
		return err
	}
	if err := quantizeBytes(c, y, dst, ratio, &out); err != nil {
		return err
	}
	done()
	return nil
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
