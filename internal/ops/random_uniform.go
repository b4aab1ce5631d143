package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// RandomUniform makes a tensor of random numbers that are uniform in [low, high)
// (https://onnx.ai/onnx/operators/onnx__RandomUniform.html).
type RandomUniform struct {
	randomSeed
	DType     tensor.DType
	Shape     []int
	Low, High float64
}

var _ = register(Def{Name: "RandomUniform", Since: []int{1, 22}, Out: "output:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &RandomUniform{randomSeed: readRandomSeed(a), DType: randomDType(a, tensor.TypeFloat32), Shape: readRandomShape(a),
			Low: float64(a.Float("low", 0)), High: float64(a.Float("high", 1))}
	})})

// Infer implements [ir.Operator].
func (o *RandomUniform) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.TensorType(o.DType, ir.Dims(o.Shape)...))
	return nil
}

// Run implements [ir.Operator].
func (o *RandomUniform) Run(c *ir.Call) error {
	src := o.source(c)
	return fillRandom(c, o.DType, o.Shape, func() float64 { return src.uniform()*(o.High-o.Low) + o.Low })
}
