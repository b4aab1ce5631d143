package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// BitwiseAnd returns the bitwise and of two integer tensors
// (https://onnx.ai/onnx/operators/onnx__BitwiseAnd.html).
type BitwiseAnd struct{}

var _ = kit.Register(&kit.Def{Name: "BitwiseAnd", Since: kit.Versions{18}, In: "A:T, B:T", Out: "C:T", Types: "T: @int",
	Elementwise: true, Build: kit.WithoutAttrs[BitwiseAnd]})

var bitwiseAndLoops = kit.SameBits(
	kit.Loop2(bitwiseAndLoop[int8]), kit.Loop2(bitwiseAndLoop[int16]), kit.Loop2(bitwiseAndLoop[int32]), kit.Loop2(bitwiseAndLoop[int64]))

// Infer implements [ir.Operator].
func (*BitwiseAnd) Infer(c *ir.InferContext) error {
	return kit.InferBinary(c, kit.AxisBroadcast{}, c.Elem(0), nil)
}

// Run implements [ir.Operator].
func (*BitwiseAnd) Run(c *ir.Call) error {
	return kit.RunBinary(c, kit.AxisBroadcast{}, bitwiseAndLoops, kit.GrainCheap)
}

func bitwiseAndLoop[T kit.IntNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] & b[i]
	}
}
