package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// GroupNorm normalizes groups of channels, scales and shifts them, and optionally applies
// x·sigmoid(x). With Skip it first adds input 3 (a residual, or one value per image and
// channel) and input 4 (a bias per channel), and returns the sum as its second output
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GroupNorm).
type GroupNorm struct {
	Groups       int
	Epsilon      float32
	ChannelsLast bool
	SiLU         bool
	Skip         bool
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "GroupNorm", Since: kit.Versions{1},
	In: "X:T, gamma:M, beta:M", Out: "Y:T",
	Work:  6,
	Types: "T: float16 float; M: float16 float",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return readGroupNorm(a, false) }})

func readGroupNorm(a *kit.Attrs, skip bool) kit.Operator {
	a.Require("groups", "activation")
	g := &GroupNorm{Groups: a.Int("groups", 1), Epsilon: a.Float("epsilon", 1e-5),
		ChannelsLast: a.Bool("channels_last", true), Skip: skip}
	switch act := a.Int("activation", 0); act {
	case 0:
	case 1:
		g.SiLU = true
	default:
		a.Errorf("attribute activation is %d, want 0 or 1", act)
	}
	if g.Groups < 1 {
		a.Errorf("attribute groups is %d, want at least 1", g.Groups)
	}
	return g
}

// Infer keeps the shape.
func (g *GroupNorm) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	c.SetOut(1, c.Type(0))
	s := c.Shape(0)
	if s == nil {
		return nil
	}
	if len(s) != 4 {
		return fail.Errorf("X has rank %d, want 4", len(s))
	}
	ch := s[1]
	if g.ChannelsLast {
		ch = s[3]
	}
	if n, ok := ch.Value(); ok && n%g.Groups != 0 {
		return fail.Errorf("%d channels are not divisible by %d groups", n, g.Groups)
	}
	return nil
}

// Run computes float16 in float32.
func (g *GroupNorm) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() != 4 {
		return fail.Errorf("X has shape %v, want rank 4", x.Shape())
	}
	shape := x.Shape()
	if g.ChannelsLast {
		shape = window.ChannelsFirstShape(shape)
	}
	if shape[1]%g.Groups != 0 {
		return fail.Errorf("%d channels are not divisible by %d groups", shape[1], g.Groups)
	}
	gain, err := reduce.ChannelParam[float32](c, "gamma", c.Tensor(1), shape[1])
	if err != nil {
		return err
	}
	bias, err := reduce.ChannelParam[float32](c, "beta", c.Tensor(2), shape[1])
	if err != nil {
		return err
	}
	parts := []*tensor.Tensor{x}
	if g.Skip {
		if parts, err = g.addends(c, x); err != nil {
			return err
		}
	}
	sum, err := addBroadcast[float32](c, x.Shape(), parts...)
	if err != nil {
		return err
	}
	if c.Wants(1) {
		s, err := kit.RealOut[float32](c, 1, x.DType(), x.Shape()...)
		if err != nil {
			return err
		}
		copy(s.Data, sum)
		s.Store()
	}
	if g.ChannelsLast {
		var t tensor.Tensor
		t.Reset(tensor.TypeFloat32, memory.AsBytes(sum), x.Shape())
		first, err := window.ChannelsFirst(c, &t)
		if err != nil {
			return err
		}
		sum = tensor.MustData[float32](first)
	}
	y, err := kit.RealOut[float32](c, 0, x.DType(), x.Shape()...)
	if err != nil || len(sum) == 0 {
		return err
	}
	dst := y.Data
	if g.ChannelsLast {
		if dst, err = ir.ScratchOf[float32](c, len(sum)); err != nil {
			return err
		}
	}
	err = reduce.NormPlanes(c, sum, dst, shape[1], g.Groups, shape[2]*shape[3],
		func(ch int) float64 { return float64(gain[ch]) }, func(ch int) float64 { return float64(bias[ch]) },
		float64(g.Epsilon))
	if err != nil {
		return err
	}
	if g.SiLU {
		level := cpu.Active()
		if c.Generic {
			level = cpu.Generic
		}
		c.Parallel(len(dst), kit.GrainCostly, func(lo, hi int) { vec.SiluF32(level, dst[lo:hi], dst[lo:hi]) })
	}
	if g.ChannelsLast {
		window.MoveChannels(c, move.Buf{Width: 4, Raw: memory.AsBytes(y.Data)},
			move.Buf{Width: 4, Raw: memory.AsBytes(dst)}, shape, true)
	}
	y.Store()
	return nil
}

// addends returns the tensors that SkipGroupNorm adds, reshaped to broadcast to the shape
// of x.
func (g *GroupNorm) addends(c *ir.Call, x *tensor.Tensor) ([]*tensor.Tensor, error) {
	r := []*tensor.Tensor{x}
	s := x.Shape()
	ch := 1
	if g.ChannelsLast {
		ch = 3
	}
	each := []int{1, 1, 1, 1}
	each[ch] = s[ch]
	whole := slices.Clone(each)
	whole[0] = s[0]
	skip := c.Tensor(3)
	if k := skip.Shape(); len(k) == 2 {
		if k[0] != s[0] || k[1] != s[ch] {
			return nil, fail.Errorf("skip has shape %v, which does not broadcast to X with shape %v", k, s)
		}
		t, err := skip.Reshape(whole...)
		if err != nil {
			return nil, err
		}
		skip = t
	} else if !slices.Equal(k, s) && !slices.Equal(k, whole) {
		return nil, fail.Errorf("skip has shape %v, which does not broadcast to X with shape %v", k, s)
	}
	r = append(r, skip)
	if bias := c.Tensor(4); bias != nil {
		if bias.Len() != s[ch] {
			return nil, fail.Errorf("bias has shape %v, want [%d]", bias.Shape(), s[ch])
		}
		t, err := bias.Reshape(each...)
		if err != nil {
			return nil, err
		}
		r = append(r, t)
	}
	return r, nil
}
