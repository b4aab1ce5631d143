package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Mish computes x·tanh(ln(exp(x)+1)) of each element
// (https://onnx.ai/onnx/operators/onnx__Mish.html).
type Mish struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Mish", Since: kit.Versions{18, 22}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Elementwise: true, Vector: kit.Vectorize[*Mish](vec.MishF32),
	Build: kit.WithoutAttrs[Mish],
	Gradient: gradient.DecomposedFunction(func(b *gradient.Builder, n *gradient.Node, x string) string {
		return b.Op("Mul", x, b.Op("Tanh", b.Op("Softplus", x)))
	})})

var mishLoops = elementwise.FloatLoops(mishLoop[float32], mishLoop[float64], vec.MishF32)

// Run implements [ir.Operator].
func (*Mish) Run(c *ir.Call) error { return elementwise.MapTable(c, mishLoops, kit.GrainCostly) }

func mishLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(kit.Gated(float64(x), math.Tanh(kit.Softplus(float64(x)))))
	}
}
