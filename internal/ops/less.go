package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// Less tells where the first input is less than the second
// (https://onnx.ai/onnx/operators/onnx__Less.html).
type Less struct{ axisBroadcast }

var _ = register(Def{Name: "Less", Since: []int{1, 7, 9, 13}, In: "A:T, B:T", Out: "C:T1", Types: Types{"T": "@number", "T1": "bool"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &Less{readAxisBroadcast(a, opset)}
	})})

var lessLoops = loopsOf(
	loop2(lessLoop[int8]), loop2(lessLoop[int16]), withCompare(loop2(lessLoop[int32]), vec.LessI32, false), withCompare(loop2(lessLoop[int64]), vec.LessI64, false),
	loop2(lessLoop[uint8]), loop2(lessLoop[uint16]), loop2(lessLoop[uint32]), loop2(lessLoop[uint64]),
	withCompare(loop2(lessLoop[float32]), vec.LessF32, false), loop2(lessLoop[float64]))

// Infer implements [ir.Operator].
func (o *Less) Infer(c *ir.InferContext) error {
	return inferBinary(c, o.axisBroadcast, tensor.TypeBool, nil)
}

// Run implements [ir.Operator].
func (o *Less) Run(c *ir.Call) error {
	return runBinary(c, o.axisBroadcast, lessLoops, grainCheap)
}

func lessLoop[T realNumber](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] < b[i]
	}
}
