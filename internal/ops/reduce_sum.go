package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// ReduceSum adds the elements along axes; integers wrap around
// (https://onnx.ai/onnx/operators/onnx__ReduceSum.html).
type ReduceSum struct{ reduction }

var _ = register(Def{Name: "ReduceSum", Since: []int{1, 11, 13}, In: "data:T, axes:int64?", Out: "reduced:T",
	Types: Types{"T": "uint32 uint64 int32 int64 @float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &ReduceSum{readReduction(a, opset, 13)}
	})})

// Infer implements [ir.Operator].
func (o *ReduceSum) Infer(c *ir.InferContext) error { return o.inferFolded(c, ir.Known(0), ir.Dim.Add) }

// Run implements [ir.Operator].
func (o *ReduceSum) Run(c *ir.Call) error { return o.run(c, reduceSumTable) }

var reduceSumTable = reduceTable{
	tensor.TypeFloat32: reduceEither(sumReducer[float32, float64](), fastSumReducer()),
	tensor.TypeFloat64: reduceEither(sumReducer[float64, float64](), withFolds(sumReducer[float64, float64](), vec.SumF64, vec.AddF64)),
	tensor.TypeInt32:   reduceEither(sumReducer[int32, int32](), withFolds(sumReducer[int32, int32](), vec.SumI32, vec.AddI32)),
	tensor.TypeInt64:   reduceEither(sumReducer[int64, int64](), withFolds(sumReducer[int64, int64](), vec.SumI64, vec.AddI64)),
	tensor.TypeUint32:  reduceWith(sumReducer[uint32, uint32]()),
	tensor.TypeUint64:  reduceWith(sumReducer[uint64, uint64]()),
}

// fastSumReducer adds rows and columns in vector kernels.
func fastSumReducer() reducer[float32, float64] {
	r := sumReducer[float32, float64]()
	short := r.row
	r.row = func(acc float64, x []float32) float64 {
		if len(x) < shortRow {
			return short(acc, x)
		}
		return acc + float64(vec.SumF32(cpu.Active(), x))
	}
	r.rows = func(dst, x []float32, n, first int) {
		vec.SumRowsF32(cpu.Active(), dst, x, n, first)
	}
	r.add = func(acc, x []float32) { vec.AddF32(cpu.Active(), acc, acc, x) }
	return r
}
