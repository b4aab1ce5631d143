package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Asin computes the arc sine of each element, in radians
// (https://onnx.ai/onnx/operators/onnx__Asin.html).
type Asin struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Asin", Since: kit.Versions{7, 22}, In: "input:T", Out: "output:T", Types: "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Asin],
	Gradient: kit.Derivative(func(b *kit.GradientBuilder, x, y, g string) string {
		return b.Op("Div", g, b.RootOf("Sub", x))
	})})

var asinLoops = kit.FloatLoops(asinLoop[float32], asinLoop[float64], vec.AsinF32)

// Run implements [ir.Operator].
func (*Asin) Run(c *ir.Call) error { return kit.MapTable(c, asinLoops, kit.GrainCostly) }

func asinLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Asin(float64(x)))
	}
}
