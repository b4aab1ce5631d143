package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// ReduceMean returns the mean along axes, truncated for integers. Integers of 32 bits are added in
// 64 bits
// (https://onnx.ai/onnx/operators/onnx__ReduceMean.html).
type ReduceMean struct{ reduce.Reduction }

var _ = kit.Register(&kit.Def{Name: "ReduceMean", Since: kit.Versions{1, 11, 13, 18}, In: "data:T, axes:int64?",
	Out:   "reduced:T",
	Types: "T: uint32 uint64 int32 int64 @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ReduceMean{reduce.Read(a, opset, 18)}
	},
	Gradient: gradient.Sum(true)})

// Infer implements [ir.Operator].
func (o *ReduceMean) Infer(c *ir.InferContext) error { return o.InferWith(c, c.Elem(0)) }

// Run implements [ir.Operator].
func (o *ReduceMean) Run(c *ir.Call) error { return o.RunWith(c, reduceMeanTable) }

var reduceMeanTable = reduce.Table{
	tensor.TypeFloat32: reduce.Either(meanReducer(reduce.SumReducer[float32, float64]()), fastMeanReducer()),
	tensor.TypeFloat64: reduce.Either(meanReducer(reduce.SumReducer[float64, float64]()),
		meanReducer(reduce.WithFolds(reduce.SumReducer[float64, float64](), vec.SumF64, vec.AddF64))),
	tensor.TypeInt64: reduce.Either(meanOfInts[int64](),
		reduce.WithFolds(meanOfInts[int64](), vec.SumI64, vec.AddI64)),
	tensor.TypeUint64: reduce.Unsigned(meanOfInts[uint64]()),
}

func meanReducer[T kit.FloatNumber](r *reduce.Reducer[T, float64]) *reduce.Reducer[T, float64] {
	return reduce.WithDone(r, func(dst []T, acc []float64, n int) {
		for i, a := range acc {
			dst[i] = T(a / float64(n))
		}
	})
}

// fastMeanReducer computes the mean with vector kernels.
func fastMeanReducer() *reduce.Reducer[float32, float64] {
	r := reduce.FastSumReducer()
	convert := r.Done
	r.Done = func(dst []float32, acc []float64, n int) {
		divide(acc, float64(n))
		convert(dst, acc, n)
	}
	r.Rows = meanRows
	return r
}

// divide divides the elements of x by n.
func divide(x []float64, n float64) {
	var divisors [64]float64
	for i := range divisors[:min(len(x), len(divisors))] {
		divisors[i] = n
	}
	for len(x) >= kit.ShortRow {
		part := x[:min(len(x), len(divisors))]
		vec.DivF64(cpu.Active(), part, part, divisors[:len(part)])
		x = x[len(part):]
	}
	for i := range x {
		x[i] /= n
	}
}

// meanRows stores the means of rows of n elements, from the first given one on.
func meanRows(dst, x []float32, n, first int) {
	vec.SumRowsF32(cpu.Active(), dst, x, n, first)
	vec.DivScalarF32(cpu.Active(), dst, dst, float32(n))
}

func meanOfInts[T kit.IntNumber]() *reduce.Reducer[T, T] {
	return reduce.WithDone(reduce.SumReducer[T, T](), func(dst, acc []T, n int) {
		for i, a := range acc {
			dst[i] = 0
			if n > 0 {
				dst[i] = a / T(n)
			}
		}
	})
}
