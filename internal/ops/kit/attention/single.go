package attention

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// singleKeys is the number of keys, and of values, after which a run can be stopped.
const singleKeys = 512

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
// half-precision elements. All fields but the views must be set.
func (a *Core[T]) ReadsHalf(c *ir.Call, dtype tensor.DType) bool {
	return kit.IsHalf(dtype) && a.single(c)
}

// single reports whether there is one query per head, and kernels that read keys and values once
// for all query heads that share them.
func (a *Core[T]) single(c *ir.Call) bool {
	level := cpu.Active()
	return a.QLen == 1 && a.fast(c) && gemm.HasHeads(level, a.Dim) && gemm.HasHeads(level, a.VDim)
}

// sharing returns the number of query heads that one item computes together: those of a key-value
// head, or a part of them that leaves an item for each thread. Results do not depend on it.
func (a *Core[T]) sharing(c *ir.Call) int {
	group := a.Heads / max(1, a.KVHeads)
	for n := group; n > 1; n-- {
		if group%n == 0 && a.Batch*a.Heads/n >= c.Threads() {
			return n
		}
	}
	return 1
}

// computeSingle is Compute for one query per head.
func (a *Core[T]) computeSingle(c *ir.Call, p attentionPlan) error {
	n := a.sharing(c)
	items := a.Batch * a.Heads / n
	workspaces := kit.WorkspaceCount(c, items)
	scratch, err := ir.ScratchOf[T](c, workspaces*n*p.scores)
	if err != nil {
		return err
	}
	c.Parallel(workspaces, 1, ir.Do(c, singleSection[T]{a, c, p, keptHeads[T](c, workspaces), scratch, n, items}))
	return nil
}

// singleSection computes items of n query heads that share a key-value head, one after the other in
// each workspace.
type singleSection[T kit.RealFloat] struct {
	a        *Core[T]
	c        *ir.Call
	plan     attentionPlan
	heads    []attentionHead[T] // of each workspace
	scratch  []T
	n, items int
}

// Do computes the items of the workspaces [lo, hi).
func (s *singleSection[T]) Do(lo, hi int) {
	workspaces := kit.WorkspaceCount(s.c, s.items)
	for ws := lo; ws < hi; ws++ {
		for i := ws; i < s.items; i += workspaces {
			s.item(ws, i)
		}
	}
}

func (s *singleSection[T]) item(ws, i int) {
	a, n, p := s.a, s.n, s.plan
	b, h := i*n/a.Heads, i*n%a.Heads
	w, length := &s.heads[ws], a.visibleKeys(b, 0, 1)
	scores := s.scratch[ws*n*p.scores:][:n*p.scores]
	*w = attentionHead[T]{attentionPlan: p, most: -1, b: b, h: h, kv: h * a.KVHeads / a.Heads, s: scores,
		ld: scoresStride(length)}
	for from := 0; from < length; from += singleKeys {
		s.c.Check()
		a.scores(w, n, from, min(length, from+singleKeys), true)
	}
	for j := range n {
		w.h, w.s = h+j, scores[j*p.scores:][:p.scores]
		a.probabilities(s.c, w, 0, 1, length, length > 0)
		clear(a.Y.At(b, w.h, 0)[:a.VDim])
	}
	w.h, w.s = h, scores
	for from := 0; from < length; from += singleKeys {
		s.c.Check()
		a.addValues(w, n, from, min(length, from+singleKeys))
	}
}

// scores writes the raw scores of n query heads from w.h on, for the keys [from, to), plus the bias
// if biased is set and the bias has rows.
func (a *Core[T]) scores(w *attentionHead[T], n, from, to int, biased bool) {
	level, s, alpha := cpu.Active(), any(w.s).([]float32), float32(a.Scale)
	q := any(a.Q.At(w.b, w.h, 0)).([]float32)
	for lo := from; lo < to; {
		k, hi := a.K.rows(w.b, w.kv, lo, to)
		gemm.DotHeads(level, n, s[lo:], w.attentionPlan.scores, q, a.Q.Head, k, a.Dim, hi-lo)
		lo = hi
	}
	for j := range n {
		row := s[j*w.attentionPlan.scores:][from:to]
		if alpha != 1 {
			vec.MulScalarF32(level, row, row, alpha)
		}
		if biased && a.Bias != nil && a.Bias.Rows.Data != nil {
			vec.AddF32(level, row, row, any(a.Bias.Rows.At(w.b, w.h+j, 0)).([]float32)[from:to])
		}
	}
}

// addValues adds the products of the probabilities of n query heads from w.h on and the values
// [from, to) to the outputs.
func (a *Core[T]) addValues(w *attentionHead[T], n, from, to int) {
	y, s := any(a.Y.At(w.b, w.h, 0)).([]float32), any(w.s).([]float32)
	for lo := from; lo < to; {
		v, hi := a.V.rows(w.b, w.kv, lo, to)
		gemm.AddHeads(cpu.Active(), n, y, a.Y.Head, s[lo:], w.attentionPlan.scores, v, a.VDim, hi-lo)
		lo = hi
	}
}

// rows returns the rows [from, end) of head h of batch item b, those before row to that have the
// format of the first.
func (v *HeadView[T]) rows(b, h, from, to int) (r gemm.HeadRows, end int) {
	x := v.half
	if x == nil {
		return gemm.HeadRows{Data: memory.AsBytes(v.At(b, h, from)), Ld: v.Row}, to
	}
	switch past := x.past[b]; {
	case from >= past && from < past+x.n:
		return gemm.HeadRows{Data: memory.AsBytes(x.fresh.At(b, h, from-past)), Ld: x.fresh.Row}, min(to, past+x.n)
	case from < past:
		to = min(to, past)
	}
	r = gemm.HeadRows{Data: x.data[2*(b*v.Batch+h*v.Head+from*v.Row):], Format: gemm.HeadF16, Ld: v.Row}
	if x.dtype == tensor.TypeBFloat16 {
		r.Format = gemm.HeadBF16
	}
	return r, to
}
