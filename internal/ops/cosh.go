package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Cosh computes the hyperbolic cosine of each element
// (https://onnx.ai/onnx/operators/onnx__Cosh.html).
type Cosh struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Cosh", Since: kit.Versions{9, 22}, In: "input:T", Out: "output:T", Types: "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Cosh],
	Gradient: kit.Derivative(func(b *kit.GradientBuilder, x, y, g string) string {
		return b.Op("Mul", g, b.Op("Sinh", x))
	})})

var coshLoops = kit.FloatLoops(coshLoop[float32], coshLoop[float64], vec.CoshF32)

// Run implements [ir.Operator].
func (*Cosh) Run(c *ir.Call) error { return kit.MapTable(c, coshLoops, kit.GrainCostly) }

func coshLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Cosh(float64(x)))
	}
}
