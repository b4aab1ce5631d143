package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// ReduceMean computes the mean of the elements along axes; that of integers is cut off
// (https://onnx.ai/onnx/operators/onnx__ReduceMean.html).
type ReduceMean struct{ reduction }

var _ = register(Def{Name: "ReduceMean", Since: []int{1, 11, 13, 18}, In: "data:T, axes:int64?", Out: "reduced:T",
	Types: Types{"T": "uint32 uint64 int32 int64 @float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &ReduceMean{readReduction(a, opset, 18)}
	})})

// Infer implements [ir.Operator].
func (o *ReduceMean) Infer(c *ir.InferContext) error { return o.infer(c, c.Elem(0)) }

// Run implements [ir.Operator].
func (o *ReduceMean) Run(c *ir.Call) error { return o.run(c, reduceMeanTable) }

var reduceMeanTable = reduceTable{
	tensor.TypeFloat32: reduceEither(meanReducer(sumReducer[float32, float64]()), fastMeanReducer()),
	tensor.TypeFloat64: reduceEither(meanReducer(sumReducer[float64, float64]()), meanReducer(withFolds(sumReducer[float64, float64](), vec.SumF64, vec.AddF64))),
	tensor.TypeInt32:   reduceEither(meanOfInts[int32](), withFolds(meanOfInts[int32](), vec.SumI32, vec.AddI32)),
	tensor.TypeInt64:   reduceEither(meanOfInts[int64](), withFolds(meanOfInts[int64](), vec.SumI64, vec.AddI64)),
	tensor.TypeUint32:  reduceWith(meanOfInts[uint32]()),
	tensor.TypeUint64:  reduceWith(meanOfInts[uint64]()),
}

func meanReducer[T floatNumber](r reducer[T, float64]) reducer[T, float64] {
	return withDone(r, func(dst []T, acc []float64, n int) {
		for i, a := range acc {
			dst[i] = T(a / float64(n))
		}
	})
}

// meanOfInts divides a sum of integers; the mean of none is 0.
func fastMeanReducer() reducer[float32, float64] {
	r := meanReducer(fastSumReducer())
	r.rows = func(dst, x []float32, n, first int) {
		vec.SumRowsF32(cpu.Active(), dst, x, n, first)
		vec.DivScalarF32(cpu.Active(), dst, dst, float32(n))
	}
	return r
}

func meanOfInts[T intNumber]() reducer[T, T] {
	return withDone(sumReducer[T, T](), func(dst []T, acc []T, n int) {
		for i, a := range acc {
			dst[i] = 0
			if n > 0 {
				dst[i] = a / T(n)
			}
		}
	})
}
