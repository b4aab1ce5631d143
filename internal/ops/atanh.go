package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Atanh computes the inverse hyperbolic tangent of each element
// (https://onnx.ai/onnx/operators/onnx__Atanh.html).
type Atanh struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Atanh", Since: kit.Versions{9, 22}, In: "input:T", Out: "output:T",
	Types:       "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Atanh],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		return b.Op("Div", g, b.Op("Sub", b.Filled(1, x), b.Op("Mul", x, x)))
	})})

var atanhLoops = elementwise.FloatLoops(atanhLoop[float32], atanhLoop[float64], vec.AtanhF32)

// Run implements [ir.Operator].
func (*Atanh) Run(c *ir.Call) error { return elementwise.MapTable(c, atanhLoops, kit.GrainCostly) }

func atanhLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Atanh(float64(x)))
	}
}
