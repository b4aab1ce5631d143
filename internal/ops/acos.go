package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Acos computes the arc cosine of each element, in radians
// (https://onnx.ai/onnx/operators/onnx__Acos.html).
type Acos struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Acos", Since: kit.Versions{7, 22}, In: "input:T", Out: "output:T",
	Types:       "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Acos],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		return b.Op("Neg", b.Op("Div", g, b.RootOf("Sub", x)))
	})})

var acosLoops = elementwise.FloatLoops(acosLoop[float32], acosLoop[float64], vec.AcosF32)

// Run implements [ir.Operator].
func (*Acos) Run(c *ir.Call) error { return elementwise.MapTable(c, acosLoops, kit.GrainCostly) }

func acosLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Acos(float64(x)))
	}
}
