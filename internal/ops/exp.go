package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Exp returns e raised to the power of each element
// (https://onnx.ai/onnx/operators/onnx__Exp.html).
type Exp struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Exp", Since: kit.Versions{1, 6, 13}, In: "input:T", Out: "output:T", Types: "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Exp],
	Gradient:    kit.Derivative(func(b *kit.GradientBuilder, x, y, g string) string { return b.Op("Mul", g, y) })})

var expLoops = kit.LoopsOf(kit.WithUnary(kit.Loop1(expLoop[float32]), vec.ExpF32), kit.WithKernel1(kit.Loop1(expLoop[float64]), vec.ExpF64))

// Run implements [ir.Operator].
func (*Exp) Run(c *ir.Call) error { return kit.MapTable(c, expLoops, kit.GrainCostly) }

func expLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Exp(float64(x)))
	}
}
