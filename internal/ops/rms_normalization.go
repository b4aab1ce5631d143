package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// RMSNormalization divides the elements along axis Axis and the following ones by their root mean
// square, and scales them. The output has the element type of scale
// (https://onnx.ai/onnx/operators/onnx__RMSNormalization.html).
type RMSNormalization struct {
	Axis    int
	Epsilon float32
}

var _ = kit.Register(&kit.Def{Name: "RMSNormalization", Since: kit.Versions{23}, In: "X:T, scale:V", Out: "Y:V",
	Types: "T: @float; V: @float",
	Work:  4,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		reduce.ReadStash(a)
		return &RMSNormalization{Axis: a.Int("axis", -1), Epsilon: reduce.ReadEpsilon(a)}
	},
	Gradient: gradient.Decomposition(func(b *gradient.Builder, n *gradient.Node) (string, error) {
		x, axis := n.Inputs[0], n.Attrs.Int("axis", -1)
		mean := b.Op("Div", b.SumFrom(b.Op("Mul", x, x), axis), b.SumFrom(b.Filled(1, x), axis))
		x = b.Op("Div", x, b.Op("Sqrt", b.Plus(mean, n.Attrs.Float("epsilon", 1e-5))))
		return b.ScaledAndShifted(x, n.Input(1), "", func(v string) string { return v }), nil
	})})

// Infer keeps the shape.
func (n *RMSNormalization) Infer(c *ir.InferContext) error {
	t := c.Type(0)
	t.Elem = c.Elem(1)
	c.SetOut(0, t)
	if t.Shape != nil {
		_, err := kit.NormalAxis(n.Axis, len(t.Shape))
		return err
	}
	return nil
}

// Run computes half-precision types in float32, and float64 in float64.
func (n *RMSNormalization) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return rmsNorm[float64](c, n)
	}
	return rmsNorm[float32](c, n)
}

func rmsNorm[T kit.RealFloat](c *ir.Call, n *RMSNormalization) error {
	t := c.Tensor(0)
	shape := t.Shape()
	axis, err := kit.NormalAxis(n.Axis, len(shape))
	if err != nil {
		return err
	}
	r := reduce.NormRows[T]{Cols: kit.Product(shape[axis:]), Eps: float64(n.Epsilon)}
	if r.X, err = kit.RealIn[T](c, t); err != nil {
		return err
	}
	if r.Gain, err = reduce.NormParam[T](c, "scale", c.Tensor(1), shape, axis); err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, c.Tensor(1).DType(), shape...)
	if err != nil {
		return err
	}
	r.Y = y.Data
	r.Launch(c)
	y.Store()
	return nil
}
