package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Div divides the first tensor by the second; integers are cut off towards 0,
// and a zero divisor of integers is an error
// (https://onnx.ai/onnx/operators/onnx__Div.html).
type Div struct{ axisBroadcast }

var _ = register(Def{Name: "Div", Since: []int{1, 6, 7, 13, 14}, In: "A:T, B:T", Out: "C:T", Types: Types{"T": "@number"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &Div{readAxisBroadcast(a, opset)}
	})})

var divLoops = loopsOf(
	loop2Scalar(divLoop[int8]), loop2Scalar(divLoop[int16]), loop2Scalar(divLoop[int32]), loop2Scalar(divLoop[int64]),
	loop2Scalar(divLoop[uint8]), loop2Scalar(divLoop[uint16]), loop2Scalar(divLoop[uint32]), loop2Scalar(divLoop[uint64]),
	withBinary(loop2Scalar(divLoop[float32]), vec.DivF32, vec.DivScalarF32, vec.ScalarDivF32), loop2Scalar(divLoop[float64]))

// Infer implements [ir.Operator].
func (o *Div) Infer(c *ir.InferContext) error {
	return inferBinary(c, o.axisBroadcast, c.Elem(0), divDim)
}

// divDim is the quotient of two elements of a shape value; that of negative
// numbers, which ONNX cuts off and Dim rounds down, is known for numbers only.
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
		if err := refuseZeroDivisor(c.Tensor(1)); err != nil {
			return err
		}
	}
	return runBinary(c, o.axisBroadcast, divLoops, grainCheap)
}

func divLoop[T realNumber](dst, a, b []T) {
	n := len(dst)
	switch {
	case len(a) == n && len(b) == n:
		a, b = a[:n], b[:n]
		for i := range dst {
			dst[i] = a[i] / b[i]
		}
	case len(b) == 1 && len(a) == n:
		y := b[0]
		a = a[:n]
		for i := range dst {
			dst[i] = a[i] / y
		}
	default:
		x := a[0]
		if len(b) == 1 {
			repeatOf(dst, x/b[0])
			return
		}
		b = b[:n]
		for i := range dst {
			dst[i] = x / b[i]
		}
	}
}
