package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// ReduceSumSquare returns the sum of squares along axes
// (https://onnx.ai/onnx/operators/onnx__ReduceSumSquare.html).
type ReduceSumSquare struct{ kit.Reduction }

var _ = kit.Register(&kit.Def{Name: "ReduceSumSquare", Since: kit.Versions{1, 11, 13, 18}, In: "data:T, axes:int64?", Out: "reduced:T",
	Types: "T: uint32 uint64 int32 int64 @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ReduceSumSquare{kit.ReadReduction(a, opset, 18)}
	},
	Gradient: kit.ReducedGradient(
		func(b *kit.GradientBuilder, v string) string { return b.Op("Mul", v, v) },
		func(b *kit.GradientBuilder, v string) string { return v })})

// Infer implements [ir.Operator].
func (o *ReduceSumSquare) Infer(c *ir.InferContext) error { return o.InferWith(c, c.Elem(0)) }

// Run implements [ir.Operator].
func (o *ReduceSumSquare) Run(c *ir.Call) error { return o.RunWith(c, reduceSumSquareTable) }

var reduceSumSquareTable = kit.ReduceTable{
	tensor.TypeFloat32: kit.ReduceEither(kit.SumSquaresReducer[float32, float64](), fastSumSquaresReducer()),
	tensor.TypeFloat64: kit.ReduceEither(kit.SumSquaresReducer[float64, float64](), kit.WithSquares(kit.SumSquaresReducer[float64, float64]())),
	tensor.TypeInt32:   kit.ReduceWith(kit.SumSquaresReducer[int32, int32]()),
	tensor.TypeInt64:   kit.ReduceWith(kit.SumSquaresReducer[int64, int64]()),
	tensor.TypeUint32:  kit.ReduceBits(tensor.TypeInt32, kit.ReduceWith(kit.SumSquaresReducer[int32, int32]())),
	tensor.TypeUint64:  kit.ReduceBits(tensor.TypeInt64, kit.ReduceWith(kit.SumSquaresReducer[int64, int64]())),
}

func fastSumSquaresReducer() *kit.Reducer[float32, float64] {
	r := kit.SumSquaresReducer[float32, float64]()
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
	r.Total = kit.SumReducer[float32, float64]().Cols
	r.Join = kit.JoinSums
	return r
}
