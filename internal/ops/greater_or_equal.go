package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// GreaterOrEqual tells where the first input is at least the second
// (https://onnx.ai/onnx/operators/onnx__GreaterOrEqual.html).
type GreaterOrEqual struct{ axisBroadcast }

var _ = register(Def{Name: "GreaterOrEqual", Since: []int{12, 16}, In: "A:T, B:T", Out: "C:T1", Types: Types{"T": "@number", "T1": "bool"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &GreaterOrEqual{readAxisBroadcast(a, opset)}
	})})

var greaterOrEqualLoops = loopsOf(
	loop2(greaterOrEqualLoop[int8]), loop2(greaterOrEqualLoop[int16]), withCompare(loop2(greaterOrEqualLoop[int32]), vec.LessOrEqualI32, true), withCompare(loop2(greaterOrEqualLoop[int64]), vec.LessOrEqualI64, true),
	loop2(greaterOrEqualLoop[uint8]), loop2(greaterOrEqualLoop[uint16]), loop2(greaterOrEqualLoop[uint32]), loop2(greaterOrEqualLoop[uint64]),
	withCompare(loop2(greaterOrEqualLoop[float32]), vec.LessOrEqualF32, true), loop2(greaterOrEqualLoop[float64]))

// Infer implements [ir.Operator].
func (o *GreaterOrEqual) Infer(c *ir.InferContext) error {
	return inferBinary(c, o.axisBroadcast, tensor.TypeBool, nil)
}

// Run implements [ir.Operator].
func (o *GreaterOrEqual) Run(c *ir.Call) error {
	return runBinary(c, o.axisBroadcast, greaterOrEqualLoops, grainCheap)
}

func greaterOrEqualLoop[T realNumber](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] >= b[i]
	}
}
