package ops

import "github.com/onward-ml/onward/internal/ir"

// BitwiseNot inverts the bits of each integer
// (https://onnx.ai/onnx/operators/onnx__BitwiseNot.html).
type BitwiseNot struct{ sameTypeAndShape }

var _ = register(Def{Name: "BitwiseNot", Since: []int{18}, In: "X:T", Out: "Y:T", Types: Types{"T": "@int"},
	Build: withoutAttrs(&BitwiseNot{})})

var bitwiseNotLoops = loopsOf(
	loop1(bitwiseNotLoop[int8]), loop1(bitwiseNotLoop[int16]), loop1(bitwiseNotLoop[int32]), loop1(bitwiseNotLoop[int64]),
	loop1(bitwiseNotLoop[uint8]), loop1(bitwiseNotLoop[uint16]), loop1(bitwiseNotLoop[uint32]), loop1(bitwiseNotLoop[uint64]))

// Run implements [ir.Operator].
func (*BitwiseNot) Run(c *ir.Call) error { return mapTable(c, bitwiseNotLoops, grainCheap) }

func bitwiseNotLoop[T intNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = ^x
	}
}
