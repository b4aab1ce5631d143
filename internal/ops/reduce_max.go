package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// ReduceMax finds the greatest element along axes; a NaN wins, and true is greater than
// false
// (https://onnx.ai/onnx/operators/onnx__ReduceMax.html).
type ReduceMax struct{ reduction }

var _ = register(Def{Name: "ReduceMax", Since: []int{1, 11, 12, 13, 18, 20}, In: "data:T, axes:int64?", Out: "reduced:T",
	Types: Types{"T": "uint32 uint64 int32 int64 @float uint8 int8 bool"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &ReduceMax{readReduction(a, opset, 18)}
	})})

// Infer implements [ir.Operator].
func (o *ReduceMax) Infer(c *ir.InferContext) error { return o.infer(c, c.Elem(0)) }

// Run implements [ir.Operator].
func (o *ReduceMax) Run(c *ir.Call) error { return o.run(c, reduceMaxTable) }

var reduceMaxTable = reduceTable{
	tensor.TypeFloat32: reduceEither(maxReducer(float32(math.Inf(-1))), fastMaxReducer()),
	tensor.TypeFloat64: reduceEither(maxReducer(math.Inf(-1)), withFolds(maxReducer(math.Inf(-1)), vec.ReduceMaxF64, vec.MaxOfF64)),
	tensor.TypeInt32:   reduceEither(maxReducer[int32](math.MinInt32), withFolds(maxReducer[int32](math.MinInt32), vec.ReduceMaxI32, vec.MaxOfI32)),
	tensor.TypeInt64:   reduceEither(maxReducer[int64](math.MinInt64), withFolds(maxReducer[int64](math.MinInt64), vec.ReduceMaxI64, vec.MaxOfI64)),
	tensor.TypeUint32:  reduceWith(maxReducer[uint32](0)),
	tensor.TypeUint64:  reduceWith(maxReducer[uint64](0)),
	tensor.TypeInt8:    reduceWith(maxReducer[int8](math.MinInt8)),
	tensor.TypeUint8:   reduceWith(maxReducer[uint8](0)),
	tensor.TypeBool:    reduceBools(maxReducer[uint8](0)),
}

// maxReducer finds the greatest element; a NaN wins.
func maxReducer[T realNumber](init T) reducer[T, T] {
	return reducer[T, T]{
		init: init,
		row: func(acc T, x []T) T {
			for _, v := range x {
				acc = max(acc, v)
			}
			return acc
		},
		cols: func(acc []T, x []T) {
			x = x[:len(acc)]
			for i := range acc {
				acc[i] = max(acc[i], x[i])
			}
		},
		merge: func(a, b T) T { return max(a, b) },
		done:  storeAll[T, T],
	}
}

// reduceBools reduces truth values as the bytes 0 and 1.
func reduceBools(r reducer[uint8, uint8]) reduceKernel {
	return func(c *ir.Call, p *reducePlan, out, x *tensor.Tensor) error {
		return runReducer(c, p, out.Bytes(), x.Bytes(), &r)
	}
}

func fastMaxReducer() reducer[float32, float32] {
	r := maxReducer(float32(math.Inf(-1)))
	r.row = func(acc float32, x []float32) float32 { return max(acc, vec.ReduceMaxF32(cpu.Active(), x)) }
	r.rows = func(dst, x []float32, n, first int) {
		vec.MaxRowsF32(cpu.Active(), dst, x, n, first)
	}
	r.cols = func(acc, x []float32) { vec.MaxF32(cpu.Active(), acc, acc, x) }
	return r
}
