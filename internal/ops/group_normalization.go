package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// GroupNormalization brings every group of channels of every instance to mean 0
// and variance 1, scales and shifts it.
type GroupNormalization struct {
	Groups   int
	Epsilon  float32
	PerGroup bool // scale and bias have an element per group, as in opset 18, not per channel
}

var _ = register(Def{Name: "GroupNormalization", Since: []int{18, 21}, In: "X:T, scale:T, bias:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		a.Require("num_groups")
		g := &GroupNormalization{Groups: a.Int("num_groups", 1), Epsilon: readEpsilon(a), PerGroup: opset < 21}
		if g.Groups < 1 {
			a.Errorf("attribute num_groups is %d, want at least 1", g.Groups)
		}
		if opset >= 21 {
			readStash(a)
		}
		return g
	})})

// Infer keeps the shape.
func (g *GroupNormalization) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	if s := c.Shape(0); s != nil {
		if len(s) < 2 {
			return fmt.Errorf("input has rank %d, want at least 2", len(s))
		}
		if n, ok := s[1].Value(); ok && n%g.Groups != 0 {
			return fmt.Errorf("%d channels are not divisible by num_groups %d", n, g.Groups)
		}
	}
	return nil
}

// Run computes half types as float.
func (g *GroupNormalization) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return groupNorm[float64](c, g.Groups, g.PerGroup, g.Epsilon)
	}
	return groupNorm[float32](c, g.Groups, g.PerGroup, g.Epsilon)
}

// groupNorm normalizes groups of channels; groups 0 stands for one per channel.
func groupNorm[T realFloat](c *ir.Call, groups int, perGroup bool, eps float32) error {
	t := c.Tensor(0)
	s := t.Shape()
	if len(s) < 2 {
		return fmt.Errorf("input has shape %v, want rank at least 2", s)
	}
	if groups == 0 {
		groups = max(1, s[1])
	}
	if s[1]%groups != 0 {
		return fmt.Errorf("%d channels are not divisible by %d groups", s[1], groups)
	}
	params, div := s[1], 1
	if perGroup {
		params, div = groups, max(1, s[1]/groups)
	}
	gain, err := channelParam[T](c, "scale", c.Tensor(1), params)
	if err != nil {
		return err
	}
	bias, err := channelParam[T](c, "bias", c.Tensor(2), params)
	if err != nil {
		return err
	}
	x, err := realIn[T](c, t)
	if err != nil {
		return err
	}
	y, err := realOut[T](c, 0, t.DType(), s...)
	if err != nil || len(x) == 0 {
		return err
	}
	err = normPlanes(c, x, y.data, s[1], groups, product(s[2:]),
		func(ch int) float64 { return float64(gain[ch/div]) }, func(ch int) float64 { return float64(bias[ch/div]) }, float64(eps))
	if err == nil {
		y.store()
	}
	return err
}
