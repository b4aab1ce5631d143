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

// ReduceLogSumExp returns the logarithm of the sum of exponentials along axes, without overflow,
// truncated for integers (https://onnx.ai/onnx/operators/onnx__ReduceLogSumExp.html).
type ReduceLogSumExp struct{ reduce.Reduction }

var _ = kit.Register(&kit.Def{Name: "ReduceLogSumExp", Since: kit.Versions{1, 11, 13, 18, 28},
	In: "data:T, axes:int64?", Out: "reduced:T",
	Types: "T: uint32 uint64 int32 int64 @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		r := reduce.Read(a, opset, 18)
		r.Costly = true
		return &ReduceLogSumExp{r}
	},
	Gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
		x, y := n.Inputs[0], b.Kept(n)
		p := b.Op("Exp", b.Op("Sub", x, b.Op("onward.ExpandTo", y, x)))
		return n.First(b.Op("Mul", p, b.Op("onward.ExpandTo", b.Op("onward.ReshapeTo", g, y), x))), nil
	})})

// Infer implements [ir.Operator].
func (o *ReduceLogSumExp) Infer(c *ir.InferContext) error { return o.InferWith(c, c.Elem(0)) }

// Run implements [ir.Operator].
func (o *ReduceLogSumExp) Run(c *ir.Call) error { return o.RunWith(c, reduceLogSumExpTable) }

var reduceLogSumExpTable = reduce.Table{
	tensor.TypeFloat32: reduce.Either(logSumExpReducer[float32](), fastLogSumExpReducer()),
	tensor.TypeFloat64: reduce.Either(logSumExpReducer[float64](), logSumExpDoubles()),
}

// expSum represents sum·exp(top): a sum of exponentials relative to the largest exponent so far.
type expSum struct{ top, sum float64 }

func (s expSum) add(v float64) expSum {
	switch {
	case v > s.top:
		if math.IsInf(v, 1) {
			return expSum{v, s.sum * 0} // propagates NaN
		}
		return expSum{v, s.sum*math.Exp(s.top-v) + 1}
	case math.IsInf(s.top, 0) && v == v:
		return s // +∞ absorbs numbers, and −∞ adds nothing
	}
	s.sum += math.Exp(v - s.top)
	return s
}

func logSumExpReducer[T kit.FloatNumber]() *reduce.Reducer[T, expSum] {
	return &reduce.Reducer[T, expSum]{
		Init: expSum{top: math.Inf(-1)},
		Row: func(acc expSum, x []T) expSum {
			for _, v := range x {
				acc = acc.add(float64(v))
			}
			return acc
		},
		Cols: func(acc []expSum, x []T) {
			x = x[:len(acc)]
			for i := range acc {
				acc[i] = acc[i].add(float64(x[i]))
			}
		},
		Merge: func(a, b expSum) expSum {
			if a.top < b.top {
				a, b = b, a
			}
			if !math.IsInf(a.top, 0) {
				a.sum += b.sum * math.Exp(b.top-a.top)
			} else if b.sum != b.sum {
				a.sum = b.sum
			}
			return a
		},
		Done: func(dst []T, acc []expSum, n int) {
			for i, a := range acc {
				switch {
				case a.sum != a.sum:
					dst[i] = T(a.sum)
				case math.IsInf(a.top, 0):
					dst[i] = T(a.top)
				default:
					dst[i] = T(a.top + math.Log(a.sum))
				}
			}
		},
	}
}

// specialColumns computes the columns whose largest element is infinite or NaN one element after
// the other.
func specialColumns[T kit.FloatNumber](r *reduce.Reducer[T, expSum], dst, x, top []T, n, step int) {
	for i, v := range top {
		if v-v == 0 {
			continue
		}
		acc := r.Init
		for k := range n {
			acc = acc.add(float64(x[k*step+i]))
		}
		r.Done(dst[i:i+1], []expSum{acc}, n)
	}
}

// logSumExpDoubles computes exponentials of float64 in vector kernels.
func logSumExpDoubles() *reduce.Reducer[float64, expSum] {
	r := logSumExpReducer[float64]()
	slow, merge := r.Row, r.Merge
	r.Row = func(acc expSum, x []float64) expSum {
		var e [reduce.Block]float64
		for n := 0; len(x) > 0; x = x[n:] {
			n = min(len(x), len(e))
			top := vec.ReduceMaxF64(cpu.Active(), x[:n])
			if n < 4 || top-top != 0 { // NaN or infinite
				acc = slow(acc, x[:n])
				continue
			}
			for i, v := range x[:n] {
				e[i] = v - top
			}
			vec.ExpF64(cpu.Active(), e[:n], e[:n])
			acc = merge(acc, expSum{top, vec.SumF64(cpu.Active(), e[:n])})
		}
		return acc
	}
	r.Columns = func(dst, x []float64, n, step int) {
		var tops, powers, sums [reduce.Block]float64
		l, top, e, sum := cpu.Active(), tops[:len(dst)], powers[:len(dst)], sums[:len(dst)]
		copy(top, x)
		for k := 1; k < n; k++ {
			vec.MaxF64(l, top, top, x[k*step:])
		}
		for k := range n {
			vec.SubF64(l, e, x[k*step:], top)
			vec.ExpF64(l, e, e)
			vec.AddF64(l, sum, sum, e)
		}
		vec.LogF64(l, sum, sum)
		vec.AddF64(l, dst, sum, top)
		specialColumns(r, dst, x, top, n, step)
	}
	return r
}

// fastLogSumExpReducer computes exponentials with vector kernels.
func fastLogSumExpReducer() *reduce.Reducer[float32, expSum] {
	r := logSumExpReducer[float32]()
	slow, merge := r.Row, r.Merge
	r.Row = func(acc expSum, x []float32) expSum {
		var e [4 * reduce.Block]float32
		for len(x) > 0 {
			n := min(len(x), len(e))
			top := vec.ReduceMaxF32(cpu.Active(), x[:n])
			if n < 4 || top-top != 0 { // NaN or infinite
				acc = slow(acc, x[:n])
			} else {
				acc = merge(acc, expSum{float64(top), float64(vec.ExpSubSumF32(cpu.Active(), e[:n], x[:n], top))})
			}
			x = x[n:]
		}
		return acc
	}
	r.Rows = func(dst, x []float32, n, first int) {
		vec.LogSumExpRowsF32(cpu.Active(), dst, x[first*n:][:len(dst)*n], n)
		for i, v := range dst {
			if v-v != 0 { // infinite elements or NaN
				acc := []expSum{slow(r.Init, x[(first+i)*n:][:n])}
				r.Done(dst[i:i+1], acc, n)
			}
		}
	}
	r.Columns = func(dst, x []float32, n, step int) {
		var tops, powers, parts, sums [reduce.Block]float32
		l, top, e, part, sum := cpu.Active(), tops[:len(dst)], powers[:len(dst)], parts[:len(dst)], sums[:len(dst)]
		copy(top, x)
		for k := 1; k < n; k++ {
			vec.MaxF32(l, top, top, x[k*step:])
		}
		for k := range n {
			if k%reduce.FoldedPieces == 0 { // partial sums, for precision
				vec.AddF32(l, sum, sum, part)
				clear(part)
			}
			vec.SubF32(l, e, x[k*step:], top)
			vec.ExpF32(l, e, e)
			vec.AddF32(l, part, part, e)
		}
		vec.AddF32(l, sum, sum, part)
		vec.LogF32(l, sum, sum)
		vec.AddF32(l, dst, sum, top)
		specialColumns(r, dst, x, top, n, step)
	}
	return r
}
