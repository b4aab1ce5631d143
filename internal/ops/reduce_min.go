package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// ReduceMin finds the least element along axes; a NaN wins, and true is greater than
// false
// (https://onnx.ai/onnx/operators/onnx__ReduceMin.html).
type ReduceMin struct{ reduction }

var _ = register(Def{Name: "ReduceMin", Since: []int{1, 11, 12, 13, 18, 20}, In: "data:T, axes:int64?", Out: "reduced:T",
	Types: Types{"T": "uint32 uint64 int32 int64 @float uint8 int8 bool"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &ReduceMin{readReduction(a, opset, 18)}
	})})

// Infer implements [ir.Operator].
func (o *ReduceMin) Infer(c *ir.InferContext) error { return o.infer(c, c.Elem(0)) }

// Run implements [ir.Operator].
func (o *ReduceMin) Run(c *ir.Call) error { return o.run(c, reduceMinTable) }

var reduceMinTable = reduceTable{
	tensor.TypeFloat32: reduceEither(minReducer(float32(math.Inf(1))), fastMinReducer()),
	tensor.TypeFloat64: reduceEither(minReducer(math.Inf(1)), withFolds(minReducer(math.Inf(1)), vec.ReduceMinF64, vec.MinOfF64)),
	tensor.TypeInt32:   reduceEither(minReducer[int32](math.MaxInt32), withFolds(minReducer[int32](math.MaxInt32), vec.ReduceMinI32, vec.MinOfI32)),
	tensor.TypeInt64:   reduceEither(minReducer[int64](math.MaxInt64), withFolds(minReducer[int64](math.MaxInt64), vec.ReduceMinI64, vec.MinOfI64)),
	tensor.TypeUint32:  reduceWith(minReducer[uint32](math.MaxUint32)),
	tensor.TypeUint64:  reduceWith(minReducer[uint64](math.MaxUint64)),
	tensor.TypeInt8:    reduceWith(minReducer[int8](math.MaxInt8)),
	tensor.TypeUint8:   reduceWith(minReducer[uint8](math.MaxUint8)),
	tensor.TypeBool:    reduceBools(minReducer[uint8](1)),
}

// minReducer finds the least element; a NaN wins.
func minReducer[T realNumber](init T) reducer[T, T] {
	return reducer[T, T]{
		init: init,
		row: func(acc T, x []T) T {
			for _, v := range x {
				acc = min(acc, v)
			}
			return acc
		},
		cols: func(acc []T, x []T) {
			x = x[:len(acc)]
			for i := range acc {
				acc[i] = min(acc[i], x[i])
			}
		},
		merge: func(a, b T) T { return min(a, b) },
		done:  storeAll[T, T],
	}
}

func fastMinReducer() reducer[float32, float32] {
	r := minReducer(float32(math.Inf(1)))
	r.row = func(acc float32, x []float32) float32 { return min(acc, vec.ReduceMinF32(cpu.Active(), x)) }
	r.rows = func(dst, x []float32, n, first int) {
		vec.MinRowsF32(cpu.Active(), dst, x, n, first)
	}
	r.cols = func(acc, x []float32) { vec.MinF32(cpu.Active(), acc, acc, x) }
	return r
}
