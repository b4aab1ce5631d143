package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Sqrt returns the square root of each element; NaN for negative ones
// (https://onnx.ai/onnx/operators/onnx__Sqrt.html).
type Sqrt struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Sqrt", Since: kit.Versions{1, 6, 13}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Sqrt],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		return b.Op("Div", g, b.Op("Add", y, y))
	})})

var sqrtLoops = elementwise.LoopsOf(elementwise.WithUnary(elementwise.Loop1(sqrtLoop[float32]), vec.SqrtF32),
	elementwise.WithKernel1(elementwise.Loop1(sqrtLoop[float64]), vec.SqrtF64))

// Run implements [ir.Operator].
func (*Sqrt) Run(c *ir.Call) error { return elementwise.MapTable(c, sqrtLoops, kit.GrainCheap) }

func sqrtLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Sqrt(float64(x)))
	}
}
