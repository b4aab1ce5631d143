package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// Greater tells where the first input is greater than the second
// (https://onnx.ai/onnx/operators/onnx__Greater.html).
type Greater struct{ axisBroadcast }

var _ = register(Def{Name: "Greater", Since: []int{1, 7, 9, 13}, In: "A:T, B:T", Out: "C:T1", Types: Types{"T": "@number", "T1": "bool"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &Greater{readAxisBroadcast(a, opset)}
	})})

var greaterLoops = loopsOf(
	loop2(greaterLoop[int8]), loop2(greaterLoop[int16]), withCompare(loop2(greaterLoop[int32]), vec.LessI32, true), withCompare(loop2(greaterLoop[int64]), vec.LessI64, true),
	loop2(greaterLoop[uint8]), loop2(greaterLoop[uint16]), loop2(greaterLoop[uint32]), loop2(greaterLoop[uint64]),
	withCompare(loop2(greaterLoop[float32]), vec.LessF32, true), loop2(greaterLoop[float64]))

// Infer implements [ir.Operator].
func (o *Greater) Infer(c *ir.InferContext) error {
	return inferBinary(c, o.axisBroadcast, tensor.TypeBool, nil)
}

// Run implements [ir.Operator].
func (o *Greater) Run(c *ir.Call) error {
	return runBinary(c, o.axisBroadcast, greaterLoops, grainCheap)
}

func greaterLoop[T realNumber](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] > b[i]
	}
}
