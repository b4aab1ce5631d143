package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Exp returns e raised to the power of each element
// (https://onnx.ai/onnx/operators/onnx__Exp.html).
type Exp struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Exp", Since: kit.Versions{1, 6, 13}, In: "input:T", Out: "output:T",
	Types:       "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Exp],
	Gradient:    gradient.Derivative(func(b *gradient.Builder, x, y, g string) string { return b.Op("Mul", g, y) })})

var expLoops = elementwise.LoopsOf(elementwise.WithUnary(elementwise.Loop1(expLoop[float32]), vec.ExpF32),
	elementwise.WithKernel1(elementwise.Loop1(expLoop[float64]), vec.ExpF64))

// Run implements [ir.Operator].
func (*Exp) Run(c *ir.Call) error { return elementwise.MapTable(c, expLoops, kit.GrainCostly) }

func expLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Exp(float64(x)))
	}
}
