package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Sqrt computes the square root of each element, NaN for negative ones
// (https://onnx.ai/onnx/operators/onnx__Sqrt.html).
type Sqrt struct{ sameTypeAndShape }

var _ = register(Def{Name: "Sqrt", Since: []int{1, 6, 13}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Sqrt{})})

var sqrtLoops = floatLoops(sqrtLoop[float32], sqrtLoop[float64], vec.SqrtF32)

// Run implements [ir.Operator].
func (*Sqrt) Run(c *ir.Call) error { return mapTable(c, sqrtLoops, grainCheap) }

func sqrtLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Sqrt(float64(x)))
	}
}
