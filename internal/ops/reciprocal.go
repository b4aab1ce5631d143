package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Reciprocal computes 1/x of each element
// (https://onnx.ai/onnx/operators/onnx__Reciprocal.html).
type Reciprocal struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Reciprocal", Since: kit.Versions{1, 6, 13}, In: "X:T",
	Out: "Y:T", Types: "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Reciprocal],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		return b.Op("Neg", b.Op("Mul", g, b.Op("Mul", y, y)))
	})})

var reciprocalLoops = elementwise.LoopsOf(elementwise.WithUnary(elementwise.Loop1(reciprocalLoop[float32]),
	vec.ReciprocalF32), elementwise.WithConstant(elementwise.Loop1(reciprocalLoop[float64]), 1, vec.DivF64))

// Run implements [ir.Operator].
func (*Reciprocal) Run(c *ir.Call) error {
	return elementwise.MapTable(c, reciprocalLoops, kit.GrainCheap)
}

func reciprocalLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = 1 / x
	}
}
