package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// MaxPool returns the maximum over a sliding window, without the padding; NaN propagates. The
// second output is the index, in the flattened input, of the first maximum of each window
// (https://onnx.ai/onnx/operators/onnx__MaxPool.html).
type MaxPool struct {
	window.Window
	ColumnMajor bool // number the elements of a plane in column-major order
}

var _ = kit.Register(&kit.Def{Name: "MaxPool", Since: kit.Versions{1, 8, 10, 11, 12, 22}, In: "X:T",
	Out:     "Y:T, Indices:int64?",
	Types:   "T: @float int8 uint8",
	Selects: kit.Always, Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("kernel_shape")
		p := &MaxPool{Window: window.Read(a, opset >= 10)}
		if opset >= 8 {
			p.ColumnMajor = a.Bool("storage_order", false)
		}
		if opset >= 10 {
			p.Ceil = a.Bool("ceil_mode", false)
		}
		p.Crop = true
		return p
	},
	Gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
		if err := b.Need(8); err != nil {
			return nil, err
		}
		m := *n
		m.Attrs, m.Outputs = n.Attrs.Without("storage_order"), []string{"", ""} // as many as the repetition has
		return []string{b.ScatterBack(0, g, b.Again(&m)[1], n.Inputs[0])}, nil
	})})

// Infer computes the spatial sizes.
func (p *MaxPool) Infer(c *ir.InferContext) error {
	return window.InferPool(c, &p.Window, ir.UnrankedTensor(c.Elem(0)), ir.UnrankedTensor(tensor.TypeInt64))
}

// Run processes planes in parallel.
func (p *MaxPool) Run(c *ir.Call) error {
	x := c.Tensor(0)
	switch x.DType() {
	case tensor.TypeInt8, tensor.TypeUint8:
		return maxPoolDirect(c, p, x)
	case tensor.TypeFloat64:
		return maxPoolReal[float64](c, p, x)
	}
	return maxPoolReal[float32](c, p, x)
}

func maxPoolDirect(c *ir.Call, p *MaxPool, x *tensor.Tensor) error {
	g, shape, err := window.PoolGeom(&p.Window, x.Shape())
	if err != nil {
		return err
	}
	y, err := c.Output(0, x.DType(), shape...)
	if err != nil {
		return err
	}
	if n := len(g.In); n == 2 && g.Dilation[0] == 1 && g.Dilation[1] == 1 && g.Stride[1] <= 2 && !c.Generic &&
		!c.Wants(1) && y.Len() > 0 {
		return maxPoolBytes(c, &g, x.Bytes(), y.Bytes(), shape[0]*shape[1], window.LeastByte(x.DType()))
	}
	return window.MaxPoolBytes(c, p.ColumnMajor, &g, x, y, shape)
}

// maxPoolBytes pools planes with adjacent windows with a vector kernel. Windows that extend beyond
// a row are computed one by one.
func maxPoolBytes(c *ir.Call, g *window.Geometry, x, y []uint8, planes int, least uint8) error {
	in, out, s, kw := kit.Product(g.In), kit.Product(g.Out), g.Stride[1], g.Kernel[1]
	// Windows [lo, hi) are in the row, and so is the element after them that the kernel reads with
	// stride 2.
	lo := min((g.Before[1]+s-1)/s, g.Out[1])
	hi := lo
	if room := g.In[1] + g.Before[1] - kw - (s - 1); room >= 0 {
		hi = max(lo, min(room/s+1, g.Out[1]))
	}
	type cut struct{ at, from, width int } // a window that is cut off at the edge of a row
	var cuts []cut
	for i := range g.Out[1] {
		if i < lo || i >= hi {
			from, to := g.TapRange(1, i)
			cuts = append(cuts, cut{i, i*s - g.Before[1] + from, max(0, to-from)})
		}
	}
	return window.PoolPlanes(c, g, planes, func(m *ir.Meter, plane int) bool {
		xp, yp := x[plane*in:][:in], y[plane*out:][:out]
		for o := range g.Out[0] {
			first, end := g.TapRange(0, o)
			row := yp[o*g.Out[1]:][:g.Out[1]]
			top := o*g.Stride[0] - g.Before[0] + first
			for _, w := range cuts {
				v := uint8(0)
				for ky := 0; w.width > 0 && ky < end-first; ky++ {
					for _, e := range xp[(top+ky)*g.In[1]+w.from:][:w.width] {
						v = max(v, e^least)
					}
				}
				row[w.at] = v ^ least
			}
			if lo < hi && first < end {
				quant.MaxWindow(cpu.Active(), row[lo:hi], xp[top*g.In[1]+lo*s-g.Before[1]:], g.In[1],
					end-first, kw, s, least)
			} else {
				for i := lo; i < hi; i++ {
					row[i] = least
				}
			}
			if !m.Spend(g.Out[1] * min(1<<20, g.Taps())) {
				return false
			}
		}
		return true
	})
}

func maxPoolReal[T kit.RealFloat](c *ir.Call, p *MaxPool, t *tensor.Tensor) error {
	g, shape, err := window.PoolGeom(&p.Window, t.Shape())
	if err != nil {
		return err
	}
	x, err := kit.RealIn[T](c, t)
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, t.DType(), shape...)
	if err != nil {
		return err
	}
	if err := window.MaxPool(c, p.ColumnMajor, &g, x, y.Data, shape, T(math.Inf(-1))); err != nil {
		return err
	}
	y.Store()
	return nil
}
