package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Asinh computes the inverse hyperbolic sine of each element
// (https://onnx.ai/onnx/operators/onnx__Asinh.html).
type Asinh struct{ sameTypeAndShape }

var _ = register(Def{Name: "Asinh", Since: []int{9, 22}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Asinh{})})

var asinhLoops = floatLoops(asinhLoop[float32], asinhLoop[float64], vec.AsinhF32)

// Run implements [ir.Operator].
func (*Asinh) Run(c *ir.Call) error { return mapTable(c, asinhLoops, grainCostly) }

func asinhLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Asinh(float64(x)))
	}
}
