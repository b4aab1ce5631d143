package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// ReduceL1 returns the sum of absolute values along axes
// (https://onnx.ai/onnx/operators/onnx__ReduceL1.html).
type ReduceL1 struct{ kit.Reduction }

var _ = kit.Register(&kit.Def{Name: "ReduceL1", Since: kit.Versions{1, 11, 13, 18}, In: "data:T, axes:int64?", Out: "reduced:T",
	Types: "T: uint32 uint64 int32 int64 @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ReduceL1{kit.ReadReduction(a, opset, 18)}
	},
	Gradient: kit.ReducedGradient(
		func(b *kit.GradientBuilder, v string) string { return b.Op("Abs", v) },
		func(b *kit.GradientBuilder, v string) string { return v })})

// Infer implements [ir.Operator].
func (o *ReduceL1) Infer(c *ir.InferContext) error { return o.InferWith(c, c.Elem(0)) }

// Run implements [ir.Operator].
func (o *ReduceL1) Run(c *ir.Call) error { return o.RunWith(c, reduceL1Table) }

var reduceL1Table = kit.ReduceTable{
	tensor.TypeFloat32: kit.ReduceEither(l1Reducer[float32, float64](), fastL1Reducer()),
	tensor.TypeFloat64: kit.ReduceWith(l1Reducer[float64, float64]()),
	tensor.TypeInt32:   kit.ReduceWith(l1Reducer[int32, int32]()),
	tensor.TypeInt64:   kit.ReduceWith(l1Reducer[int64, int64]()),
	tensor.TypeUint32:  kit.ReduceBits(tensor.TypeInt32, kit.ReduceWith(kit.SumReducer[int32, int32]())),
	tensor.TypeUint64:  kit.ReduceBits(tensor.TypeInt64, kit.ReduceWith(kit.SumReducer[int64, int64]())),
}

func l1Reducer[T, A kit.RealNumber]() *kit.Reducer[T, A] {
	return &kit.Reducer[T, A]{
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
		Merge: kit.AddTwo[A],
		Done:  kit.StoreAll[T, A],
	}
}

func fastL1Reducer() *kit.Reducer[float32, float64] {
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
	r.Total = kit.SumReducer[float32, float64]().Cols
	r.Join = kit.JoinSums
	r.Load = func(dst, x []float32) { vec.AbsF32(cpu.Active(), dst, x) }
	r.Add = func(acc, x []float32) {
		var a [kit.ReduceBlock]float32
		vec.AbsF32(cpu.Active(), a[:len(x)], x)
		vec.AddF32(cpu.Active(), acc, acc, a[:len(x)])
	}
	return r
}
