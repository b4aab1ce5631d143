package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Sub subtracts the second tensor from the first; integers wrap around
// (https://onnx.ai/onnx/operators/onnx__Sub.html).
type Sub struct{ axisBroadcast }

var _ = register(Def{Name: "Sub", Since: []int{1, 6, 7, 13, 14}, In: "A:T, B:T", Out: "C:T", Types: Types{"T": "@number"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &Sub{readAxisBroadcast(a, opset)}
	})})

var subLoops = loopsOf(
	loop2Scalar(subLoop[int8]), loop2Scalar(subLoop[int16]), loop2Scalar(subLoop[int32]), loop2Scalar(subLoop[int64]),
	loop2Scalar(subLoop[uint8]), loop2Scalar(subLoop[uint16]), loop2Scalar(subLoop[uint32]), loop2Scalar(subLoop[uint64]),
	withBinary(loop2Scalar(subLoop[float32]), vec.SubF32, vec.SubScalarF32, vec.ScalarSubF32), loop2Scalar(subLoop[float64]))

// Infer implements [ir.Operator].
func (o *Sub) Infer(c *ir.InferContext) error {
	return inferBinary(c, o.axisBroadcast, c.Elem(0), ir.Dim.Sub)
}

// Run implements [ir.Operator].
func (o *Sub) Run(c *ir.Call) error {
	return runBinary(c, o.axisBroadcast, subLoops, grainCheap)
}

func subLoop[T realNumber](dst, a, b []T) {
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
			repeatOf(dst, x-b[0])
			return
		}
		b = b[:n]
		for i := range dst {
			dst[i] = x - b[i]
		}
	}
}
