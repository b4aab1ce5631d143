package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// ReduceLogSum returns the logarithm of the sum along axes, truncated for integers
// (https://onnx.ai/onnx/operators/onnx__ReduceLogSum.html).
type ReduceLogSum struct{ kit.Reduction }

var _ = kit.Register(&kit.Def{Name: "ReduceLogSum", Since: kit.Versions{1, 11, 13, 18, 28}, In: "data:T, axes:int64?", Out: "reduced:T",
	Types: "T: uint32 uint64 int32 int64 @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ReduceLogSum{kit.ReadReduction(a, opset, 18)}
	},
	Gradient: kit.ReducedGradient(
		func(b *kit.GradientBuilder, v string) string { return v },
		func(b *kit.GradientBuilder, v string) string { return b.Op("Log", v) })})

// Infer implements [ir.Operator].
func (o *ReduceLogSum) Infer(c *ir.InferContext) error { return o.InferWith(c, c.Elem(0)) }

// Run implements [ir.Operator].
func (o *ReduceLogSum) Run(c *ir.Call) error { return o.RunWith(c, reduceLogSumTable) }

var reduceLogSumTable = kit.ReduceTable{
	tensor.TypeFloat32: kit.ReduceEither(logSumReducer[float32](), fastLogSumReducer()),
	tensor.TypeFloat64: kit.ReduceWith(logSumReducer[float64]()),
}

func logSumReducer[T kit.FloatNumber]() *kit.Reducer[T, float64] {
	return kit.WithDone(kit.SumReducer[T, float64](), func(dst []T, acc []float64, n int) {
		for i, a := range acc {
			dst[i] = T(vec.Log(a))
		}
	})
}

func fastLogSumReducer() *kit.Reducer[float32, float64] {
	r := kit.WithDone(kit.FastSumReducer(), func(dst []float32, acc []float64, n int) {
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
