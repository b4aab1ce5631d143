package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// BitwiseXor computes the bitwise exclusive or of two integer tensors
// (https://onnx.ai/onnx/operators/onnx__BitwiseXor.html).
type BitwiseXor struct{}

var _ = kit.Register(&kit.Def{Name: "BitwiseXor", Since: kit.Versions{18}, In: "A:T, B:T", Out: "C:T", Types: "T: @int",
	Elementwise: true, Build: kit.WithoutAttrs[BitwiseXor]})

var bitwiseXorLoops = kit.SameBits(
	kit.Loop2(bitwiseXorLoop[int8]), kit.Loop2(bitwiseXorLoop[int16]), kit.Loop2(bitwiseXorLoop[int32]), kit.Loop2(bitwiseXorLoop[int64]))

// Infer implements [ir.Operator].
func (*BitwiseXor) Infer(c *ir.InferContext) error {
	return kit.InferBinary(c, kit.AxisBroadcast{}, c.Elem(0), nil)
}

// Run implements [ir.Operator].
func (*BitwiseXor) Run(c *ir.Call) error {
	return kit.RunBinary(c, kit.AxisBroadcast{}, bitwiseXorLoops, kit.GrainCheap)
}

func bitwiseXorLoop[T kit.IntNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] ^ b[i]
	}
}
