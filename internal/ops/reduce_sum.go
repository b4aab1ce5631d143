package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// ReduceSum returns the sum along axes; integers wrap around
// (https://onnx.ai/onnx/operators/onnx__ReduceSum.html).
type ReduceSum struct{ reduce.Reduction }

var _ = kit.Register(&kit.Def{Name: "ReduceSum", Since: kit.Versions{1, 11, 13}, In: "data:T, axes:int64?",
	Out:   "reduced:T",
	Types: "T: uint32 uint64 int32 int64 @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ReduceSum{reduce.Read(a, opset, 13)}
	},
	Gradient: gradient.Sum(false)})

// Infer implements [ir.Operator].
func (o *ReduceSum) Infer(c *ir.InferContext) error { return o.InferFolded(c, ir.Known(0), ir.Dim.Add) }

// Run implements [ir.Operator].
func (o *ReduceSum) Run(c *ir.Call) error { return o.RunWith(c, reduceSumTable) }

var reduceSumTable = reduce.Table{
	tensor.TypeFloat32: reduce.Either(reduce.SumReducer[float32, float64](), reduce.FastSumReducer()),
	tensor.TypeFloat64: reduce.Either(reduce.SumReducer[float64, float64](),
		reduce.WithFolds(reduce.SumReducer[float64, float64](), vec.SumF64, vec.AddF64)),
	tensor.TypeInt32: reduce.Either(reduce.SumReducer[int32, int32](),
		reduce.WithFolds(reduce.SumReducer[int32, int32](), vec.SumI32, vec.AddI32)),
	tensor.TypeInt64: reduce.Either(reduce.SumReducer[int64, int64](),
		reduce.WithFolds(reduce.SumReducer[int64, int64](), vec.SumI64, vec.AddI64)),
	tensor.TypeUint32: reduce.Bits(tensor.TypeInt32, reduce.With(reduce.SumReducer[int32, int32]())),
	tensor.TypeUint64: reduce.Bits(tensor.TypeInt64, reduce.With(reduce.SumReducer[int64, int64]())),
}
