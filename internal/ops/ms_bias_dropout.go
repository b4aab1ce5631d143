package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// BiasDropout adds a bias, drops elements as Dropout does, and adds a residual
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BiasDropout).
type BiasDropout struct{ Dropout }

// trainingBiasDropout is a BiasDropout that may draw random numbers.
type trainingBiasDropout struct{ BiasDropout }

// Nondeterministic implements [ir.Nondeterministic].
func (*trainingBiasDropout) Nondeterministic() {}

var _ = register(Def{Domain: DomainMicrosoft, Name: "BiasDropout", Since: []int{1},
	In: "data:T, bias:T, residual:T?, ratio:T1?, training_mode:T2?", Out: "output:T, mask:T2",
	Types: Types{"T": "@float", "T1": "@float", "T2": "bool"},
	Build: simple(func(a *Attrs, opset int) Operator {
		o := BiasDropout{Dropout{HasSeed: a.Has("seed"), Seed: a.Int("seed", 0)}}
		if a.NumIn > 4 {
			return &trainingBiasDropout{o}
		}
		return &o
	})})

// Run draws a mask and applies it to data + bias.
func (o *BiasDropout) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return biasDropout[float64](c, o)
	}
	return biasDropout[float32](c, o)
}

func biasDropout[T realFloat](c *ir.Call, o *BiasDropout) error {
	x := c.Tensor(0)
	ratio, err := dropoutRatio(c.Tensor(3), c.Tensor(4))
	if err != nil {
		return err
	}
	sum, err := addBroadcast[T](c, x.Shape(), x, c.Tensor(1))
	if err != nil {
		return err
	}
	keep, err := scratchTensor(c, tensor.TypeBool, x.Shape())
	if err != nil {
		return err
	}
	kept := tensor.Of[bool](keep)
	repeatOf(kept, true)
	if ratio > 0 {
		if err := o.draw(c, kept, ratio); err != nil {
			return err
		}
		dropLoop(sum, sum, kept, T(1/(1-ratio)))
	}
	if r := c.Tensor(2); r != nil {
		rest, err := addBroadcast[T](c, x.Shape(), r)
		if err != nil {
			return err
		}
		addLoop(sum, sum, rest)
	}
	y, err := realOut[T](c, 0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	copy(y.data, sum)
	y.store()
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
