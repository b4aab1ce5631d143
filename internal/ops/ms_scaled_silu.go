package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
)

// ScaledSiLU is z·sigmoid(z) of z = scale·X, with z and the sigmoid rounded to the
// type of X (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.ScaledSiLU).
type ScaledSiLU struct{ Alpha float32 } // the scale, where the input is missing

var _ = register(Def{Domain: DomainMicrosoft, Name: "ScaledSiLU", Since: []int{1}, In: "X:T, scale:M?", Out: "Y:T",
	Types: Types{"T": "float float16 bfloat16", "M": "float float16 bfloat16"},
	Build: simple(func(a *Attrs, opset int) Operator { return &ScaledSiLU{a.Float("alpha", 1)} })})

// Infer keeps the type of X.
func (*ScaledSiLU) Infer(c *ir.InferContext) error { return sameAsInput(c) }

// Run computes in float.
func (op *ScaledSiLU) Run(c *ir.Call) error {
	x := c.Tensor(0)
	scale := op.Alpha
	if t := c.Tensor(1); t != nil {
		var err error
		if scale, err = oneScale(c, "scale", t); err != nil {
			return err
		}
	}
	in, err := realIn[float32](c, x)
	if err != nil {
		return err
	}
	y, err := realOut[float32](c, 0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	z, err := ir.ScratchOf[float32](c, len(in))
	if err != nil {
		return err
	}
	for i, v := range in {
		z[i] = scale * v
	}
	roundTo(z, x.DType())
	err = eachRange(c, len(z), grainCostly, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			y.data[i] = sigmoid32(z[i])
		}
	})
	if err != nil {
		return err
	}
	roundTo(y.data, x.DType())
	for i, v := range z {
		y.data[i] *= v
	}
	y.store()
	return nil
}

func sigmoid32(v float32) float32 { return float32(1 / (1 + math.Exp(-float64(v)))) }
