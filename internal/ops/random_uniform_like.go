package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// RandomUniformLike returns a tensor of random numbers, uniformly distributed in [low, high), with
// the shape of its input (https://onnx.ai/onnx/operators/onnx__RandomUniformLike.html).
type RandomUniformLike struct {
	randomSeed
	likeInput
	Low, High float64
}

var _ = kit.Register(&kit.Def{Name: "RandomUniformLike", Since: kit.Versions{1, 22}, In: "input:T1", Out: "output:T2",
	Class: kit.ClassOther,
	Types: "T1: @number string bool @complex; T2: @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &RandomUniformLike{randomSeed: readRandomSeed(a),
			likeInput: likeInput{DType: randomDType(a, tensor.Undefined)},
			Low:       float64(a.Float("low", 0)), High: float64(a.Float("high", 1))}
	}})

// Infer implements [ir.Operator].
func (o *RandomUniformLike) Infer(c *ir.InferContext) error {
	if d := o.Elem(c.Elem(0)); !d.IsFloat() {
		return fail.Errorf("input has type %s, want a floating-point type or the attribute dtype", d)
	}
	return o.likeInput.Infer(c)
}

// Run implements [ir.Operator].
func (o *RandomUniformLike) Run(c *ir.Call) error {
	x := c.Tensor(0)
	return fillUniform(c, o.Elem(x.DType()), x.Shape(), o.Source(c), o.Low, o.High)
}
