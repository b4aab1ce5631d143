package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Acos computes the arc cosine of each element, in radians
// (https://onnx.ai/onnx/operators/onnx__Acos.html).
type Acos struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Acos", Since: kit.Versions{7, 22}, In: "input:T", Out: "output:T", Types: "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Acos],
	Gradient: kit.Derivative(func(b *kit.GradientBuilder, x, y, g string) string {
		return b.Op("Neg", b.Op("Div", g, b.RootOf("Sub", x)))
	})})

var acosLoops = kit.FloatLoops(acosLoop[float32], acosLoop[float64], vec.AcosF32)

// Run implements [ir.Operator].
func (*Acos) Run(c *ir.Call) error { return kit.MapTable(c, acosLoops, kit.GrainCostly) }

func acosLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Acos(float64(x)))
	}
}
