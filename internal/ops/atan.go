package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Atan computes the arc tangent of each element, in radians
// (https://onnx.ai/onnx/operators/onnx__Atan.html).
type Atan struct{ sameTypeAndShape }

var _ = register(Def{Name: "Atan", Since: []int{7, 22}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Atan{})})

var atanLoops = floatLoops(atanLoop[float32], atanLoop[float64], vec.AtanF32)

// Run implements [ir.Operator].
func (*Atan) Run(c *ir.Call) error { return mapTable(c, atanLoops, grainCostly) }

func atanLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Atan(float64(x)))
	}
}
