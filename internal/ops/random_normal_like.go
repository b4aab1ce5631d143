package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// RandomNormalLike returns a tensor of normally distributed random numbers with the shape of its
// input (https://onnx.ai/onnx/operators/onnx__RandomNormalLike.html).
type RandomNormalLike struct {
	randomSeed
	likeInput
	Mean, Scale float64
}

var _ = kit.Register(&kit.Def{Name: "RandomNormalLike", Since: kit.Versions{1, 22}, In: "input:T1", Out: "output:T2",
	Class: kit.ClassOther,
	Types: "T1: @number string bool @complex; T2: @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &RandomNormalLike{randomSeed: readRandomSeed(a),
			likeInput: likeInput{DType: randomDType(a, tensor.Undefined)},
			Mean:      float64(a.Float("mean", 0)), Scale: float64(a.Float("scale", 1))}
	}})

// Infer implements [ir.Operator].
func (o *RandomNormalLike) Infer(c *ir.InferContext) error {
	if d := o.Elem(c.Elem(0)); !d.IsFloat() {
		return fail.Errorf("input has type %s, want a floating-point type or the attribute dtype", d)
	}
	return o.likeInput.Infer(c)
}

// Run implements [ir.Operator].
func (o *RandomNormalLike) Run(c *ir.Call) error {
	x, src := c.Tensor(0), o.Source(c)
	return fillRandom(c, o.Elem(x.DType()), x.Shape(), func() float64 { return src.Normal()*o.Scale + o.Mean })
}
