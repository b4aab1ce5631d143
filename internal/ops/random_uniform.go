package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// RandomUniform returns a tensor of random numbers, uniformly distributed in [low, high)
// (https://onnx.ai/onnx/operators/onnx__RandomUniform.html).
type RandomUniform struct {
	randomSeed
	DType     tensor.DType
	Shape     []int
	Low, High float64
}

var _ = kit.Register(&kit.Def{Name: "RandomUniform", Since: kit.Versions{1, 22}, Out: "output:T", Types: "T: @float",
	Class: kit.ClassOther,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &RandomUniform{randomSeed: readRandomSeed(a), DType: randomDType(a, tensor.TypeFloat32),
			Shape: readRandomShape(a),
			Low:   float64(a.Float("low", 0)), High: float64(a.Float("high", 1))}
	}})

// Infer implements [ir.Operator].
func (o *RandomUniform) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.TensorType(o.DType, ir.Dims(o.Shape)...))
	return nil
}

// Run implements [ir.Operator].
func (o *RandomUniform) Run(c *ir.Call) error {
	return fillUniform(c, o.DType, o.Shape, o.Source(c), o.Low, o.High)
}
