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

const (
	// fewQueries is the most queries per head that read keys and values as they are. More queries
	// pack them for GEMMs.
	fewQueries = 4
	// fewKeys is the number of keys, and of values, after which a run can be stopped.
	fewKeys = 512
)

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
	return kit.IsHalf(dtype) && a.few(c)
}

// few reports whether there are few queries per head, and kernels that read keys and values once
// for several queries or query heads that share them.
func (a *Core[T]) few(c *ir.Call) bool {
	level := cpu.Active()
	return a.QLen <= fewQueries && a.fast(c) && gemm.HasHeads(level, a.Dim) && gemm.HasHeads(level, a.VDim)
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

// computeFew is Compute for few queries per head.
func (a *Core[T]) computeFew(c *ir.Call) error {
	n, p := a.sharing(c), attentionPlan{scores: 2*a.KVLen + scoresGap}
	items := a.Batch * a.Heads / n
	workspaces := kit.WorkspaceCount(c, items)
	scratch, err := ir.ScratchOf[T](c, workspaces*n*a.QLen*p.scores)
	if err != nil {
		return err
	}
	c.Parallel(workspaces, 1, ir.Do(c, fewSection[T]{a, c, p, keptHeads[T](c, workspaces), scratch, n, items}))
	return nil
}

// fewSection computes items of n query heads that share a key-value head, one after the other in
// each workspace.
type fewSection[T kit.RealFloat] struct {
	a        *Core[T]
	c        *ir.Call
	plan     attentionPlan
	heads    []attentionHead[T] // of each workspace
	scratch  []T
	n, items int
}

// Do computes the items of the workspaces [lo, hi).
func (s *fewSection[T]) Do(lo, hi int) {
	workspaces := kit.WorkspaceCount(s.c, s.items)
	for ws := lo; ws < hi; ws++ {
		for i := ws; i < s.items; i += workspaces {
			s.item(ws, i)
		}
	}
}

func (s *fewSection[T]) item(ws, i int) {
	a, n, p := s.a, s.n, s.plan
	b, h, queries := i*n/a.Heads, i*n%a.Heads, a.QLen
	w, length := &s.heads[ws], a.visibleKeys(b, 0, queries)
	scores := s.scratch[ws*n*queries*p.scores:][:n*queries*p.scores]
	*w = attentionHead[T]{attentionPlan: p, most: -1, b: b, h: h, kv: h * a.KVHeads / a.Heads, s: scores,
		ld: scoresStride(length)}
	for from := 0; from < length; from += fewKeys {
		s.c.Check()
		a.scores(w, n, 0, queries, from, min(length, from+fewKeys), true)
	}
	for j := range n * queries {
		w.h, w.s = h+j/queries, scores[j*p.scores:][:p.scores]
		a.probabilities(s.c, w, j%queries, 1, length, length > 0)
		clear(a.Y.At(b, w.h, j%queries)[:a.VDim])
	}
	w.h, w.s = h, scores
	for from := 0; from < length; from += fewKeys {
		s.c.Check()
		a.addValues(w, n, from, min(length, from+fewKeys))
	}
}

// together returns how n query heads are divided into groups whose queries, at a distance of step
// in v, are computed together: all heads if they have one query, else the queries of a head.
func (v *HeadView[T]) together(n, queries int) (groups, vectors, step int) {
	if queries == 1 {
		return 1, n, v.Head
	}
	return n, queries, v.Row
}

// scores writes the raw scores of queries from i0 on of n query heads from w.h on, for the keys
// [from, to), plus the bias if biased is set and the bias has rows.
func (a *Core[T]) scores(w *attentionHead[T], n, i0, queries, from, to int, biased bool) {
	level, s, alpha, ld := cpu.Active(), any(w.s).([]float32), float32(a.Scale), w.attentionPlan.scores
	groups, vectors, step := a.Q.together(n, queries)
	for lo := from; lo < to; {
		k, hi := a.K.rows(w.b, w.kv, lo, to)
		for g := range groups {
			q := any(a.Q.At(w.b, w.h+g, i0)).([]float32)
			gemm.DotHeads(level, vectors, s[g*vectors*ld+lo:], ld, q, step, k, a.Dim, hi-lo)
		}
		lo = hi
	}
	for j := range n * queries {
		row := s[j*ld:][from:to]
		if alpha != 1 {
			vec.MulScalarF32(level, row, row, alpha)
		}
		if biased && a.Bias != nil && a.Bias.Rows.Data != nil {
			bias := any(a.Bias.Rows.At(w.b, w.h+j/queries, i0+j%queries)).([]float32)
			vec.AddF32(level, row, row, bias[from:to])
		}
	}
}

// addValues adds the products of the probabilities of n query heads from w.h on and the values
// [from, to) to the outputs.
func (a *Core[T]) addValues(w *attentionHead[T], n, from, to int) {
	s, ld := any(w.s).([]float32), w.attentionPlan.scores
	groups, vectors, step := a.Y.together(n, a.QLen)
	for lo := from; lo < to; {
		v, hi := a.V.rows(w.b, w.kv, lo, to)
		for g := range groups {
			y := any(a.Y.At(w.b, w.h+g, 0)).([]float32)
			gemm.AddHeads(cpu.Active(), vectors, y, step, s[g*vectors*ld+lo:], ld, v, a.VDim, hi-lo)
		}
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
