package ops

import (
	"github.com/onward-ml/onward/internal/ir"
)

// BitwiseOr computes the bitwise or of two integer tensors
// (https://onnx.ai/onnx/operators/onnx__BitwiseOr.html).
type BitwiseOr struct{}

var _ = register(Def{Name: "BitwiseOr", Since: []int{18}, In: "A:T, B:T", Out: "C:T", Types: Types{"T": "@int"},
	Build: withoutAttrs(&BitwiseOr{})})

var bitwiseOrLoops = loopsOf(
	loop2(bitwiseOrLoop[int8]), loop2(bitwiseOrLoop[int16]), loop2(bitwiseOrLoop[int32]), loop2(bitwiseOrLoop[int64]),
	loop2(bitwiseOrLoop[uint8]), loop2(bitwiseOrLoop[uint16]), loop2(bitwiseOrLoop[uint32]), loop2(bitwiseOrLoop[uint64]))

// Infer implements [ir.Operator].
func (*BitwiseOr) Infer(c *ir.InferContext) error {
	return inferBinary(c, axisBroadcast{}, c.Elem(0), nil)
}

// Run implements [ir.Operator].
func (*BitwiseOr) Run(c *ir.Call) error {
	return runBinary(c, axisBroadcast{}, bitwiseOrLoops, grainCheap)
}

func bitwiseOrLoop[T intNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] | b[i]
	}
}
