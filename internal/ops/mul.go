package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Mul multiplies two tensors element by element; integers wrap around
// (https://onnx.ai/onnx/operators/onnx__Mul.html).
type Mul struct{ axisBroadcast }

var _ = register(Def{Name: "Mul", Since: []int{1, 6, 7, 13, 14}, In: "A:T, B:T", Out: "C:T", Types: Types{"T": "@number"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &Mul{readAxisBroadcast(a, opset)}
	})})

var mulLoops = loopsOf(
	loop2Scalar(mulLoop[int8]), loop2Scalar(mulLoop[int16]), loop2Scalar(mulLoop[int32]), loop2Scalar(mulLoop[int64]),
	loop2Scalar(mulLoop[uint8]), loop2Scalar(mulLoop[uint16]), loop2Scalar(mulLoop[uint32]), loop2Scalar(mulLoop[uint64]),
	withBinary(loop2Scalar(mulLoop[float32]), vec.MulF32, vec.MulScalarF32, vec.MulScalarF32), loop2Scalar(mulLoop[float64]))

// Infer implements [ir.Operator].
func (o *Mul) Infer(c *ir.InferContext) error {
	return inferBinary(c, o.axisBroadcast, c.Elem(0), ir.Dim.Mul)
}

// Run implements [ir.Operator].
func (o *Mul) Run(c *ir.Call) error {
	return runBinary(c, o.axisBroadcast, mulLoops, grainCheap)
}

func mulLoop[T realNumber](dst, a, b []T) {
	n := len(dst)
	switch {
	case len(a) == n && len(b) == n:
		a, b = a[:n], b[:n]
		for i := range dst {
			dst[i] = a[i] * b[i]
		}
	case len(b) == 1 && len(a) == n:
		y := b[0]
		a = a[:n]
		for i := range dst {
			dst[i] = a[i] * y
		}
	default:
		x := a[0]
		if len(b) == 1 {
			repeatOf(dst, x*b[0])
			return
		}
		b = b[:n]
		for i := range dst {
			dst[i] = x * b[i]
		}
	}
}
