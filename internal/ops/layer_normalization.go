package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// LayerNormalization normalizes the elements along axis Axis and the following ones to mean 0 and
// variance 1, then scales and shifts them. The optional second and third outputs are Mean and
// InvStdDev (https://onnx.ai/onnx/operators/onnx__LayerNormalization.html). ONNX Runtime defines
// it in the domain ai.onnx from opset 1 on, and its tools write it into older models.
type LayerNormalization struct {
	Axis    int
	Epsilon float32
	Stash   tensor.DType // element type of Mean and InvStdDev
}

var _ = kit.Register(&kit.Def{Name: "LayerNormalization", Since: kit.Versions{1, 17}, In: "X:T, Scale:T, B:T?",
	Out:   "Y:T, Mean:U?, InvStdDev:U?",
	Work:  6,
	Types: "T: @float; U: float bfloat16",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &LayerNormalization{Axis: a.Int("axis", -1), Epsilon: reduce.ReadEpsilon(a), Stash: reduce.ReadStash(a)}
	},
	Gradient: gradient.Decomposition(func(b *gradient.Builder, n *gradient.Node) (string, error) {
		axis := n.Attrs.Int("axis", -1)
		x := b.Normal(n.Inputs[0], n.Attrs.Float("epsilon", 1e-5), func(v string) string { return b.SumFrom(v, axis) })
		return b.ScaledAndShifted(x, n.Input(1), n.Input(2), func(v string) string { return v }), nil
	})})

// Infer sets the dimensions of the statistics from Axis on to 1.
func (n *LayerNormalization) Infer(c *ir.InferContext) error {
	stat := ir.UnrankedTensor(n.Stash)
	var err error
	if s := c.Shape(0); s != nil {
		var axis int
		if axis, err = kit.NormalAxis(n.Axis, len(s)); err == nil {
			stat.Shape = append([]ir.Dim{}, s...)
			for i := range s[axis:] {
				stat.Shape[axis+i] = ir.Known(1)
			}
		}
	}
	c.SetOut(0, c.Type(0))
	c.SetOut(1, stat)
	c.SetOut(2, stat)
	return err
}

// Run computes half-precision types in float32 and float64 in float64.
func (n *LayerNormalization) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return layerNorm[float64](c, n)
	}
	return layerNorm[float32](c, n)
}

func layerNorm[T kit.RealFloat](c *ir.Call, n *LayerNormalization) error {
	t := c.Tensor(0)
	shape := t.Shape()
	axis, err := kit.NormalAxis(n.Axis, len(shape))
	if err != nil {
		return err
	}
	r := reduce.NormRows[T]{Cols: kit.Product(shape[axis:]), Eps: float64(n.Epsilon), Center: true}
	if r.X, err = kit.RealIn[T](c, t); err != nil {
		return err
	}
	if r.Gain, err = reduce.NormParam[T](c, "Scale", c.Tensor(1), shape, axis); err != nil {
		return err
	}
	if r.Bias, err = reduce.NormParam[T](c, "B", c.Tensor(2), shape, axis); err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, t.DType(), shape...)
	if err != nil {
		return err
	}
	r.Y = y.Data
	stat := append(c.Ints(len(shape))[:0], shape...)
	for i := range stat[axis:] {
		stat[axis+i] = 1
	}
	var stats [2]kit.RealOutput[float32]
	for i, p := range []*[]float32{&r.Mean, &r.Inv} {
		if c.Wants(1 + i) {
			if stats[i], err = kit.RealOut[float32](c, 1+i, n.Stash, stat...); err != nil {
				return err
			}
			*p = stats[i].Data
		}
	}
	if len(r.X) == 0 && (len(r.Mean) > 0 || len(r.Inv) > 0) {
		return fail.Errorf("input has shape %v: the statistics of an empty tensor are undefined", shape)
	}
	r.Launch(c)
	y.Store()
	for _, s := range stats {
		if s.T != nil {
			s.Store()
		}
	}
	return nil
}
