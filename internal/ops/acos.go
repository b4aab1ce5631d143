package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Acos computes the arc cosine of each element, in radians
// (https://onnx.ai/onnx/operators/onnx__Acos.html).
type Acos struct{ sameTypeAndShape }

var _ = register(Def{Name: "Acos", Since: []int{7, 22}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Acos{})})

var acosLoops = floatLoops(acosLoop[float32], acosLoop[float64], vec.AcosF32)

// Run implements [ir.Operator].
func (*Acos) Run(c *ir.Call) error { return mapTable(c, acosLoops, grainCostly) }

func acosLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Acos(float64(x)))
	}
}
