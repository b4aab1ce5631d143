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

// ReduceSumSquare returns the sum of squares along axes
// (https://onnx.ai/onnx/operators/onnx__ReduceSumSquare.html).
type ReduceSumSquare struct{ reduce.Reduction }

var _ = kit.Register(&kit.Def{Name: "ReduceSumSquare", Since: kit.Versions{1, 11, 13, 18}, In: "data:T, axes:int64?",
	Out:   "reduced:T",
	Types: "T: uint32 uint64 int32 int64 @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ReduceSumSquare{reduce.Read(a, opset, 18)}
	},
	Gradient: gradient.Reduced(
		func(b *gradient.Builder, v string) string { return b.Op("Mul", v, v) },
		func(b *gradient.Builder, v string) string { return v })})

// Infer implements [ir.Operator].
func (o *ReduceSumSquare) Infer(c *ir.InferContext) error { return o.InferWith(c, c.Elem(0)) }

// Run implements [ir.Operator].
func (o *ReduceSumSquare) Run(c *ir.Call) error { return o.RunWith(c, reduceSumSquareTable) }

var reduceSumSquareTable = reduce.Table{
	tensor.TypeFloat32: reduce.Either(reduce.SumSquaresReducer[float32, float64](), fastSumSquaresReducer()),
	tensor.TypeFloat64: reduce.Either(reduce.SumSquaresReducer[float64, float64](),
		reduce.WithSquares(reduce.SumSquaresReducer[float64, float64]())),
	tensor.TypeInt32:  reduce.With(reduce.SumSquaresReducer[int32, int32]()),
	tensor.TypeInt64:  reduce.With(reduce.SumSquaresReducer[int64, int64]()),
	tensor.TypeUint32: reduce.Bits(tensor.TypeInt32, reduce.With(reduce.SumSquaresReducer[int32, int32]())),
	tensor.TypeUint64: reduce.Bits(tensor.TypeInt64, reduce.With(reduce.SumSquaresReducer[int64, int64]())),
}

func fastSumSquaresReducer() *reduce.Reducer[float32, float64] {
	r := reduce.SumSquaresReducer[float32, float64]()
	short := r.Row
	r.Row = func(acc float64, x []float32) float64 {
		if len(x) < kit.ShortRow {
			return short(acc, x)
		}
		return acc + float64(vec.SumSquaresF32(cpu.Active(), x, 0))
	}
	r.Rows = func(dst, x []float32, n, first int) {
		vec.SumSquaresRowsF32(cpu.Active(), dst, x, n, first)
	}
	r.Load = func(dst, x []float32) { vec.MulF32(cpu.Active(), dst, x, x) }
	r.Add = func(acc, x []float32) { vec.MulAddF32(cpu.Active(), acc, x, x, acc) }
	r.Total = reduce.SumReducer[float32, float64]().Cols
	r.Join = reduce.JoinSums
	return r
}
