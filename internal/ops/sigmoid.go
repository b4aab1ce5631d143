package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Sigmoid computes 1/(1+exp(−x)) of each element
// (https://onnx.ai/onnx/operators/onnx__Sigmoid.html).
type Sigmoid struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Sigmoid", Since: kit.Versions{1, 6, 13}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Elementwise: true, Vector: kit.Vectorize[*Sigmoid](vec.SigmoidF32),
	Build: kit.WithoutAttrs[Sigmoid],
	Gradient: kit.Derivative(func(b *kit.GradientBuilder, x, y, g string) string {
		s := b.Op("Mul", g, y)
		return b.Op("Sub", s, b.Op("Mul", s, y))
	})})

var sigmoidLoops = kit.LoopsOf(kit.WithUnary(kit.Loop1(sigmoidLoop[float32]), vec.SigmoidF32), kit.WithKernel1(kit.Loop1(sigmoidLoop[float64]), vec.SigmoidF64))

// Run implements [ir.Operator].
func (*Sigmoid) Run(c *ir.Call) error { return kit.MapTable(c, sigmoidLoops, kit.GrainCostly) }

func sigmoidLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(1 / (1 + math.Exp(-float64(x))))
	}
}
