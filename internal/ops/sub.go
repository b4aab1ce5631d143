package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Sub subtracts the second tensor from the first; integers wrap around
// (https://onnx.ai/onnx/operators/onnx__Sub.html).
type Sub struct{ elementwise.AxisBroadcast }

var _ = kit.Register(&kit.Def{Name: "Sub", Since: kit.Versions{1, 6, 7, 13, 14}, In: "A:T, B:T", Out: "C:T",
	Types:       "T: @number",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Sub{elementwise.ReadAxisBroadcast(a, opset)}
	},
	Gradient: gradient.Derivatives(
		func(b *gradient.Builder, x, y, z, g string) string { return g },
		func(b *gradient.Builder, x, y, z, g string) string { return b.Op("Neg", g) })})

var subLoops = elementwise.SameBits(
	elementwise.WithKernel2(elementwise.Loop2Scalar(subLoop[int8]), vec.SubU8), elementwise.Loop2Scalar(subLoop[int16]),
	elementwise.WithKernel2(elementwise.Loop2Scalar(subLoop[int32]), vec.SubI32),
	elementwise.WithKernel2(elementwise.Loop2Scalar(subLoop[int64]), vec.SubI64),
	elementwise.WithBinary(elementwise.Loop2Scalar(subLoop[float32]), vec.SubF32, vec.SubScalarF32, vec.ScalarSubF32),
	elementwise.WithKernel2(elementwise.Loop2Scalar(subLoop[float64]), vec.SubF64))

// Infer implements [ir.Operator].
func (o *Sub) Infer(c *ir.InferContext) error {
	return elementwise.InferBinary(c, o.AxisBroadcast, c.Elem(0), ir.Dim.Sub)
}

// Run implements [ir.Operator].
func (o *Sub) Run(c *ir.Call) error {
	return elementwise.RunBinary(c, o.AxisBroadcast, subLoops, kit.GrainCheap)
}

func subLoop[T kit.RealNumber](dst, a, b []T) {
	n := len(dst)
	switch {
	case len(a) == n && len(b) == n:
		a, b = a[:n], b[:n]
		for i := range dst {
			dst[i] = a[i] - b[i]
		}
	case len(b) == 1 && len(a) == n:
		y := b[0]
		a = a[:n]
		for i := range dst {
			dst[i] = a[i] - y
		}
	default:
		x := a[0]
		if len(b) == 1 {
			kit.RepeatOf(dst, x-b[0])
			return
		}
		b = b[:n]
		for i := range dst {
			dst[i] = x - b[i]
		}
	}
}
