package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// InstanceNormalization normalizes each channel of each instance to mean 0 and variance 1, then
// scales and shifts it (https://onnx.ai/onnx/operators/onnx__InstanceNormalization.html).
type InstanceNormalization struct{ Epsilon float32 }

var _ = kit.Register(&kit.Def{Name: "InstanceNormalization", Since: kit.Versions{1, 6, 22}, In: "input:T, scale:T, B:T",
	Out: "output:T", Types: "T: @float",
	Work: 6,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		if opset < 6 {
			a.Ignore("consumed_inputs")
		}
		return &InstanceNormalization{Epsilon: reduce.ReadEpsilon(a)}
	},
	Gradient: gradient.Decomposition(func(b *gradient.Builder, n *gradient.Node) (string, error) {
		x := b.Normal(n.Inputs[0], n.Attrs.Float("epsilon", 1e-5), func(v string) string { return b.SumFrom(v, 2) })
		return b.ScaledAndShifted(x, n.Input(1), n.Input(2), b.ChannelsLike(n.Inputs[0])), nil
	})})

// Infer keeps the shape.
func (*InstanceNormalization) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	if s := c.Shape(0); s != nil && len(s) < 2 {
		return fail.Errorf("input has rank %d, want at least 2", len(s))
	}
	return nil
}

// Run computes half-precision types in float32.
func (n *InstanceNormalization) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return reduce.GroupNorm[float64](c, 0, false, n.Epsilon)
	}
	return reduce.GroupNorm[float32](c, 0, false, n.Epsilon)
}
