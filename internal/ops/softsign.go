package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Softsign computes x/(1+|x|) of each element
// (https://onnx.ai/onnx/operators/onnx__Softsign.html).
type Softsign struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Softsign", Since: kit.Versions{1, 22}, In: "input:T", Out: "output:T",
	Types:       "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Softsign],
	Gradient: gradient.DecomposedFunction(func(b *gradient.Builder, n *gradient.Node, x string) string {
		return b.Op("Div", x, b.Plus(b.Op("Abs", x), 1))
	})})

var softsignLoops = elementwise.FloatLoops(softsignLoop[float32], softsignLoop[float64],
	elementwise.InPieces(softsignFast))

// Run implements [ir.Operator].
func (*Softsign) Run(c *ir.Call) error { return elementwise.MapTable(c, softsignLoops, kit.GrainCheap) }

func softsignLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = x / (1 + T(math.Abs(float64(x))))
	}
}

func softsignFast(l cpu.Level, dst, x []float32) {
	vec.AbsF32(l, dst, x)
	vec.AddScalarF32(l, dst, dst, 1)
	vec.DivF32(l, dst, x, dst)
}
