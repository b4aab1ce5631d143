package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// ReduceSumSquare adds the squares of the elements along axes
// (https://onnx.ai/onnx/operators/onnx__ReduceSumSquare.html).
type ReduceSumSquare struct{ reduction }

var _ = register(Def{Name: "ReduceSumSquare", Since: []int{1, 11, 13, 18}, In: "data:T, axes:int64?", Out: "reduced:T",
	Types: Types{"T": "uint32 uint64 int32 int64 @float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &ReduceSumSquare{readReduction(a, opset, 18)}
	})})

// Infer implements [ir.Operator].
func (o *ReduceSumSquare) Infer(c *ir.InferContext) error { return o.infer(c, c.Elem(0)) }

// Run implements [ir.Operator].
func (o *ReduceSumSquare) Run(c *ir.Call) error { return o.run(c, reduceSumSquareTable) }

var reduceSumSquareTable = reduceTable{
	tensor.TypeFloat32: reduceEither(sumSquaresReducer[float32, float64](), fastSumSquaresReducer()),
	tensor.TypeFloat64: reduceWith(sumSquaresReducer[float64, float64]()),
	tensor.TypeInt32:   reduceWith(sumSquaresReducer[int32, int32]()),
	tensor.TypeInt64:   reduceWith(sumSquaresReducer[int64, int64]()),
	tensor.TypeUint32:  reduceWith(sumSquaresReducer[uint32, uint32]()),
	tensor.TypeUint64:  reduceWith(sumSquaresReducer[uint64, uint64]()),
}

func fastSumSquaresReducer() reducer[float32, float64] {
	r := sumSquaresReducer[float32, float64]()
	short := r.row
	r.row = func(acc float64, x []float32) float64 {
		if len(x) < shortRow {
			return short(acc, x)
		}
		return acc + float64(vec.SumSquaresF32(cpu.Active(), x, 0))
	}
	r.rows = func(dst, x []float32, n, first int) {
		vec.SumSquaresRowsF32(cpu.Active(), dst, x, n, first)
	}
	r.load = func(dst, x []float32) { vec.MulF32(cpu.Active(), dst, x, x) }
	r.add = func(acc, x []float32) { vec.MulAddF32(cpu.Active(), acc, x, x, acc) }
	r.total = sumReducer[float32, float64]().cols
	return r
}
