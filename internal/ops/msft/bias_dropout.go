package msft

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/tensor"
)

// BiasDropout adds a bias, drops elements as Dropout does, and adds a residual
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BiasDropout).
type BiasDropout struct{ ops.Dropout }

// trainingBiasDropout is a BiasDropout with an input training_mode, so that it may draw
// random numbers.
type trainingBiasDropout struct{ BiasDropout }

// Nondeterministic implements [ir.Nondeterministic].
func (*trainingBiasDropout) Nondeterministic() {}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "BiasDropout", Since: kit.Versions{1},
	Class: kit.ClassActivation,
	In:    "data:T, bias:T, residual:T?, ratio:T1?, training_mode:T2?", Out: "output:T, mask:T2?",
	Types: "T: @float; T1: @float; T2: bool",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		o := BiasDropout{ops.Dropout{HasSeed: a.Has("seed"), Seed: a.Int("seed", 0)}}
		if a.NumIn > 4 {
			return &trainingBiasDropout{o}
		}
		return &o
	}})

// Run draws a mask and applies it to data + bias.
func (o *BiasDropout) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return biasDropout[float64](c, o)
	}
	return biasDropout[float32](c, o)
}

func biasDropout[T kit.RealFloat](c *ir.Call, o *BiasDropout) error {
	x := c.Tensor(0)
	ratio, err := elementwise.DropoutRatio(c.Tensor(3), c.Tensor(4))
	if err != nil {
		return err
	}
	sum, err := addBroadcast[T](c, x.Shape(), x, c.Tensor(1))
	if err != nil {
		return err
	}
	keep, err := kit.ScratchTensor(c, tensor.TypeBool, x.Shape())
	if err != nil {
		return err
	}
	kept := tensor.MustData[bool](keep)
	kit.RepeatOf(kept, true)
	if ratio > 0 {
		if err := o.Draw(c, kept, ratio); err != nil {
			return err
		}
		elementwise.DropLoop(sum, sum, kept, T(1/(1-ratio)))
	}
	if r := c.Tensor(2); r != nil {
		rest, err := addBroadcast[T](c, x.Shape(), r)
		if err != nil {
			return err
		}
		elementwise.AddLoop(sum, sum, rest)
	}
	y, err := kit.RealOut[T](c, 0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	copy(y.Data, sum)
	y.Store()
	if !c.Wants(1) {
		return nil
	}
	mask, err := c.Output(1, tensor.TypeBool, x.Shape()...)
	if err != nil {
		return err
	}
	copy(mask.Bytes(), keep.Bytes())
	return nil
}
