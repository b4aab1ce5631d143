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

// ReduceL1 returns the sum of absolute values along axes
// (https://onnx.ai/onnx/operators/onnx__ReduceL1.html).
type ReduceL1 struct{ reduce.Reduction }

var _ = kit.Register(&kit.Def{Name: "ReduceL1", Since: kit.Versions{1, 11, 13, 18}, In: "data:T, axes:int64?",
	Out:   "reduced:T",
	Types: "T: uint32 uint64 int32 int64 @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ReduceL1{reduce.Read(a, opset, 18)}
	},
	Gradient: gradient.Reduced(
		func(b *gradient.Builder, v string) string { return b.Op("Abs", v) },
		func(b *gradient.Builder, v string) string { return v })})

// Infer implements [ir.Operator].
func (o *ReduceL1) Infer(c *ir.InferContext) error { return o.InferWith(c, c.Elem(0)) }

// Run implements [ir.Operator].
func (o *ReduceL1) Run(c *ir.Call) error { return o.RunWith(c, reduceL1Table) }

var reduceL1Table = reduce.Table{
	tensor.TypeFloat32: reduce.Either(l1Reducer[float32, float64](), fastL1Reducer()),
	tensor.TypeFloat64: reduce.With(l1Reducer[float64, float64]()),
	tensor.TypeInt32:   reduce.With(l1Reducer[int32, int32]()),
	tensor.TypeInt64:   reduce.With(l1Reducer[int64, int64]()),
	tensor.TypeUint32:  reduce.Bits(tensor.TypeInt32, reduce.With(reduce.SumReducer[int32, int32]())),
	tensor.TypeUint64:  reduce.Bits(tensor.TypeInt64, reduce.With(reduce.SumReducer[int64, int64]())),
}

func l1Reducer[T, A kit.RealNumber]() *reduce.Reducer[T, A] {
	return &reduce.Reducer[T, A]{
		Row: func(acc A, x []T) A {
			for _, v := range x {
				a := A(v)
				if a < 0 {
					a = -a
				}
				acc += a
			}
			return acc
		},
		Cols: func(acc []A, x []T) {
			x = x[:len(acc)]
			for i := range acc {
				a := A(x[i])
				if a < 0 {
					a = -a
				}
				acc[i] += a
			}
		},
		Merge: reduce.AddTwo[A],
		Done:  reduce.StoreAll[T, A],
	}
}

func fastL1Reducer() *reduce.Reducer[float32, float64] {
	r := l1Reducer[float32, float64]()
	short := r.Row
	r.Row = func(acc float64, x []float32) float64 {
		if len(x) < kit.ShortRow {
			return short(acc, x)
		}
		return acc + float64(vec.SumAbsF32(cpu.Active(), x))
	}
	r.Rows = func(dst, x []float32, n, first int) {
		vec.SumAbsRowsF32(cpu.Active(), dst, x, n, first)
	}
	r.Total = reduce.SumReducer[float32, float64]().Cols
	r.Join = reduce.JoinSums
	r.Load = func(dst, x []float32) { vec.AbsF32(cpu.Active(), dst, x) }
	r.Add = func(acc, x []float32) {
		var a [reduce.Block]float32
		vec.AbsF32(cpu.Active(), a[:len(x)], x)
		vec.AddF32(cpu.Active(), acc, acc, a[:len(x)])
	}
	return r
}
