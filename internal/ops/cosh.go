package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Cosh computes the hyperbolic cosine of each element
// (https://onnx.ai/onnx/operators/onnx__Cosh.html).
type Cosh struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Cosh", Since: kit.Versions{9, 22}, In: "input:T", Out: "output:T",
	Types:       "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Cosh],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		return b.Op("Mul", g, b.Op("Sinh", x))
	})})

var coshLoops = elementwise.FloatLoops(coshLoop[float32], coshLoop[float64], vec.CoshF32)

// Run implements [ir.Operator].
func (*Cosh) Run(c *ir.Call) error { return elementwise.MapTable(c, coshLoops, kit.GrainCostly) }

func coshLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Cosh(float64(x)))
	}
}
