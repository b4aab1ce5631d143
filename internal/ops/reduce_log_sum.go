package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// ReduceLogSum computes the logarithm of the sum along axes; that of integers is cut off
// (https://onnx.ai/onnx/operators/onnx__ReduceLogSum.html).
type ReduceLogSum struct{ reduction }

var _ = register(Def{Name: "ReduceLogSum", Since: []int{1, 11, 13, 18, 28}, In: "data:T, axes:int64?", Out: "reduced:T",
	Types: Types{"T": "uint32 uint64 int32 int64 @float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &ReduceLogSum{readReduction(a, opset, 18)}
	})})

// Infer implements [ir.Operator].
func (o *ReduceLogSum) Infer(c *ir.InferContext) error { return o.infer(c, c.Elem(0)) }

// Run implements [ir.Operator].
func (o *ReduceLogSum) Run(c *ir.Call) error { return o.run(c, reduceLogSumTable) }

var reduceLogSumTable = reduceTable{
	tensor.TypeFloat32: reduceEither(logSumReducer[float32](), fastLogSumReducer()),
	tensor.TypeFloat64: reduceWith(logSumReducer[float64]()),
	tensor.TypeInt32:   reduceWith(logSumReducer[int32]()),
	tensor.TypeInt64:   reduceWith(logSumReducer[int64]()),
	tensor.TypeUint32:  reduceWith(logSumReducer[uint32]()),
	tensor.TypeUint64:  reduceWith(logSumReducer[uint64]()),
}

func logSumReducer[T realNumber]() reducer[T, float64] {
	return withDone(sumReducer[T, float64](), func(dst []T, acc []float64, n int) {
		for i, a := range acc {
			dst[i] = T(math.Log(a))
		}
	})
}

func fastLogSumReducer() reducer[float32, float64] {
	r := withDone(fastSumReducer(), func(dst []float32, acc []float64, n int) {
		for i, a := range acc {
			dst[i] = float32(a)
		}
		vec.LogF32(cpu.Active(), dst, dst)
	})
	r.rows = func(dst, x []float32, n, first int) {
		vec.SumRowsF32(cpu.Active(), dst, x, n, first)
		vec.LogF32(cpu.Active(), dst, dst)
	}
	return r
}
