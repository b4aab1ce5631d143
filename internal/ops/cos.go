package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Cos computes the cosine of each element, given in radians
// (https://onnx.ai/onnx/operators/onnx__Cos.html).
type Cos struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Cos", Since: kit.Versions{7, 22}, In: "input:T", Out: "output:T",
	Types:       "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Cos],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		return b.Op("Neg", b.Op("Mul", g, b.Op("Sin", x)))
	})})

var cosLoops = elementwise.LoopsOf(elementwise.WithUnary(elementwise.Loop1(cosLoop[float32]), vec.CosF32),
	elementwise.WithKernel1(elementwise.Loop1(cosLoop[float64]), vec.CosF64))

// Run implements [ir.Operator].
func (*Cos) Run(c *ir.Call) error { return elementwise.MapTable(c, cosLoops, kit.GrainCostly) }

func cosLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Cos(float64(x)))
	}
}
