package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
)

// ParametricSoftplus returns alpha·log(1 + exp(beta·x)) for each element. It is an experimental
// operator that ONNX removed with opset 10
// (https://github.com/onnx/onnx/blob/v1.4.1/docs/Operators.md#ParametricSoftplus).
type ParametricSoftplus struct {
	kit.SameTypeAndShape
	loops elementwise.Table
}

var _ = kit.Register(&kit.Def{Name: "ParametricSoftplus", Since: kit.Versions{1}, Until: 9,
	Successor: "Mul and Softplus", In: "X:T", Out: "Y:T", Types: "T: float16 float double",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("alpha", "beta")
		alpha, beta := float64(a.Float("alpha", 1)), float64(a.Float("beta", 1))
		return &ParametricSoftplus{loops: elementwise.FloatLoops(
			func(dst, src []float32) { parametricSoftplusLoop(dst, src, alpha, beta) },
			func(dst, src []float64) { parametricSoftplusLoop(dst, src, alpha, beta) },
			elementwise.InPieces(func(l cpu.Level, dst, x []float32) {
				vec.MulScalarF32(l, dst, x, float32(beta))
				vec.SoftplusF32(l, dst, dst)
				vec.MulScalarF32(l, dst, dst, float32(alpha))
			}))}
	}})

// Run implements [ir.Operator].
func (o *ParametricSoftplus) Run(c *ir.Call) error {
	return elementwise.MapTable(c, o.loops, kit.GrainCostly)
}

func parametricSoftplusLoop[T kit.FloatNumber](dst, src []T, alpha, beta float64) {
	dst = dst[:len(src)]
	for i, x := range src {
		v := beta * float64(x)
		dst[i] = T(alpha * (max(v, 0) + math.Log1p(math.Exp(-math.Abs(v))))) // exp cannot overflow
	}
}
