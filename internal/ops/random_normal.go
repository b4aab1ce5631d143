package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// RandomNormal returns a tensor of normally distributed random numbers
// (https://onnx.ai/onnx/operators/onnx__RandomNormal.html).
type RandomNormal struct {
	randomSeed
	DType       tensor.DType
	Shape       []int
	Mean, Scale float64
}

var _ = kit.Register(&kit.Def{Name: "RandomNormal", Since: kit.Versions{1, 22}, Out: "output:T", Types: "T: @float",
	Class: kit.ClassOther,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &RandomNormal{randomSeed: readRandomSeed(a), DType: randomDType(a, tensor.TypeFloat32),
			Shape: readRandomShape(a),
			Mean:  float64(a.Float("mean", 0)), Scale: float64(a.Float("scale", 1))}
	}})

// Infer implements [ir.Operator].
func (o *RandomNormal) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.TensorType(o.DType, ir.Dims(o.Shape)...))
	return nil
}

// Run implements [ir.Operator].
func (o *RandomNormal) Run(c *ir.Call) error {
	src := o.Source(c)
	return fillRandom(c, o.DType, o.Shape, func() float64 { return src.Normal()*o.Scale + o.Mean })
}
