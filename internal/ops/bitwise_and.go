package ops

import (
	"github.com/onward-ml/onward/internal/ir"
)

// BitwiseAnd computes the bitwise and of two integer tensors
// (https://onnx.ai/onnx/operators/onnx__BitwiseAnd.html).
type BitwiseAnd struct{}

var _ = register(Def{Name: "BitwiseAnd", Since: []int{18}, In: "A:T, B:T", Out: "C:T", Types: Types{"T": "@int"},
	Build: withoutAttrs(&BitwiseAnd{})})

var bitwiseAndLoops = loopsOf(
	loop2(bitwiseAndLoop[int8]), loop2(bitwiseAndLoop[int16]), loop2(bitwiseAndLoop[int32]), loop2(bitwiseAndLoop[int64]),
	loop2(bitwiseAndLoop[uint8]), loop2(bitwiseAndLoop[uint16]), loop2(bitwiseAndLoop[uint32]), loop2(bitwiseAndLoop[uint64]))

// Infer implements [ir.Operator].
func (*BitwiseAnd) Infer(c *ir.InferContext) error {
	return inferBinary(c, axisBroadcast{}, c.Elem(0), nil)
}

// Run implements [ir.Operator].
func (*BitwiseAnd) Run(c *ir.Call) error {
	return runBinary(c, axisBroadcast{}, bitwiseAndLoops, grainCheap)
}

func bitwiseAndLoop[T intNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] & b[i]
	}
}
