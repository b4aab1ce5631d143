package attention

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// halfKeys is the number of half-precision keys, and of values, that are widened at a time, so that
// they stay in the first-level cache while query heads read them.
const halfKeys = 128

// halfView holds the half-precision elements of a view, whose rows are adjacent. Batch item b has
// its new rows from row past[b] on; they are read as they were before rounding.
type halfView[T kit.RealFloat] struct {
	data  []byte
	dtype tensor.DType
	fresh HeadView[T]
	past  []int
	n     int // new rows
}

// ReadsHalf reports whether keys and values that are stored as dtype may have views of
// half-precision elements, which are widened in parts. All fields but the views must be set.
func (a *Core[T]) ReadsHalf(c *ir.Call, dtype tensor.DType) bool {
	return kit.IsHalf(dtype) && a.QLen == 1 && a.fast(c) && gemm.AddsRow(cpu.Active(), a.VDim)
}

// halves reports whether keys or values have half precision.
func (a *Core[T]) halves() bool { return a.K.half != nil || a.V.half != nil }

// halfRows holds the half-precision rows that were widened last.
type halfRows[T kit.RealFloat] struct {
	buf            []T
	of             *HeadView[T]
	b, h, from, to int
}

// rows returns the rows [from, to) of head h of batch item b, and their stride. r may be nil if the
// view does not have half precision.
func (r *halfRows[T]) rows(v *HeadView[T], b, h, from, to int) ([]T, int) {
	x := v.half
	if x == nil {
		return v.At(b, h, from), v.Row
	}
	if r.of != v || r.b != b || r.h != h || r.from != from || r.to != to {
		r.of, r.b, r.h, r.from, r.to = v, b, h, from, to
		n := (to - from) * v.Row
		kit.Widen(r.buf[:n], x.data[2*(b*v.Batch+h*v.Head+from*v.Row):][:2*n], x.dtype)
		for t := max(from-x.past[b], 0); t < min(to-x.past[b], x.n); t++ {
			copy(r.buf[(x.past[b]+t-from)*v.Row:][:v.Row], x.fresh.At(b, h, t))
		}
	}
	return r.buf, v.Row
}
