package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// ReduceL2 computes the square root of the sum of squares along axes; that of integers
// is cut off
// (https://onnx.ai/onnx/operators/onnx__ReduceL2.html).
type ReduceL2 struct{ reduction }

var _ = register(Def{Name: "ReduceL2", Since: []int{1, 11, 13, 18}, In: "data:T, axes:int64?", Out: "reduced:T",
	Types: Types{"T": "uint32 uint64 int32 int64 @float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &ReduceL2{readReduction(a, opset, 18)}
	})})

// Infer implements [ir.Operator].
func (o *ReduceL2) Infer(c *ir.InferContext) error { return o.infer(c, c.Elem(0)) }

// Run implements [ir.Operator].
func (o *ReduceL2) Run(c *ir.Call) error { return o.run(c, reduceL2Table) }

var reduceL2Table = reduceTable{
	tensor.TypeFloat32: reduceWith(l2Reducer[float32]()),
	tensor.TypeFloat64: reduceWith(l2Reducer[float64]()),
	tensor.TypeInt32:   reduceWith(l2Reducer[int32]()),
	tensor.TypeInt64:   reduceWith(l2Reducer[int64]()),
	tensor.TypeUint32:  reduceWith(l2Reducer[uint32]()),
	tensor.TypeUint64:  reduceWith(l2Reducer[uint64]()),
}

func l2Reducer[T realNumber]() reducer[T, float64] {
	return withDone(sumSquaresReducer[T, float64](), func(dst []T, acc []float64, n int) {
		for i, a := range acc {
			dst[i] = T(math.Sqrt(a))
		}
	})
}
