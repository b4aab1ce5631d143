package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Sin computes the sine of each element, given in radians
// (https://onnx.ai/onnx/operators/onnx__Sin.html).
type Sin struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Sin", Since: kit.Versions{7, 22}, In: "input:T", Out: "output:T",
	Types:       "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Sin],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		return b.Op("Mul", g, b.Op("Cos", x))
	})})

var sinLoops = elementwise.LoopsOf(elementwise.WithUnary(elementwise.Loop1(sinLoop[float32]), vec.SinF32),
	elementwise.WithKernel1(elementwise.Loop1(sinLoop[float64]), vec.SinF64))

// Run implements [ir.Operator].
func (*Sin) Run(c *ir.Call) error { return elementwise.MapTable(c, sinLoops, kit.GrainCostly) }

func sinLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Sin(float64(x)))
	}
}
