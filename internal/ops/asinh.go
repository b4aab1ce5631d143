package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Asinh computes the inverse hyperbolic sine of each element
// (https://onnx.ai/onnx/operators/onnx__Asinh.html).
type Asinh struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Asinh", Since: kit.Versions{9, 22}, In: "input:T", Out: "output:T",
	Types:       "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Asinh],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		return b.Op("Div", g, b.RootOf("Add", x))
	})})

var asinhLoops = elementwise.FloatLoops(asinhLoop[float32], asinhLoop[float64], vec.AsinhF32)

// Run implements [ir.Operator].
func (*Asinh) Run(c *ir.Call) error { return elementwise.MapTable(c, asinhLoops, kit.GrainCostly) }

func asinhLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Asinh(float64(x)))
	}
}
