package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Atanh computes the inverse hyperbolic tangent of each element
// (https://onnx.ai/onnx/operators/onnx__Atanh.html).
type Atanh struct{ sameTypeAndShape }

var _ = register(Def{Name: "Atanh", Since: []int{9, 22}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Atanh{})})

var atanhLoops = floatLoops(atanhLoop[float32], atanhLoop[float64], vec.AtanhF32)

// Run implements [ir.Operator].
func (*Atanh) Run(c *ir.Call) error { return mapTable(c, atanhLoops, grainCostly) }

func atanhLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Atanh(float64(x)))
	}
}
