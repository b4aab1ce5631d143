package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Ceil rounds each element up to an integer
// (https://onnx.ai/onnx/operators/onnx__Ceil.html).
type Ceil struct{ sameTypeAndShape }

var _ = register(Def{Name: "Ceil", Since: []int{1, 6, 13}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Ceil{})})

var ceilLoops = floatLoops(ceilLoop[float32], ceilLoop[float64], vec.CeilF32)

// Run implements [ir.Operator].
func (*Ceil) Run(c *ir.Call) error { return mapTable(c, ceilLoops, grainCheap) }

func ceilLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Ceil(float64(x)))
	}
}
