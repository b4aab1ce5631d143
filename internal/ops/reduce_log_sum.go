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

// ReduceLogSum returns the logarithm of the sum along axes, truncated for integers
// (https://onnx.ai/onnx/operators/onnx__ReduceLogSum.html).
type ReduceLogSum struct{ reduce.Reduction }

var _ = kit.Register(&kit.Def{Name: "ReduceLogSum", Since: kit.Versions{1, 11, 13, 18, 28}, In: "data:T, axes:int64?",
	Out:   "reduced:T",
	Types: "T: uint32 uint64 int32 int64 @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ReduceLogSum{reduce.Read(a, opset, 18)}
	},
	Gradient: gradient.Reduced(
		func(b *gradient.Builder, v string) string { return v },
		func(b *gradient.Builder, v string) string { return b.Op("Log", v) })})

// Infer implements [ir.Operator].
func (o *ReduceLogSum) Infer(c *ir.InferContext) error { return o.InferWith(c, c.Elem(0)) }

// Run implements [ir.Operator].
func (o *ReduceLogSum) Run(c *ir.Call) error { return o.RunWith(c, reduceLogSumTable) }

var reduceLogSumTable = reduce.Table{
	tensor.TypeFloat32: reduce.Either(logSumReducer[float32](), fastLogSumReducer()),
	tensor.TypeFloat64: reduce.With(logSumReducer[float64]()),
}

func logSumReducer[T kit.FloatNumber]() *reduce.Reducer[T, float64] {
	return reduce.WithDone(reduce.SumReducer[T, float64](), func(dst []T, acc []float64, n int) {
		for i, a := range acc {
			dst[i] = T(vec.Log(a))
		}
	})
}

func fastLogSumReducer() *reduce.Reducer[float32, float64] {
	r := reduce.WithDone(reduce.FastSumReducer(), func(dst []float32, acc []float64, n int) {
		for i, a := range acc {
			dst[i] = float32(a)
		}
		vec.LogF32(cpu.Active(), dst, dst)
	})
	r.Rows = func(dst, x []float32, n, first int) {
		vec.SumRowsF32(cpu.Active(), dst, x, n, first)
		vec.LogF32(cpu.Active(), dst, dst)
	}
	return r
}
