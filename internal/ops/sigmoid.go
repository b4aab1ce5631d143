package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Sigmoid computes 1/(1+exp(−x)) of each element
// (https://onnx.ai/onnx/operators/onnx__Sigmoid.html).
type Sigmoid struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Sigmoid", Since: kit.Versions{1, 6, 13}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Elementwise: true, Vector: kit.Vectorize[*Sigmoid](vec.SigmoidF32),
	Build: kit.WithoutAttrs[Sigmoid],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		s := b.Op("Mul", g, y)
		return b.Op("Sub", s, b.Op("Mul", s, y))
	})})

var sigmoidLoops = elementwise.LoopsOf(elementwise.WithUnary(elementwise.Loop1(sigmoidLoop[float32]), vec.SigmoidF32),
	elementwise.WithKernel1(elementwise.Loop1(sigmoidLoop[float64]), vec.SigmoidF64))

// Run implements [ir.Operator].
func (*Sigmoid) Run(c *ir.Call) error { return elementwise.MapTable(c, sigmoidLoops, kit.GrainCostly) }

func sigmoidLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(1 / (1 + math.Exp(-float64(x))))
	}
}
