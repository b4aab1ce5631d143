package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Sin computes the sine of each element, given in radians
// (https://onnx.ai/onnx/operators/onnx__Sin.html).
type Sin struct{ sameTypeAndShape }

var _ = register(Def{Name: "Sin", Since: []int{7, 22}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Sin{})})

var sinLoops = floatLoops(sinLoop[float32], sinLoop[float64], vec.SinF32)

// Run implements [ir.Operator].
func (*Sin) Run(c *ir.Call) error { return mapTable(c, sinLoops, grainCostly) }

func sinLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Sin(float64(x)))
	}
}
