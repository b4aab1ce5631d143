package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Round rounds each element to the nearest integer, halves to the even one
// (https://onnx.ai/onnx/operators/onnx__Round.html).
type Round struct{ sameTypeAndShape }

var _ = register(Def{Name: "Round", Since: []int{11, 22}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Round{})})

var roundLoops = floatLoops(roundLoop[float32], roundLoop[float64], vec.RoundEvenF32)

// Run implements [ir.Operator].
func (*Round) Run(c *ir.Call) error { return mapTable(c, roundLoops, grainCheap) }

func roundLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.RoundToEven(float64(x)))
	}
}
