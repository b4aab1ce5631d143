package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Add adds two tensors; integers wrap around
// (https://onnx.ai/onnx/operators/onnx__Add.html).
type Add struct{ axisBroadcast }

var _ = register(Def{Name: "Add", Since: []int{1, 6, 7, 13, 14}, In: "A:T, B:T", Out: "C:T", Types: Types{"T": "@number"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &Add{readAxisBroadcast(a, opset)}
	})})

var addLoops = loopsOf(
	loop2Scalar(addLoop[int8]), loop2Scalar(addLoop[int16]), loop2Scalar(addLoop[int32]), loop2Scalar(addLoop[int64]),
	loop2Scalar(addLoop[uint8]), loop2Scalar(addLoop[uint16]), loop2Scalar(addLoop[uint32]), loop2Scalar(addLoop[uint64]),
	withBinary(loop2Scalar(addLoop[float32]), vec.AddF32, vec.AddScalarF32, vec.AddScalarF32), loop2Scalar(addLoop[float64]))

// Infer implements [ir.Operator].
func (o *Add) Infer(c *ir.InferContext) error {
	return inferBinary(c, o.axisBroadcast, c.Elem(0), ir.Dim.Add)
}

// Run implements [ir.Operator].
func (o *Add) Run(c *ir.Call) error {
	return runBinary(c, o.axisBroadcast, addLoops, grainCheap)
}

func addLoop[T realNumber](dst, a, b []T) {
	n := len(dst)
	switch {
	case len(a) == n && len(b) == n:
		a, b = a[:n], b[:n]
		for i := range dst {
			dst[i] = a[i] + b[i]
		}
	case len(b) == 1 && len(a) == n:
		y := b[0]
		a = a[:n]
		for i := range dst {
			dst[i] = a[i] + y
		}
	default:
		x := a[0]
		if len(b) == 1 {
			repeatOf(dst, x+b[0])
			return
		}
		b = b[:n]
		for i := range dst {
			dst[i] = x + b[i]
		}
	}
}
