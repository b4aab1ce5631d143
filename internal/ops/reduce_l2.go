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

// ReduceL2 returns the square root of the sum of squares along axes, truncated for integers
// (https://onnx.ai/onnx/operators/onnx__ReduceL2.html).
type ReduceL2 struct{ reduce.Reduction }

var _ = kit.Register(&kit.Def{Name: "ReduceL2", Since: kit.Versions{1, 11, 13, 18}, In: "data:T, axes:int64?",
	Out:   "reduced:T",
	Types: "T: uint32 uint64 int32 int64 @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ReduceL2{reduce.Read(a, opset, 18)}
	},
	Gradient: gradient.Reduced(
		func(b *gradient.Builder, v string) string { return b.Op("Mul", v, v) },
		func(b *gradient.Builder, v string) string { return b.Op("Sqrt", v) })})

// Infer implements [ir.Operator].
func (o *ReduceL2) Infer(c *ir.InferContext) error { return o.InferWith(c, c.Elem(0)) }

// Run implements [ir.Operator].
func (o *ReduceL2) Run(c *ir.Call) error { return o.RunWith(c, reduceL2Table) }

var reduceL2Table = reduce.Table{
	tensor.TypeFloat32: reduce.Either(l2Reducer[float32](), fastL2Reducer()),
	tensor.TypeFloat64: reduce.Either(l2Reducer[float64](), reduce.WithSquares(l2Reducer[float64]())),
}

func l2Reducer[T kit.FloatNumber]() *reduce.Reducer[T, float64] {
	return reduce.WithDone(reduce.SumSquaresReducer[T, float64](), func(dst []T, acc []float64, n int) {
		for i, a := range acc {
			dst[i] = T(math.Sqrt(a))
		}
	})
}

// fastL2Reducer adds squares in float32, unless they overflow or lose bits to underflow that the
// root would keep.
func fastL2Reducer() *reduce.Reducer[float32, float64] {
	r := l2Reducer[float32]()
	slow := r.Row
	r.Row = func(acc float64, x []float32) float64 {
		if len(x) >= kit.ShortRow {
			if s := vec.SumSquaresF32(cpu.Active(), x, 0); squaresAreSafe(s) {
				return acc + float64(s)
			}
		}
		return slow(acc, x)
	}
	r.Rows = func(dst, x []float32, n, first int) {
		vec.SumSquaresRowsF32(cpu.Active(), dst, x, n, first)
		vec.SqrtF32(cpu.Active(), dst, dst)
		for i, s := range dst {
			if !squaresAreSafe(s * s) {
				dst[i] = float32(math.Sqrt(slow(0, x[(first+i)*n:][:n])))
			}
		}
	}
	r.Columns = func(dst, x []float32, n, step int) {
		var squares [reduce.Block]float32
		var sums [reduce.Block]float64
		l, w, sum := cpu.Active(), squares[:len(dst)], sums[:len(dst)]
		for k := 0; k < n; k += reduce.FoldedPieces { // sums of few terms are added as float64
			first, end := k, min(n, k+reduce.FoldedPieces)
			vec.MulF32(l, w, x[first*step:], x[first*step:])
			for first++; first < end; first++ {
				row := x[first*step:]
				vec.MulAddF32(l, w, row, row, w)
			}
			for i, s := range w {
				sum[i] += float64(s)
			}
		}
		for i, s := range sum {
			if !squaresAreSafe(float32(s)) {
				s = 0
				for k := range n {
					s += float64(x[k*step+i]) * float64(x[k*step+i])
				}
			}
			dst[i] = float32(math.Sqrt(s))
		}
	}
	return r
}

// squaresAreSafe reports whether a sum of squares in float32 has not overflowed nor lost bits to
// underflow that the root would keep.
func squaresAreSafe(s float32) bool { return s > 0x1p-100 && s < 0x1p127 }
