package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Div divides the first tensor by the second. Integer division truncates toward zero, and division
// by zero is an error (https://onnx.ai/onnx/operators/onnx__Div.html).
type Div struct{ elementwise.AxisBroadcast }

var _ = kit.Register(&kit.Def{Name: "Div", Since: kit.Versions{1, 6, 7, 13, 14}, In: "A:T, B:T", Out: "C:T",
	Types:       "T: @number",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Div{elementwise.ReadAxisBroadcast(a, opset)}
	},
	Gradient: gradient.Derivatives(
		func(b *gradient.Builder, x, y, z, g string) string { return b.Op("Div", g, y) },
		func(b *gradient.Builder, x, y, z, g string) string {
			return b.Op("Neg", b.Op("Div", b.Op("Mul", g, z), y))
		})})

var divLoops = elementwise.LoopsOf(
	elementwise.Loop2Scalar(elementwise.DivLoop[int8]), elementwise.Loop2Scalar(elementwise.DivLoop[int16]),
	elementwise.WithKernel2(elementwise.Loop2Scalar(elementwise.DivLoop[int32]), vec.DivI32),
	elementwise.Loop2Scalar(elementwise.DivLoop[int64]),
	elementwise.Loop2Scalar(elementwise.DivLoop[uint8]), elementwise.Loop2Scalar(elementwise.DivLoop[uint16]),
	elementwise.Loop2Scalar(elementwise.DivLoop[uint32]), elementwise.Loop2Scalar(elementwise.DivLoop[uint64]),
	elementwise.WithBinary(elementwise.Loop2Scalar(elementwise.DivLoop[float32]), vec.DivF32, vec.DivScalarF32,
		vec.ScalarDivF32), elementwise.WithKernel2(elementwise.Loop2Scalar(elementwise.DivLoop[float64]), vec.DivF64))

// Infer implements [ir.Operator].
func (o *Div) Infer(c *ir.InferContext) error {
	return elementwise.InferBinary(c, o.AxisBroadcast, c.Elem(0), divDim)
}

// divDim returns the quotient of two elements of a shape value. If negative, it is known for
// constants only, since ONNX truncates and Dim rounds down.
func divDim(a, b ir.Dim) ir.Dim {
	x, ok1 := a.Value()
	y, ok2 := b.Value()
	if ok1 && ok2 {
		if y == 0 {
			return ir.Unknown
		}
		return ir.Known(x / y)
	}
	if ok2 && y < 0 {
		return ir.Unknown
	}
	return a.Div(b)
}

// Run implements [ir.Operator].
func (o *Div) Run(c *ir.Call) error {
	if c.Tensor(0).Len() > 0 {
		if err := elementwise.RefuseZeroDivisor(c.Tensor(1)); err != nil {
			return err
		}
	}
	return elementwise.RunBinary(c, o.AxisBroadcast, divLoops, kit.GrainCheap)
}
