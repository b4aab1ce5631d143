package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// LessOrEqual tells where the first input is at most the second
// (https://onnx.ai/onnx/operators/onnx__LessOrEqual.html).
type LessOrEqual struct{ axisBroadcast }

var _ = register(Def{Name: "LessOrEqual", Since: []int{12, 16}, In: "A:T, B:T", Out: "C:T1", Types: Types{"T": "@number", "T1": "bool"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &LessOrEqual{readAxisBroadcast(a, opset)}
	})})

var lessOrEqualLoops = loopsOf(
	loop2(lessOrEqualLoop[int8]), loop2(lessOrEqualLoop[int16]), withCompare(loop2(lessOrEqualLoop[int32]), vec.LessOrEqualI32, false), withCompare(loop2(lessOrEqualLoop[int64]), vec.LessOrEqualI64, false),
	loop2(lessOrEqualLoop[uint8]), loop2(lessOrEqualLoop[uint16]), loop2(lessOrEqualLoop[uint32]), loop2(lessOrEqualLoop[uint64]),
	withCompare(loop2(lessOrEqualLoop[float32]), vec.LessOrEqualF32, false), loop2(lessOrEqualLoop[float64]))

// Infer implements [ir.Operator].
func (o *LessOrEqual) Infer(c *ir.InferContext) error {
	return inferBinary(c, o.axisBroadcast, tensor.TypeBool, nil)
}

// Run implements [ir.Operator].
func (o *LessOrEqual) Run(c *ir.Call) error {
	return runBinary(c, o.axisBroadcast, lessOrEqualLoops, grainCheap)
}

func lessOrEqualLoop[T realNumber](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] <= b[i]
	}
}
