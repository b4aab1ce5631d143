package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Softplus computes ln(exp(x)+1) of each element
// (https://onnx.ai/onnx/operators/onnx__Softplus.html).
type Softplus struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Softplus", Since: kit.Versions{1, 22}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Softplus],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		return b.Op("Mul", g, b.Op("Sigmoid", x))
	})})

var softplusLoops = elementwise.FloatLoops(softplusLoop[float32], softplusLoop[float64], vec.SoftplusF32)

// Run implements [ir.Operator].
func (*Softplus) Run(c *ir.Call) error {
	return elementwise.MapTable(c, softplusLoops, kit.GrainCostly)
}

func softplusLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(kit.Softplus(float64(x)))
	}
}
