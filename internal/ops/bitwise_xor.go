package ops

import (
	"github.com/onward-ml/onward/internal/ir"
)

// BitwiseXor computes the bitwise exclusive or of two integer tensors
// (https://onnx.ai/onnx/operators/onnx__BitwiseXor.html).
type BitwiseXor struct{}

var _ = register(Def{Name: "BitwiseXor", Since: []int{18}, In: "A:T, B:T", Out: "C:T", Types: Types{"T": "@int"},
	Build: withoutAttrs(&BitwiseXor{})})

var bitwiseXorLoops = loopsOf(
	loop2(bitwiseXorLoop[int8]), loop2(bitwiseXorLoop[int16]), loop2(bitwiseXorLoop[int32]), loop2(bitwiseXorLoop[int64]),
	loop2(bitwiseXorLoop[uint8]), loop2(bitwiseXorLoop[uint16]), loop2(bitwiseXorLoop[uint32]), loop2(bitwiseXorLoop[uint64]))

// Infer implements [ir.Operator].
func (*BitwiseXor) Infer(c *ir.InferContext) error {
	return inferBinary(c, axisBroadcast{}, c.Elem(0), nil)
}

// Run implements [ir.Operator].
func (*BitwiseXor) Run(c *ir.Call) error {
	return runBinary(c, axisBroadcast{}, bitwiseXorLoops, grainCheap)
}

func bitwiseXorLoop[T intNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] ^ b[i]
	}
}
