package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// AveragePool takes the mean over a sliding window.
type AveragePool struct {
	window.Window
	CountIncludePad bool // divide by the window's elements in the padding too
}

var _ = kit.Register(&kit.Def{Name: "AveragePool", Since: kit.Versions{1, 7, 10, 11, 19, 22}, In: "X:T",
	Out: "Y:T", Types: "T: @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("kernel_shape")
		p := &AveragePool{Window: window.Read(a, opset >= 19)}
		if opset >= 7 {
			p.CountIncludePad = a.Bool("count_include_pad", false)
		}
		if opset >= 10 {
			p.Ceil = a.Bool("ceil_mode", false)
		}
		p.Crop = true
		return p
	},
	Gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
		return []string{b.Node("onward.AveragePoolGradient", n.Attrs, g, n.Inputs[0])}, nil
	})})

// Infer computes the spatial sizes.
func (p *AveragePool) Infer(c *ir.InferContext) error {
	return window.InferPool(c, &p.Window, ir.UnrankedTensor(c.Elem(0)))
}

// Run processes planes in parallel.
func (p *AveragePool) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return averagePool[float64](c, p)
	}
	return averagePool[float32](c, p)
}

func averagePool[T kit.RealFloat](c *ir.Call, p *AveragePool) error {
	g, shape, err := window.PoolGeom(&p.Window, c.Tensor(0).Shape())
	if err != nil {
		return err
	}
	if !c.Generic && g.Whole() {
		return (&GlobalAveragePool{}).Run(c)
	}
	x, err := kit.RealIn[T](c, c.Tensor(0))
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, c.Tensor(0).DType(), shape...)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	err = window.AveragePlanes(c, p.CountIncludePad, &g, x, y.Data, shape[0]*shape[1])
	if err == nil {
		y.Store()
	}
	return err
}
