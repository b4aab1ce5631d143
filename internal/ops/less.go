package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Less returns whether elements of the first input are less than those of the second
// (https://onnx.ai/onnx/operators/onnx__Less.html).
type Less struct{ kit.AxisBroadcast }

var _ = kit.Register(&kit.Def{Name: "Less", Since: kit.Versions{1, 7, 9, 13}, In: "A:T, B:T", Out: "C:T1", Types: "T: @number; T1: bool",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Less{kit.ReadAxisBroadcast(a, opset)}
	},
	Gradient: kit.NoGradient})

var lessLoops = kit.LoopsOf(
	kit.WithCompare(kit.Loop2(lessLoop[int8]), vec.LessI8, false), kit.Loop2(lessLoop[int16]), kit.WithCompare(kit.Loop2(lessLoop[int32]), vec.LessI32, false), kit.WithCompare(kit.Loop2(lessLoop[int64]), vec.LessI64, false),
	kit.WithCompare(kit.Loop2(lessLoop[uint8]), vec.LessU8, false), kit.Loop2(lessLoop[uint16]), kit.WithCompare(kit.Loop2(lessLoop[uint32]), vec.LessU32, false), kit.Loop2(lessLoop[uint64]),
	kit.WithCompare(kit.Loop2(lessLoop[float32]), vec.LessF32, false), kit.WithCompare(kit.Loop2(lessLoop[float64]), vec.LessF64, false))

// Infer implements [ir.Operator].
func (o *Less) Infer(c *ir.InferContext) error {
	return kit.InferBinary(c, o.AxisBroadcast, tensor.TypeBool, nil)
}

// Run implements [ir.Operator].
func (o *Less) Run(c *ir.Call) error {
	return kit.RunBinary(c, o.AxisBroadcast, lessLoops, kit.GrainCheap)
}

func lessLoop[T kit.RealNumber](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] < b[i]
	}
}
