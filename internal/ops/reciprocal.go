package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Reciprocal computes 1/x of each element
// (https://onnx.ai/onnx/operators/onnx__Reciprocal.html).
type Reciprocal struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Reciprocal", Since: kit.Versions{1, 6, 13}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Reciprocal],
	Gradient: kit.Derivative(func(b *kit.GradientBuilder, x, y, g string) string {
		return b.Op("Neg", b.Op("Mul", g, b.Op("Mul", y, y)))
	})})

var reciprocalLoops = kit.LoopsOf(kit.WithUnary(kit.Loop1(reciprocalLoop[float32]), vec.ReciprocalF32), kit.WithConstant(kit.Loop1(reciprocalLoop[float64]), 1, vec.DivF64))

// Run implements [ir.Operator].
func (*Reciprocal) Run(c *ir.Call) error { return kit.MapTable(c, reciprocalLoops, kit.GrainCheap) }

func reciprocalLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = 1 / x
	}
}
