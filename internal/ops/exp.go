package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Exp computes e to the power of each element
// (https://onnx.ai/onnx/operators/onnx__Exp.html).
type Exp struct{ sameTypeAndShape }

var _ = register(Def{Name: "Exp", Since: []int{1, 6, 13}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Exp{})})

var expLoops = floatLoops(expLoop[float32], expLoop[float64], vec.ExpF32)

// Run implements [ir.Operator].
func (*Exp) Run(c *ir.Call) error { return mapTable(c, expLoops, grainCostly) }

func expLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Exp(float64(x)))
	}
}
