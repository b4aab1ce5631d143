package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// LessOrEqual returns whether elements of the first input are less than or equal to those of the
// second (https://onnx.ai/onnx/operators/onnx__LessOrEqual.html).
type LessOrEqual struct{ elementwise.AxisBroadcast }

var _ = kit.Register(&kit.Def{Name: "LessOrEqual", Since: kit.Versions{12, 16}, In: "A:T, B:T", Out: "C:T1",
	Types:       "T: @number; T1: bool",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &LessOrEqual{elementwise.ReadAxisBroadcast(a, opset)}
	},
	Gradient: gradient.None})

var lessOrEqualLoops = elementwise.LoopsOf(
	elementwise.WithCompare(elementwise.Loop2(lessOrEqualLoop[int8]), vec.LessOrEqualI8, false),
	elementwise.Loop2(lessOrEqualLoop[int16]),
	elementwise.WithCompare(elementwise.Loop2(lessOrEqualLoop[int32]), vec.LessOrEqualI32, false),
	elementwise.WithCompare(elementwise.Loop2(lessOrEqualLoop[int64]), vec.LessOrEqualI64, false),
	elementwise.WithCompare(elementwise.Loop2(lessOrEqualLoop[uint8]), vec.LessOrEqualU8, false),
	elementwise.Loop2(lessOrEqualLoop[uint16]), elementwise.WithCompare(elementwise.Loop2(lessOrEqualLoop[uint32]),
		vec.LessOrEqualU32, false), elementwise.Loop2(lessOrEqualLoop[uint64]),
	elementwise.WithCompare(elementwise.Loop2(lessOrEqualLoop[float32]), vec.LessOrEqualF32, false),
	elementwise.WithCompare(elementwise.Loop2(lessOrEqualLoop[float64]), vec.LessOrEqualF64, false))

// Infer implements [ir.Operator].
func (o *LessOrEqual) Infer(c *ir.InferContext) error {
	return elementwise.InferBinary(c, o.AxisBroadcast, tensor.TypeBool, nil)
}

// Run implements [ir.Operator].
func (o *LessOrEqual) Run(c *ir.Call) error {
	return elementwise.RunBinary(c, o.AxisBroadcast, lessOrEqualLoops, kit.GrainCheap)
}

func lessOrEqualLoop[T kit.RealNumber](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] <= b[i]
	}
}
