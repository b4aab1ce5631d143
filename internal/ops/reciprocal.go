package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Reciprocal computes 1/x of each element
// (https://onnx.ai/onnx/operators/onnx__Reciprocal.html).
type Reciprocal struct{ sameTypeAndShape }

var _ = register(Def{Name: "Reciprocal", Since: []int{1, 6, 13}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Reciprocal{})})

var reciprocalLoops = floatLoops(reciprocalLoop[float32], reciprocalLoop[float64], vec.ReciprocalF32)

// Run implements [ir.Operator].
func (*Reciprocal) Run(c *ir.Call) error { return mapTable(c, reciprocalLoops, grainCheap) }

func reciprocalLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = 1 / x
	}
}
