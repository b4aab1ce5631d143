package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Tanh computes the hyperbolic tangent of each element
// (https://onnx.ai/onnx/operators/onnx__Tanh.html).
type Tanh struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Tanh", Since: kit.Versions{1, 6, 13}, In: "input:T", Out: "output:T", Types: "T: @float",
	Elementwise: true, Vector: kit.Vectorize[*Tanh](vec.TanhF32),
	Build: kit.WithoutAttrs[Tanh],
	Gradient: kit.Derivative(func(b *kit.GradientBuilder, x, y, g string) string {
		return b.Op("Sub", g, b.Op("Mul", g, b.Op("Mul", y, y)))
	})})

var tanhLoops = kit.LoopsOf(kit.WithUnary(kit.Loop1(tanhLoop[float32]), vec.TanhF32), kit.WithKernel1(kit.Loop1(tanhLoop[float64]), vec.TanhF64))

// Run implements [ir.Operator].
func (*Tanh) Run(c *ir.Call) error { return kit.MapTable(c, tanhLoops, kit.GrainCostly) }

func tanhLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Tanh(float64(x)))
	}
}
