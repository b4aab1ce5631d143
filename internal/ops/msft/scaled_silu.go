package msft

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/quant"
)

// ScaledSiLU computes z·sigmoid(z) of z = scale·X, with z and the sigmoid rounded to the
// type of X
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.ScaledSiLU).
type ScaledSiLU struct{ Alpha float32 } // the scale if the input scale is missing

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "ScaledSiLU", Since: kit.Versions{1},
	In: "X:T, scale:M?", Out: "Y:T",
	Class: kit.ClassActivation,
	Types: "T: float float16 bfloat16; M: float float16 bfloat16",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &ScaledSiLU{a.Float("alpha", 1)} }})

// Infer keeps the type of X.
func (*ScaledSiLU) Infer(c *ir.InferContext) error { return kit.SameAsInput(c) }

// Run computes in float32.
func (op *ScaledSiLU) Run(c *ir.Call) error {
	x := c.Tensor(0)
	scale := op.Alpha
	if t := c.Tensor(1); t != nil {
		var err error
		if scale, err = oneScale(c, "scale", t); err != nil {
			return err
		}
	}
	in, err := kit.RealIn[float32](c, x)
	if err != nil {
		return err
	}
	y, err := kit.RealOut[float32](c, 0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	z, err := ir.ScratchOf[float32](c, len(in))
	if err != nil {
		return err
	}
	c.Parallel(len(z), kit.GrainCostly, func(lo, hi int) {
		in, z, y := in[lo:hi], z[lo:hi], y.Data[lo:hi]
		for i, v := range in {
			z[i] = scale * v
		}
		quant.RoundTo(z, x.DType())
		for i, v := range z {
			y[i] = kit.Sigmoid32(v)
		}
		quant.RoundTo(y, x.DType())
		for i, v := range z {
			y[i] *= v
		}
	})
	y.Store()
	return nil
}
