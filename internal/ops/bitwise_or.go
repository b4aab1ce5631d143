package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
)

// BitwiseOr computes the bitwise or of two integer tensors
// (https://onnx.ai/onnx/operators/onnx__BitwiseOr.html).
type BitwiseOr struct{}

var _ = kit.Register(&kit.Def{Name: "BitwiseOr", Since: kit.Versions{18}, In: "A:T, B:T", Out: "C:T", Types: "T: @int",
	Elementwise: true, Build: kit.WithoutAttrs[BitwiseOr]})

var bitwiseOrLoops = elementwise.SameBits(
	elementwise.Loop2(bitwiseOrLoop[int8]), elementwise.Loop2(bitwiseOrLoop[int16]),
	elementwise.Loop2(bitwiseOrLoop[int32]), elementwise.Loop2(bitwiseOrLoop[int64]))

// Infer implements [ir.Operator].
func (*BitwiseOr) Infer(c *ir.InferContext) error {
	return elementwise.InferBinary(c, elementwise.AxisBroadcast{}, c.Elem(0), nil)
}

// Run implements [ir.Operator].
func (*BitwiseOr) Run(c *ir.Call) error {
	return elementwise.RunBinary(c, elementwise.AxisBroadcast{}, bitwiseOrLoops, kit.GrainCheap)
}

func bitwiseOrLoop[T kit.IntNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] | b[i]
	}
}
