package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// ReduceMin returns the minimum along axes. NaN propagates, and true is greater than false
// (https://onnx.ai/onnx/operators/onnx__ReduceMin.html).
type ReduceMin struct{ reduce.Reduction }

var _ = kit.Register(&kit.Def{Name: "ReduceMin", Since: kit.Versions{1, 11, 12, 13, 18, 20}, In: "data:T, axes:int64?",
	Out:   "reduced:T",
	Types: "T: uint32 uint64 int32 int64 @float uint8 int8 bool",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ReduceMin{reduce.Read(a, opset, 18)}
	},
	Gradient: gradient.Extreme})

// Infer implements [ir.Operator].
func (o *ReduceMin) Infer(c *ir.InferContext) error { return o.InferWith(c, c.Elem(0)) }

// Run implements [ir.Operator].
func (o *ReduceMin) Run(c *ir.Call) error { return o.RunWith(c, reduceMinTable) }

var reduceMinTable = reduce.Table{
	tensor.TypeFloat32: reduce.Either(minReducer(float32(math.Inf(1))), fastMinReducer()),
	tensor.TypeFloat64: reduce.Either(minReducer(math.Inf(1)),
		reduce.WithFolds(minReducer(math.Inf(1)), vec.ReduceMinF64, vec.MinF64)),
	tensor.TypeInt32: reduce.Either(minReducer[int32](math.MaxInt32),
		reduce.WithFolds(minReducer[int32](math.MaxInt32), vec.ReduceMinI32, vec.MinI32)),
	tensor.TypeInt64: reduce.Either(minReducer[int64](math.MaxInt64),
		reduce.WithFolds(minReducer[int64](math.MaxInt64), vec.ReduceMinI64, vec.MinI64)),
	tensor.TypeUint64: reduce.Unsigned(minReducer[uint64](math.MaxUint64)),
	tensor.TypeInt8: reduce.Signed(minReducer[int8](math.MaxInt8),
		reduce.WithFolds(minReducer[int8](math.MaxInt8), vec.ReduceMinI8, vec.MinI8)),
	tensor.TypeUint8: reduce.Either(minReducer[uint8](math.MaxUint8),
		reduce.WithFolds(minReducer[uint8](math.MaxUint8), vec.ReduceMinU8, vec.MinU8)),
	tensor.TypeBool: reduce.Bools(reduce.WithFolds(minReducer[uint8](1), vec.ReduceMinU8, vec.MinU8)),
}

// minReducer computes the minimum; NaN propagates.
func minReducer[T kit.RealNumber](init T) *reduce.Reducer[T, T] {
	return &reduce.Reducer[T, T]{
		Init: init,
		Row: func(acc T, x []T) T {
			for _, v := range x {
				acc = min(acc, v)
			}
			return acc
		},
		Cols: func(acc []T, x []T) {
			x = x[:len(acc)]
			for i := range acc {
				acc[i] = min(acc[i], x[i])
			}
		},
		Merge: func(a, b T) T { return min(a, b) },
		Done:  reduce.StoreAll[T, T],
	}
}

func fastMinReducer() *reduce.Reducer[float32, float32] {
	r := minReducer(float32(math.Inf(1)))
	r.Row = func(acc float32, x []float32) float32 { return min(acc, vec.ReduceMinF32(cpu.Active(), x)) }
	r.Rows = func(dst, x []float32, n, first int) {
		vec.MinRowsF32(cpu.Active(), dst, x, n, first)
	}
	r.Cols = func(acc, x []float32) { vec.MinF32(cpu.Active(), acc, acc, x) }
	r.Add = r.Cols
	r.Stack = func(dst, x []float32, n, step int, fresh bool) {
		vec.MinWindowF32(cpu.Active(), dst, x, n, step, 1, 0, 1, fresh)
	}
	return r
}
