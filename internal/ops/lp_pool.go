package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// LpPool returns the p-norm over a sliding window; padding is 0
// (https://onnx.ai/onnx/operators/onnx__LpPool.html).
type LpPool struct {
	window.Window
	P float64
}

var _ = kit.Register(&kit.Def{Name: "LpPool", Since: kit.Versions{1, 2, 11, 18, 22}, In: "X:T",
	Out: "Y:T", Types: "T: @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("kernel_shape")
		p := &LpPool{Window: window.Read(a, opset >= 18), P: window.ReadNorm(a, opset)}
		if opset >= 18 {
			p.Ceil = a.Bool("ceil_mode", false)
		}
		p.Crop = true
		return p
	}})

// Infer computes the spatial sizes.
func (p *LpPool) Infer(c *ir.InferContext) error {
	return window.InferPool(c, &p.Window, ir.UnrankedTensor(c.Elem(0)))
}

// Run processes planes in parallel.
func (p *LpPool) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return lpPool[float64](c, p)
	}
	return lpPool[float32](c, p)
}

func lpPool[T kit.RealFloat](c *ir.Call, p *LpPool) error {
	g, shape, err := window.PoolGeom(&p.Window, c.Tensor(0).Shape())
	if err != nil {
		return err
	}
	x, err := kit.RealIn[T](c, c.Tensor(0))
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, c.Tensor(0).DType(), shape...)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	in, out := kit.Product(g.In), kit.Product(g.Out)
	err = window.PoolPlanes(c, &g, shape[0]*shape[1], func(m *ir.Meter, plane int) bool {
		xp, yp := x[plane*in:][:in], y.Data[plane*out:][:out]
		return window.PoolPlain(&g, m, xp, nil, func(o int, vals []T) bool {
			yp[o] = T(window.NormOf(vals, p.P))
			return true
		})
	})
	if err == nil {
		y.Store()
	}
	return err
}
