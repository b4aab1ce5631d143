package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
)

// BitwiseXor computes the bitwise exclusive or of two integer tensors
// (https://onnx.ai/onnx/operators/onnx__BitwiseXor.html).
type BitwiseXor struct{}

var _ = kit.Register(&kit.Def{Name: "BitwiseXor", Since: kit.Versions{18}, In: "A:T, B:T", Out: "C:T", Types: "T: @int",
	Elementwise: true, Build: kit.WithoutAttrs[BitwiseXor]})

var bitwiseXorLoops = elementwise.SameBits(
	elementwise.Loop2(bitwiseXorLoop[int8]), elementwise.Loop2(bitwiseXorLoop[int16]),
	elementwise.Loop2(bitwiseXorLoop[int32]), elementwise.Loop2(bitwiseXorLoop[int64]))

// Infer implements [ir.Operator].
func (*BitwiseXor) Infer(c *ir.InferContext) error {
	return elementwise.InferBinary(c, elementwise.AxisBroadcast{}, c.Elem(0), nil)
}

// Run implements [ir.Operator].
func (*BitwiseXor) Run(c *ir.Call) error {
	return elementwise.RunBinary(c, elementwise.AxisBroadcast{}, bitwiseXorLoops, kit.GrainCheap)
}

func bitwiseXorLoop[T kit.IntNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] ^ b[i]
	}
}
