package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Cosh computes the hyperbolic cosine of each element
// (https://onnx.ai/onnx/operators/onnx__Cosh.html).
type Cosh struct{ sameTypeAndShape }

var _ = register(Def{Name: "Cosh", Since: []int{9, 22}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Cosh{})})

var coshLoops = floatLoops(coshLoop[float32], coshLoop[float64], vec.CoshF32)

// Run implements [ir.Operator].
func (*Cosh) Run(c *ir.Call) error { return mapTable(c, coshLoops, grainCostly) }

func coshLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Cosh(float64(x)))
	}
}
