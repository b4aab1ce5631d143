package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/quant"
)

// GatedAdd returns X + Y·gate with one gate per row; the product is rounded to the type
// of X before the addition
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatedAdd).
type GatedAdd struct{}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "GatedAdd", Since: kit.Versions{1},
	In: "X:T, Y:T, gate:T", Out: "output:T",
	Class: kit.ClassArithmetic,
	Types: "T: float float16 bfloat16", Build: kit.WithoutAttrs[GatedAdd]})

// Infer keeps the type of X.
func (*GatedAdd) Infer(c *ir.InferContext) error { return kit.SameAsInput(c) }

// Run computes in float32.
func (*GatedAdd) Run(c *ir.Call) error {
	xt, gt := c.Tensor(0), c.Tensor(2)
	s := xt.Shape()
	if n := len(s); n == 0 || !slices.Equal(s, c.Tensor(1).Shape()) || len(gt.Shape()) != n ||
		!slices.Equal(gt.Shape()[:n-1], s[:n-1]) || gt.Dim(n-1) != 1 {
		return fail.Errorf("X, Y and gate have shapes %v, %v and %v, want twice [... C] and [... 1]", s,
			c.Tensor(1).Shape(), gt.Shape())
	}
	var in [3][]float32
	for i := range in {
		var err error
		if in[i], err = kit.RealIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	y, err := kit.RealOut[float32](c, 0, xt.DType(), s...)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	cols := s[len(s)-1]
	c.Parallel(len(y.Data)/cols, kit.GrainFor(4*cols), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			vec.MulScalarF32(cpu.Active(), y.Data[r*cols:][:cols], in[1][r*cols:][:cols], in[2][r])
		}
		dst := y.Data[lo*cols : hi*cols]
		quant.RoundTo(dst, xt.DType())
		vec.AddF32(cpu.Active(), dst, dst, in[0][lo*cols:hi*cols])
	})
	y.Store()
	return c.Err()
}
