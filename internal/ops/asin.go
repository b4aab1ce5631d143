package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Asin computes the arc sine of each element, in radians
// (https://onnx.ai/onnx/operators/onnx__Asin.html).
type Asin struct{ sameTypeAndShape }

var _ = register(Def{Name: "Asin", Since: []int{7, 22}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Asin{})})

var asinLoops = floatLoops(asinLoop[float32], asinLoop[float64], vec.AsinF32)

// Run implements [ir.Operator].
func (*Asin) Run(c *ir.Call) error { return mapTable(c, asinLoops, grainCostly) }

func asinLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Asin(float64(x)))
	}
}
