package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Mul returns the elementwise product of two tensors; integers wrap around
// (https://onnx.ai/onnx/operators/onnx__Mul.html).
type Mul struct{ elementwise.AxisBroadcast }

var _ = kit.Register(&kit.Def{Name: "Mul", Since: kit.Versions{1, 6, 7, 13, 14}, In: "A:T, B:T", Out: "C:T",
	Types:       "T: @number",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Mul{elementwise.ReadAxisBroadcast(a, opset)}
	},
	Gradient: gradient.Derivatives(
		func(b *gradient.Builder, x, y, z, g string) string { return b.Op("Mul", g, y) },
		func(b *gradient.Builder, x, y, z, g string) string { return b.Op("Mul", g, x) })})

var mulLoops = elementwise.SameBits(
	elementwise.WithKernel2(elementwise.Loop2Scalar(elementwise.MulLoop[int8]), vec.MulU8),
	elementwise.Loop2Scalar(elementwise.MulLoop[int16]),
	elementwise.WithKernel2(elementwise.Loop2Scalar(elementwise.MulLoop[int32]), vec.MulI32),
	elementwise.WithKernel2(elementwise.Loop2Scalar(elementwise.MulLoop[int64]), vec.MulI64),
	elementwise.WithBinary(elementwise.Loop2Scalar(elementwise.MulLoop[float32]), vec.MulF32, vec.MulScalarF32,
		vec.MulScalarF32), elementwise.WithKernel2(elementwise.Loop2Scalar(elementwise.MulLoop[float64]), vec.MulF64))

// Infer implements [ir.Operator].
func (o *Mul) Infer(c *ir.InferContext) error {
	return elementwise.InferBinary(c, o.AxisBroadcast, c.Elem(0), ir.Dim.Mul)
}

// Run implements [ir.Operator].
func (o *Mul) Run(c *ir.Call) error {
	return elementwise.RunBinary(c, o.AxisBroadcast, mulLoops, kit.GrainCheap)
}
