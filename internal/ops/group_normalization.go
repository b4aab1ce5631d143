package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// GroupNormalization normalizes each group of channels of each instance to mean 0 and variance 1,
// then scales and shifts it (https://onnx.ai/onnx/operators/onnx__GroupNormalization.html).
type GroupNormalization struct {
	Groups   int
	Epsilon  float32
	PerGroup bool // scale and bias are per group, as in opset 18, not per channel
}

var _ = kit.Register(&kit.Def{Name: "GroupNormalization", Since: kit.Versions{18, 21}, In: "X:T, scale:T, bias:T",
	Out: "Y:T", Types: "T: @float",
	Work: 6,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("num_groups")
		g := &GroupNormalization{Groups: a.Int("num_groups", 1), Epsilon: reduce.ReadEpsilon(a), PerGroup: opset < 21}
		if g.Groups < 1 {
			a.Errorf("attribute num_groups is %d, want at least 1", g.Groups)
		}
		if opset >= 21 {
			reduce.ReadStash(a)
		}
		return g
	},
	Gradient: gradient.Decomposition(groupNormalizationParts)})

// groupNormalizationParts normalizes the groups as rows.
func groupNormalizationParts(b *gradient.Builder, n *gradient.Node) (string, error) {
	x, groups := n.Inputs[0], n.Attrs.Int("num_groups", 1)
	grouped := b.Op("Reshape", x, b.Ints(0, groups, -1))
	normal := b.Normal(grouped, n.Attrs.Float("epsilon", 1e-5), func(v string) string { return b.SumFrom(v, 2) })
	if b.Opset < 21 { // scale and bias are per group
		return b.Op("onward.ReshapeTo", b.ScaledAndShifted(normal, n.Input(1), n.Input(2), b.ChannelsLike(grouped)), x),
			nil
	}
	return b.ScaledAndShifted(b.Op("onward.ReshapeTo", normal, x), n.Input(1), n.Input(2), b.ChannelsLike(x)), nil
}

// Infer keeps the shape.
func (g *GroupNormalization) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	if s := c.Shape(0); s != nil {
		if len(s) < 2 {
			return fail.Errorf("input has rank %d, want at least 2", len(s))
		}
		if n, ok := s[1].Value(); ok && n%g.Groups != 0 {
			return fail.Errorf("%d channels are not divisible by num_groups %d", n, g.Groups)
		}
	}
	return nil
}

// Run computes half-precision types in float32.
func (g *GroupNormalization) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return reduce.GroupNorm[float64](c, g.Groups, g.PerGroup, g.Epsilon)
	}
	return reduce.GroupNorm[float32](c, g.Groups, g.PerGroup, g.Epsilon)
}
