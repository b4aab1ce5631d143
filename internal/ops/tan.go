package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Tan computes the tangent of each element, given in radians
// (https://onnx.ai/onnx/operators/onnx__Tan.html).
type Tan struct{ sameTypeAndShape }

var _ = register(Def{Name: "Tan", Since: []int{7, 22}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Tan{})})

var tanLoops = floatLoops(tanLoop[float32], tanLoop[float64], vec.TanF32)

// Run implements [ir.Operator].
func (*Tan) Run(c *ir.Call) error { return mapTable(c, tanLoops, grainCostly) }

func tanLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Tan(float64(x)))
	}
}
