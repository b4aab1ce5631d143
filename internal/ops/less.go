package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// Less returns whether elements of the first input are less than those of the second
// (https://onnx.ai/onnx/operators/onnx__Less.html).
type Less struct{ elementwise.AxisBroadcast }

var _ = kit.Register(&kit.Def{Name: "Less", Since: kit.Versions{1, 7, 9, 13}, In: "A:T, B:T", Out: "C:T1",
	Types:       "T: @number; T1: bool",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Less{elementwise.ReadAxisBroadcast(a, opset)}
	},
	Gradient: gradient.None})

var lessLoops = elementwise.LoopsOf(
	elementwise.WithCompare(elementwise.Loop2(lessLoop[int8]), vec.LessI8, false), elementwise.Loop2(lessLoop[int16]),
	elementwise.WithCompare(elementwise.Loop2(lessLoop[int32]), vec.LessI32, false),
	elementwise.WithCompare(elementwise.Loop2(lessLoop[int64]), vec.LessI64, false),
	elementwise.WithCompare(elementwise.Loop2(lessLoop[uint8]), vec.LessU8, false), elementwise.Loop2(lessLoop[uint16]),
	elementwise.WithCompare(elementwise.Loop2(lessLoop[uint32]), vec.LessU32, false),
	elementwise.Loop2(lessLoop[uint64]),
	elementwise.WithCompare(elementwise.Loop2(lessLoop[float32]), vec.LessF32, false),
	elementwise.WithCompare(elementwise.Loop2(lessLoop[float64]), vec.LessF64, false))

// Infer implements [ir.Operator].
func (o *Less) Infer(c *ir.InferContext) error {
	return elementwise.InferBinary(c, o.AxisBroadcast, tensor.TypeBool, nil)
}

// Run implements [ir.Operator].
func (o *Less) Run(c *ir.Call) error {
	return elementwise.RunBinary(c, o.AxisBroadcast, lessLoops, kit.GrainCheap)
}

func lessLoop[T kit.RealNumber](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] < b[i]
	}
}
