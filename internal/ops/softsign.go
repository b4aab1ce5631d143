package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Softsign computes x/(1+|x|) of each element
// (https://onnx.ai/onnx/operators/onnx__Softsign.html).
type Softsign struct{ sameTypeAndShape }

var _ = register(Def{Name: "Softsign", Since: []int{1, 22}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Softsign{})})

var softsignLoops = floatLoops(softsignLoop[float32], softsignLoop[float64], inPieces(softsignFast))

// Run implements [ir.Operator].
func (*Softsign) Run(c *ir.Call) error { return mapTable(c, softsignLoops, grainCheap) }

func softsignLoop[T floatNumber](dst, src []T) {
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
