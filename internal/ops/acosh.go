package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Acosh computes the inverse hyperbolic cosine of each element
// (https://onnx.ai/onnx/operators/onnx__Acosh.html).
type Acosh struct{ sameTypeAndShape }

var _ = register(Def{Name: "Acosh", Since: []int{9, 22}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Acosh{})})

var acoshLoops = floatLoops(acoshLoop[float32], acoshLoop[float64], vec.AcoshF32)

// Run implements [ir.Operator].
func (*Acosh) Run(c *ir.Call) error { return mapTable(c, acoshLoops, grainCostly) }

func acoshLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Acosh(float64(x)))
	}
}
