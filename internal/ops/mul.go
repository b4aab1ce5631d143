package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Mul returns the elementwise product of two tensors; integers wrap around
// (https://onnx.ai/onnx/operators/onnx__Mul.html).
type Mul struct{ kit.AxisBroadcast }

var _ = kit.Register(&kit.Def{Name: "Mul", Since: kit.Versions{1, 6, 7, 13, 14}, In: "A:T, B:T", Out: "C:T", Types: "T: @number",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Mul{kit.ReadAxisBroadcast(a, opset)}
	},
	Gradient: kit.Derivatives(
		func(b *kit.GradientBuilder, x, y, z, g string) string { return b.Op("Mul", g, y) },
		func(b *kit.GradientBuilder, x, y, z, g string) string { return b.Op("Mul", g, x) })})

var mulLoops = kit.SameBits(
	kit.WithKernel2(kit.Loop2Scalar(kit.MulLoop[int8]), vec.MulU8), kit.Loop2Scalar(kit.MulLoop[int16]), kit.WithKernel2(kit.Loop2Scalar(kit.MulLoop[int32]), vec.MulI32), kit.WithKernel2(kit.Loop2Scalar(kit.MulLoop[int64]), vec.MulI64),
	kit.WithBinary(kit.Loop2Scalar(kit.MulLoop[float32]), vec.MulF32, vec.MulScalarF32, vec.MulScalarF32), kit.WithKernel2(kit.Loop2Scalar(kit.MulLoop[float64]), vec.MulF64))

// Infer implements [ir.Operator].
func (o *Mul) Infer(c *ir.InferContext) error {
	return kit.InferBinary(c, o.AxisBroadcast, c.Elem(0), ir.Dim.Mul)
}

// Run implements [ir.Operator].
func (o *Mul) Run(c *ir.Call) error {
	return kit.RunBinary(c, o.AxisBroadcast, mulLoops, kit.GrainCheap)
}
