package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Tanh computes the hyperbolic tangent of each element
// (https://onnx.ai/onnx/operators/onnx__Tanh.html).
type Tanh struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Tanh", Since: kit.Versions{1, 6, 13}, In: "input:T", Out: "output:T",
	Types:       "T: @float",
	Elementwise: true, Vector: kit.Vectorize[*Tanh](vec.TanhF32),
	Build: kit.WithoutAttrs[Tanh],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		return b.Op("Sub", g, b.Op("Mul", g, b.Op("Mul", y, y)))
	})})

var tanhLoops = elementwise.LoopsOf(elementwise.WithUnary(elementwise.Loop1(tanhLoop[float32]), vec.TanhF32),
	elementwise.WithKernel1(elementwise.Loop1(tanhLoop[float64]), vec.TanhF64))

// Run implements [ir.Operator].
func (*Tanh) Run(c *ir.Call) error { return elementwise.MapTable(c, tanhLoops, kit.GrainCostly) }

func tanhLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Tanh(float64(x)))
	}
}
