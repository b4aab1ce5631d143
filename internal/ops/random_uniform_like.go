package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// RandomUniformLike makes a tensor of the shape of its input of random numbers that are uniform in [low, high)
// (https://onnx.ai/onnx/operators/onnx__RandomUniformLike.html).
type RandomUniformLike struct {
	randomSeed
	likeInput
	Low, High float64
}

var _ = register(Def{Name: "RandomUniformLike", Since: []int{1, 22}, In: "input:T1", Out: "output:T2",
	Types: Types{"T1": "@number string bool @complex", "T2": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &RandomUniformLike{randomSeed: readRandomSeed(a), likeInput: likeInput{randomDType(a, tensor.Undefined)},
			Low: float64(a.Float("low", 0)), High: float64(a.Float("high", 1))}
	})})

// Infer implements [ir.Operator].
func (o *RandomUniformLike) Infer(c *ir.InferContext) error {
	if d := o.elem(c.Elem(0)); !d.IsFloat() {
		return fmt.Errorf("the output would be %s like the input, want a float type: set the attribute dtype", d)
	}
	return o.likeInput.Infer(c)
}

// Run implements [ir.Operator].
func (o *RandomUniformLike) Run(c *ir.Call) error {
	x, src := c.Tensor(0), o.source(c)
	return fillRandom(c, o.elem(x.DType()), x.Shape(), func() float64 { return src.uniform()*(o.High-o.Low) + o.Low })
}
