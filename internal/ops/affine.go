package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
)

// Affine returns alpha·x + beta for each element. It is an experimental operator that ONNX removed
// with opset 10 (https://github.com/onnx/onnx/blob/v1.4.1/docs/Operators.md#Affine).
type Affine struct {
	kit.SameTypeAndShape
	Alpha, Beta float64
	loops       elementwise.Table
}

var _ = kit.Register(&kit.Def{Name: "Affine", Since: kit.Versions{1}, Until: 9, Successor: "Mul and Add", In: "X:T",
	Out: "Y:T", Types: "T: float16 float double",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return newAffine(float64(a.Float("alpha", 1)), float64(a.Float("beta", 0)))
	}})

func newAffine(alpha, beta float64) *Affine {
	o := &Affine{Alpha: alpha, Beta: beta}
	o.loops = elementwise.FloatLoops(
		func(dst, src []float32) { affineLoop(dst, src, alpha, beta) },
		func(dst, src []float64) { affineLoop(dst, src, alpha, beta) },
		elementwise.InPieces(func(l cpu.Level, dst, x []float32) {
			vec.MulScalarF32(l, dst, x, float32(alpha))
			vec.AddScalarF32(l, dst, dst, float32(beta))
		}))
	return o
}

// Run implements [ir.Operator].
func (o *Affine) Run(c *ir.Call) error { return elementwise.MapTable(c, o.loops, kit.GrainCheap) }

func affineLoop[T kit.FloatNumber](dst, src []T, alpha, beta float64) {
	dst = dst[:len(src)]
	a, b := T(alpha), T(beta)
	for i, x := range src {
		dst[i] = a*x + b
	}
}
