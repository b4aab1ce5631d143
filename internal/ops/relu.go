package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Relu computes max(0, x) of each element
// (https://onnx.ai/onnx/operators/onnx__Relu.html).
type Relu struct{ sameTypeAndShape }

var _ = register(Def{Name: "Relu", Since: []int{1, 6, 13, 14}, In: "X:T", Out: "Y:T", Types: Types{"T": "@signed @float"},
	Build: withoutAttrs(&Relu{})})

var reluLoops = loopsOf(
	loop1(reluLoop[int8]), loop1(reluLoop[int16]), loop1(reluLoop[int32]), loop1(reluLoop[int64]),
	withUnary(loop1(reluLoop[float32]), vec.ReluF32), loop1(reluLoop[float64]))

// Run implements [ir.Operator].
func (*Relu) Run(c *ir.Call) error { return mapTable(c, reluLoops, grainCheap) }

func reluLoop[T signedNumber | floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = max(x, 0)
	}
}
