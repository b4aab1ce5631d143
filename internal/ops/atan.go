package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Atan computes the arc tangent of each element, in radians
// (https://onnx.ai/onnx/operators/onnx__Atan.html).
type Atan struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Atan", Since: kit.Versions{7, 22}, In: "input:T", Out: "output:T",
	Types:       "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Atan],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		return b.Op("Div", g, b.Op("Add", b.Filled(1, x), b.Op("Mul", x, x)))
	})})

var atanLoops = elementwise.FloatLoops(atanLoop[float32], atanLoop[float64], vec.AtanF32)

// Run implements [ir.Operator].
func (*Atan) Run(c *ir.Call) error { return elementwise.MapTable(c, atanLoops, kit.GrainCostly) }

func atanLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Atan(float64(x)))
	}
}
