package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Sqrt returns the square root of each element; NaN for negative ones
// (https://onnx.ai/onnx/operators/onnx__Sqrt.html).
type Sqrt struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Sqrt", Since: kit.Versions{1, 6, 13}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Sqrt],
	Gradient: kit.Derivative(func(b *kit.GradientBuilder, x, y, g string) string {
		return b.Op("Div", g, b.Op("Add", y, y))
	})})

var sqrtLoops = kit.LoopsOf(kit.WithUnary(kit.Loop1(sqrtLoop[float32]), vec.SqrtF32), kit.WithKernel1(kit.Loop1(sqrtLoop[float64]), vec.SqrtF64))

// Run implements [ir.Operator].
func (*Sqrt) Run(c *ir.Call) error { return kit.MapTable(c, sqrtLoops, kit.GrainCheap) }

func sqrtLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Sqrt(float64(x)))
	}
}
