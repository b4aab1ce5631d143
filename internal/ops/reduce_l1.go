package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// ReduceL1 adds the absolute values of the elements along axes
// (https://onnx.ai/onnx/operators/onnx__ReduceL1.html).
type ReduceL1 struct{ reduction }

var _ = register(Def{Name: "ReduceL1", Since: []int{1, 11, 13, 18}, In: "data:T, axes:int64?", Out: "reduced:T",
	Types: Types{"T": "uint32 uint64 int32 int64 @float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &ReduceL1{readReduction(a, opset, 18)}
	})})

// Infer implements [ir.Operator].
func (o *ReduceL1) Infer(c *ir.InferContext) error { return o.infer(c, c.Elem(0)) }

// Run implements [ir.Operator].
func (o *ReduceL1) Run(c *ir.Call) error { return o.run(c, reduceL1Table) }

var reduceL1Table = reduceTable{
	tensor.TypeFloat32: reduceEither(l1Reducer[float32, float64](), fastL1Reducer()),
	tensor.TypeFloat64: reduceWith(l1Reducer[float64, float64]()),
	tensor.TypeInt32:   reduceWith(l1Reducer[int32, int32]()),
	tensor.TypeInt64:   reduceWith(l1Reducer[int64, int64]()),
	tensor.TypeUint32:  reduceWith(l1Reducer[uint32, uint32]()),
	tensor.TypeUint64:  reduceWith(l1Reducer[uint64, uint64]()),
}

func l1Reducer[T, A realNumber]() reducer[T, A] {
	return reducer[T, A]{
		row: func(acc A, x []T) A {
			for _, v := range x {
				a := A(v)
				if a < 0 {
					a = -a
				}
				acc += a
			}
			return acc
		},
		cols: func(acc []A, x []T) {
			x = x[:len(acc)]
			for i := range acc {
				a := A(x[i])
				if a < 0 {
					a = -a
				}
				acc[i] += a
			}
		},
		merge: addTwo[A],
		done:  storeAll[T, A],
	}
}

func fastL1Reducer() reducer[float32, float64] {
	r := l1Reducer[float32, float64]()
	short := r.row
	r.row = func(acc float64, x []float32) float64 {
		if len(x) < shortRow {
			return short(acc, x)
		}
		return acc + float64(vec.SumAbsF32(cpu.Active(), x))
	}
	r.rows = func(dst, x []float32, n, first int) {
		vec.SumAbsRowsF32(cpu.Active(), dst, x, n, first)
	}
	r.total = sumReducer[float32, float64]().cols
	r.load = func(dst, x []float32) { vec.AbsF32(cpu.Active(), dst, x) }
	r.add = func(acc, x []float32) {
		var a [reduceBlock]float32
		vec.AbsF32(cpu.Active(), a[:len(x)], x)
		vec.AddF32(cpu.Active(), acc, acc, a[:len(x)])
	}
	return r
}
