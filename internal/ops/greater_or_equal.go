package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// GreaterOrEqual returns whether elements of the first input are greater than or equal to those of
// the second (https://onnx.ai/onnx/operators/onnx__GreaterOrEqual.html).
type GreaterOrEqual struct{ elementwise.AxisBroadcast }

var _ = kit.Register(&kit.Def{Name: "GreaterOrEqual", Since: kit.Versions{12, 16}, In: "A:T, B:T", Out: "C:T1",
	Types:       "T: @number; T1: bool",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &GreaterOrEqual{elementwise.ReadAxisBroadcast(a, opset)}
	},
	Gradient: gradient.None})

var greaterOrEqualLoops = elementwise.LoopsOf(
	elementwise.WithCompare(elementwise.Loop2(greaterOrEqualLoop[int8]), vec.LessOrEqualI8, true),
	elementwise.Loop2(greaterOrEqualLoop[int16]), elementwise.WithCompare(elementwise.Loop2(greaterOrEqualLoop[int32]),
		vec.LessOrEqualI32, true), elementwise.WithCompare(elementwise.Loop2(greaterOrEqualLoop[int64]),
		vec.LessOrEqualI64, true),
	elementwise.WithCompare(elementwise.Loop2(greaterOrEqualLoop[uint8]), vec.LessOrEqualU8, true),
	elementwise.Loop2(greaterOrEqualLoop[uint16]),
	elementwise.WithCompare(elementwise.Loop2(greaterOrEqualLoop[uint32]), vec.LessOrEqualU32, true),
	elementwise.Loop2(greaterOrEqualLoop[uint64]),
	elementwise.WithCompare(elementwise.Loop2(greaterOrEqualLoop[float32]), vec.LessOrEqualF32, true),
	elementwise.WithCompare(elementwise.Loop2(greaterOrEqualLoop[float64]), vec.LessOrEqualF64, true))

// Infer implements [ir.Operator].
func (o *GreaterOrEqual) Infer(c *ir.InferContext) error {
	return elementwise.InferBinary(c, o.AxisBroadcast, tensor.TypeBool, nil)
}

// Run implements [ir.Operator].
func (o *GreaterOrEqual) Run(c *ir.Call) error {
	return elementwise.RunBinary(c, o.AxisBroadcast, greaterOrEqualLoops, kit.GrainCheap)
}

func greaterOrEqualLoop[T kit.RealNumber](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] >= b[i]
	}
}
