package msft

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// Inverse inverts square matrices. The inverse of a singular matrix has infinite or NaN
// elements
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Inverse).
type Inverse struct{}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "Inverse", Since: kit.Versions{1},
	In: "X:T", Out: "Y:T",
	Class: kit.ClassOther,
	Types: "T: float16 float double",
	Build: kit.WithoutAttrs[Inverse]})

// Infer keeps the shape.
func (*Inverse) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	if s := c.Shape(0); s != nil && (len(s) < 2 || s[len(s)-2].Differs(s[len(s)-1])) {
		return fail.Errorf("input has shape %v, want square matrices", s)
	}
	return nil
}

// Run performs Gaussian elimination with row pivoting in float64.
func (*Inverse) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return invert[float64](c)
	}
	return invert[float32](c)
}

func invert[T kit.RealFloat](c *ir.Call) error {
	t := c.Tensor(0)
	s := t.Shape()
	r := len(s)
	if r < 2 || s[r-1] != s[r-2] {
		return fail.Errorf("input has shape %v, want square matrices", s)
	}
	x, err := kit.RealIn[T](c, t)
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, t.DType(), s...)
	if err != nil || len(x) == 0 {
		return err
	}
	n := s[r-1]
	a, err := ir.ScratchOf[float64](c, n*n)
	if err != nil {
		return err
	}
	pivots, factors := make([]int, n), make([]float64, n)
	for at := 0; at < len(x); at += n * n {
		for i, v := range x[at:][:n*n] {
			a[i] = float64(v)
		}
		if err := matmul.Invert(c, a, n, pivots, factors); err != nil {
			return err
		}
		for i, v := range a {
			y.Data[at+i] = T(v)
		}
	}
	y.Store()
	return nil
}
