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

// ReduceMax returns the maximum along axes. NaN propagates, and true is greater than false
// (https://onnx.ai/onnx/operators/onnx__ReduceMax.html).
type ReduceMax struct{ reduce.Reduction }

var _ = kit.Register(&kit.Def{Name: "ReduceMax", Since: kit.Versions{1, 11, 12, 13, 18, 20}, In: "data:T, axes:int64?",
	Out:   "reduced:T",
	Types: "T: uint32 uint64 int32 int64 @float uint8 int8 bool",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ReduceMax{reduce.Read(a, opset, 18)}
	},
	Gradient: gradient.Extreme})

// Infer implements [ir.Operator].
func (o *ReduceMax) Infer(c *ir.InferContext) error { return o.InferWith(c, c.Elem(0)) }

// Run implements [ir.Operator].
func (o *ReduceMax) Run(c *ir.Call) error { return o.RunWith(c, reduceMaxTable) }

var reduceMaxTable = reduce.Table{
	tensor.TypeFloat32: reduce.Either(maxReducer(float32(math.Inf(-1))), fastMaxReducer()),
	tensor.TypeFloat64: reduce.Either(maxReducer(math.Inf(-1)),
		reduce.WithFolds(maxReducer(math.Inf(-1)), vec.ReduceMaxF64, vec.MaxF64)),
	tensor.TypeInt32: reduce.Either(maxReducer[int32](math.MinInt32),
		reduce.WithFolds(maxReducer[int32](math.MinInt32), vec.ReduceMaxI32, vec.MaxI32)),
	tensor.TypeInt64: reduce.Either(maxReducer[int64](math.MinInt64),
		reduce.WithFolds(maxReducer[int64](math.MinInt64), vec.ReduceMaxI64, vec.MaxI64)),
	tensor.TypeUint64: reduce.Unsigned(maxReducer[uint64](0)),
	tensor.TypeInt8: reduce.Signed(maxReducer[int8](math.MinInt8),
		reduce.WithFolds(maxReducer[int8](math.MinInt8), vec.ReduceMaxI8, vec.MaxI8)),
	tensor.TypeUint8: reduce.Either(maxReducer[uint8](0),
		reduce.WithFolds(maxReducer[uint8](0), vec.ReduceMaxU8, vec.MaxU8)),
	tensor.TypeBool: reduce.Bools(reduce.WithFolds(maxReducer[uint8](0), vec.ReduceMaxU8, vec.MaxU8)),
}

// maxReducer computes the maximum; NaN propagates.
func maxReducer[T kit.RealNumber](init T) *reduce.Reducer[T, T] {
	return &reduce.Reducer[T, T]{
		Init: init,
		Row: func(acc T, x []T) T {
			for _, v := range x {
				acc = max(acc, v)
			}
			return acc
		},
		Cols: func(acc []T, x []T) {
			x = x[:len(acc)]
			for i := range acc {
				acc[i] = max(acc[i], x[i])
			}
		},
		Merge: func(a, b T) T { return max(a, b) },
		Done:  reduce.StoreAll[T, T],
	}
}

func fastMaxReducer() *reduce.Reducer[float32, float32] {
	r := maxReducer(float32(math.Inf(-1)))
	r.Row = func(acc float32, x []float32) float32 { return max(acc, vec.ReduceMaxF32(cpu.Active(), x)) }
	r.Rows = maxRows
	r.Cols = func(acc, x []float32) { vec.MaxF32(cpu.Active(), acc, acc, x) }
	r.Add = r.Cols
	r.Stack = func(dst, x []float32, n, step int, fresh bool) {
		vec.MaxWindowF32(cpu.Active(), dst, x, n, step, 1, 0, 1, fresh)
	}
	return r
}

// maxRows stores the maxima of rows of n elements, from the first given one on.
func maxRows(dst, x []float32, n, first int) { vec.MaxRowsF32(cpu.Active(), dst, x, n, first) }
