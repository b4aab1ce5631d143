package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// Greater returns whether elements of the first input are greater than those of the second
// (https://onnx.ai/onnx/operators/onnx__Greater.html).
type Greater struct{ elementwise.AxisBroadcast }

var _ = kit.Register(&kit.Def{Name: "Greater", Since: kit.Versions{1, 7, 9, 13}, In: "A:T, B:T", Out: "C:T1",
	Types:       "T: @number; T1: bool",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Greater{elementwise.ReadAxisBroadcast(a, opset)}
	},
	Gradient: gradient.None})

var greaterLoops = elementwise.LoopsOf(
	elementwise.WithCompare(elementwise.Loop2(greaterLoop[int8]), vec.LessI8, true),
	elementwise.Loop2(greaterLoop[int16]), elementwise.WithCompare(elementwise.Loop2(greaterLoop[int32]), vec.LessI32,
		true), elementwise.WithCompare(elementwise.Loop2(greaterLoop[int64]), vec.LessI64, true),
	elementwise.WithCompare(elementwise.Loop2(greaterLoop[uint8]), vec.LessU8, true),
	elementwise.Loop2(greaterLoop[uint16]), elementwise.WithCompare(elementwise.Loop2(greaterLoop[uint32]), vec.LessU32,
		true), elementwise.Loop2(greaterLoop[uint64]),
	elementwise.WithCompare(elementwise.Loop2(greaterLoop[float32]), vec.LessF32, true),
	elementwise.WithCompare(elementwise.Loop2(greaterLoop[float64]), vec.LessF64, true))

// Infer implements [ir.Operator].
func (o *Greater) Infer(c *ir.InferContext) error {
	return elementwise.InferBinary(c, o.AxisBroadcast, tensor.TypeBool, nil)
}

// Run implements [ir.Operator].
func (o *Greater) Run(c *ir.Call) error {
	return elementwise.RunBinary(c, o.AxisBroadcast, greaterLoops, kit.GrainCheap)
}

func greaterLoop[T kit.RealNumber](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] > b[i]
	}
}
