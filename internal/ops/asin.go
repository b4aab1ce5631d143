package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Asin computes the arc sine of each element, in radians
// (https://onnx.ai/onnx/operators/onnx__Asin.html).
type Asin struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Asin", Since: kit.Versions{7, 22}, In: "input:T", Out: "output:T",
	Types:       "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Asin],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		return b.Op("Div", g, b.RootOf("Sub", x))
	})})

var asinLoops = elementwise.FloatLoops(asinLoop[float32], asinLoop[float64], vec.AsinF32)

// Run implements [ir.Operator].
func (*Asin) Run(c *ir.Call) error { return elementwise.MapTable(c, asinLoops, kit.GrainCostly) }

func asinLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Asin(float64(x)))
	}
}
