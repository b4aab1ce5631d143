package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Tan computes the tangent of each element, given in radians
// (https://onnx.ai/onnx/operators/onnx__Tan.html).
type Tan struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Tan", Since: kit.Versions{7, 22}, In: "input:T", Out: "output:T",
	Types:       "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Tan],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		return b.Op("Add", g, b.Op("Mul", g, b.Op("Mul", y, y)))
	})})

var tanLoops = elementwise.FloatLoops(tanLoop[float32], tanLoop[float64], vec.TanF32)

// Run implements [ir.Operator].
func (*Tan) Run(c *ir.Call) error { return elementwise.MapTable(c, tanLoops, kit.GrainCostly) }

func tanLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Tan(float64(x)))
	}
}
