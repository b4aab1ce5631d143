package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// ImageScaler multiplies N×C×H×W images by Scale and adds Bias, one number per channel. It is an
// experimental operator that ONNX removed with opset 10
// (https://github.com/onnx/onnx/blob/v1.4.1/docs/Operators.md#ImageScaler).
type ImageScaler struct {
	Scale float32
	Bias  []float32
}

var _ = kit.Register(&kit.Def{Name: "ImageScaler", Since: kit.Versions{1}, Until: 9, Successor: "Mul and Add",
	In: "input:T", Out: "output:T", Types: "T: float16 float double",
	Class: kit.ClassArithmetic,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("bias")
		return &ImageScaler{a.Float("scale", 1), a.Floats("bias")}
	}})

// Infer checks the rank and the number of channels.
func (op *ImageScaler) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 4, "input"); err != nil {
		return err
	}
	if s := c.Shape(0); s != nil {
		if n, ok := s[1].Value(); ok && n != len(op.Bias) {
			return fail.Errorf("bias has %d elements, want %d, one per channel", len(op.Bias), n)
		}
	}
	return kit.SameAsInput(c)
}

// Run implements [ir.Operator].
func (op *ImageScaler) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return scaleImages[float64](c, op)
	}
	return scaleImages[float32](c, op)
}

func scaleImages[T kit.RealFloat](c *ir.Call, op *ImageScaler) error {
	x := c.Tensor(0)
	if x.Rank() != 4 || x.Dim(1) != len(op.Bias) {
		return fail.Errorf("input has shape %v, want [N C H W] with %d channels, as many as bias",
			x.Shape(), len(op.Bias))
	}
	src, err := kit.RealIn[T](c, x)
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	size, scale := x.Dim(2)*x.Dim(3), T(op.Scale)
	c.Parallel(x.Dim(0)*x.Dim(1), kit.GrainFor(size), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			bias, from, to := T(op.Bias[i%len(op.Bias)]), src[i*size:][:size], y.Data[i*size:][:size]
			for k, v := range from {
				to[k] = v*scale + bias
			}
		}
	})
	y.Store()
	return nil
}
