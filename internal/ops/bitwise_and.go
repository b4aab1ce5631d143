package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
)

// BitwiseAnd returns the bitwise and of two integer tensors
// (https://onnx.ai/onnx/operators/onnx__BitwiseAnd.html).
type BitwiseAnd struct{}

var _ = kit.Register(&kit.Def{Name: "BitwiseAnd", Since: kit.Versions{18}, In: "A:T, B:T", Out: "C:T", Types: "T: @int",
	Elementwise: true, Build: kit.WithoutAttrs[BitwiseAnd]})

var bitwiseAndLoops = elementwise.SameBits(
	elementwise.Loop2(bitwiseAndLoop[int8]), elementwise.Loop2(bitwiseAndLoop[int16]),
	elementwise.Loop2(bitwiseAndLoop[int32]), elementwise.Loop2(bitwiseAndLoop[int64]))

// Infer implements [ir.Operator].
func (*BitwiseAnd) Infer(c *ir.InferContext) error {
	return elementwise.InferBinary(c, elementwise.AxisBroadcast{}, c.Elem(0), nil)
}

// Run implements [ir.Operator].
func (*BitwiseAnd) Run(c *ir.Call) error {
	return elementwise.RunBinary(c, elementwise.AxisBroadcast{}, bitwiseAndLoops, kit.GrainCheap)
}

func bitwiseAndLoop[T kit.IntNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] & b[i]
	}
}
