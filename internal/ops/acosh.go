package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Acosh computes the inverse hyperbolic cosine of each element
// (https://onnx.ai/onnx/operators/onnx__Acosh.html).
type Acosh struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Acosh", Since: kit.Versions{9, 22}, In: "input:T", Out: "output:T",
	Types:       "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Acosh],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		return b.Op("Div", g, b.Op("Sqrt", b.Op("Sub", b.Op("Mul", x, x), b.Filled(1, x))))
	})})

var acoshLoops = elementwise.FloatLoops(acoshLoop[float32], acoshLoop[float64], vec.AcoshF32)

// Run implements [ir.Operator].
func (*Acosh) Run(c *ir.Call) error { return elementwise.MapTable(c, acoshLoops, kit.GrainCostly) }

func acoshLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Acosh(float64(x)))
	}
}
