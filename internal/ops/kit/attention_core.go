package kit

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// HeadView is a view of a [batch, heads, rows, columns] tensor with arbitrary strides; columns are
// contiguous.
type HeadView[T RealFloat] struct {
	Data             []T
	Batch, Head, Row int // strides in elements
}

// At returns the data from row i of head h of batch item b on.
func (v *HeadView[T]) At(b, h, i int) []T { return v.Data[b*v.Batch+h*v.Head+i*v.Row:] }

// HeadsFirst returns a view of [batch, heads, rows, columns].
func HeadsFirst[T RealFloat](data []T, heads, rows, cols int) HeadView[T] {
	return HeadView[T]{data, heads * rows * cols, rows * cols, cols}
}

// HeadsLast returns a view of [batch, rows, heads·columns].
func HeadsLast[T RealFloat](data []T, heads, rows, cols int) HeadView[T] {
	return HeadView[T]{data, rows * heads * cols, cols, heads * cols}
}

// CopyHeads copies n rows of cols elements, for every batch item and head, from row srcRow of src
// to row dstRow of dst.
func CopyHeads[T RealFloat](dst, src HeadView[T], batch, heads, dstRow, srcRow, n, cols int) {
	for b := range batch {
		for h := range heads {
			for i := range n {
				copy(dst.At(b, h, dstRow+i)[:cols], src.At(b, h, srcRow+i))
			}
		}
	}
}

// ScoreStage identifies the intermediate scores that can be observed.
type ScoreStage int

const (
	ScoresNone    ScoreStage = iota - 1 // no output
	ScoresRaw                           // scale·Q·Kᵀ
	scoresCapped                        // after the soft cap
	ScoresBiased                        // after the bias
	ScoresSoftmax                       // the probabilities
)

// AttentionCore computes Y = softmax(cap(scale·Q·Kᵀ) + bias)·V for every batch item and query head.
// Query head h uses key and value head h·kvHeads/heads.
type AttentionCore[T RealFloat] struct {
	Batch, Heads, KVHeads  int
	QLen, KVLen, Dim, VDim int
	Q, K, V, Y             HeadView[T]
	Scale, Softcap         float64 // softcap 0: no cap
	Observe                ScoreStage
	Observed               []T                           // [batch, heads, qLen, kvLen] for observe
	Bias                   func(b, h, i int, row []T)    // writes the bias of one query's row; nil: no bias
	Visible                func(b, i int) (from, to int) // keys in [from, to) are visible; nil: all keys
	Sink                   func(h int) (float64, bool)   // an additional logit in the softmax without a value; nil: none
}

// attentionBlock limits the number of scores in the memory of one thread.
const attentionBlock = 1 << 16

// Compute computes all heads, blocks of queries in parallel.
func (a *AttentionCore[T]) Compute(c *ir.Call) error {
	if a.Batch*a.Heads*a.QLen == 0 {
		return nil
	}
	rows := min(a.QLen, max(1, attentionBlock/max(1, a.KVLen)))
	blocks := (a.QLen + rows - 1) / rows
	items := a.Batch * a.Heads * blocks
	spaces := WorkspaceCount(items)
	per := rows*a.KVLen + a.KVLen
	scratch, err := ir.ScratchOf[T](c, spaces*per)
	if err != nil {
		return err
	}
	return InWorkspaces(c, items, func(ws, i int) error {
		s := scratch[ws*per:][:per]
		bh, block := i/blocks, i%blocks
		i0 := block * rows
		a.block(c, bh/a.Heads, bh%a.Heads, i0, min(rows, a.QLen-i0), s[a.KVLen:], s[:a.KVLen])
		return nil
	})
}

// block computes n queries of one head from query i0 on.
func (a *AttentionCore[T]) block(c *ir.Call, b, h, i0, n int, scores, bias []T) {
	kv := h * a.KVHeads / a.Heads
	if a.KVLen > 0 {
		k := a.K.At(b, kv, 0)
		if c.Generic || a.Dim == 0 {
			for i := range n {
				q := a.Q.At(b, h, i0+i)[:a.Dim]
				for j := range a.KVLen {
					key := k[j*a.K.Row:][:len(q)]
					s := 0.0
					for d, v := range q {
						s += float64(v) * float64(key[d])
					}
					scores[i*a.KVLen+j] = T(s * a.Scale)
				}
			}
		} else {
			alpha := T(a.Scale)
			g := gemm.Args[T]{M: n, N: a.KVLen, K: a.Dim, A: a.Q.At(b, h, i0), LdA: a.Q.Row, B: k, LdB: a.K.Row, TransB: true,
				C: scores, LdC: a.KVLen, Epilogue: gemm.Epilogue[T]{Alpha: alpha}}
			if alpha == 0 {
				clear(scores[:n*a.KVLen])
			} else {
				GemmSerial(&g)
			}
		}
	}
	for i := range n {
		row := scores[i*a.KVLen:][:a.KVLen]
		a.normalize(c, b, h, i0+i, row, bias)
	}
	y := a.Y.At(b, h, i0)
	if a.KVLen == 0 {
		for i := range n {
			clear(y[i*a.Y.Row:][:a.VDim])
		}
		return
	}
	if a.VDim == 0 {
		return
	}
	v := a.V.At(b, kv, 0)
	if !c.Generic {
		GemmSerial(&gemm.Args[T]{M: n, N: a.VDim, K: a.KVLen, A: scores, LdA: a.KVLen, B: v, LdB: a.V.Row, C: y, LdC: a.Y.Row})
		return
	}
	for i := range n {
		out := y[i*a.Y.Row:][:a.VDim]
		for d := range out {
			s := 0.0
			for j, p := range scores[i*a.KVLen:][:a.KVLen] {
				s += float64(p) * float64(v[j*a.V.Row+d])
			}
			out[d] = T(s)
		}
	}
}

// normalize converts the raw scores of one query to probabilities: zeros if the query sees no key.
func (a *AttentionCore[T]) normalize(c *ir.Call, b, h, i int, row, bias []T) {
	var seen []T
	if a.Observe >= 0 && a.Observed != nil {
		seen = a.Observed[((b*a.Heads+h)*a.QLen+i)*a.KVLen:][:a.KVLen]
	}
	show := func(s ScoreStage) {
		if seen != nil && a.Observe == s {
			copy(seen, row)
		}
	}
	show(ScoresRaw)
	if a.Softcap > 0 {
		for j, v := range row {
			row[j] = T(a.Softcap * math.Tanh(float64(v)/a.Softcap))
		}
	}
	show(scoresCapped)
	masked := len(row) == 0
	if a.Bias != nil || a.Visible != nil {
		from, to := 0, a.KVLen
		if a.Visible != nil {
			from, to = a.Visible(b, i)
			from = min(max(from, 0), a.KVLen)
			to = min(max(to, from), a.KVLen)
		}
		ninf := T(math.Inf(-1))
		masked = true
		if a.Bias != nil {
			a.Bias(b, h, i, bias)
			for j := from; j < to; j++ {
				row[j] += bias[j]
				masked = masked && bias[j] == ninf
			}
		} else {
			masked = from == to
		}
		for j := range from {
			row[j] = ninf
		}
		for j := to; j < len(row); j++ {
			row[j] = ninf
		}
	}
	show(ScoresBiased)
	if masked {
		clear(row)
	} else {
		var logit float64
		sink := false
		if a.Sink != nil {
			logit, sink = a.Sink(h)
		}
		SoftmaxRow(c, row, logit, sink)
	}
	show(ScoresSoftmax)
}

// SoftmaxRow computes the softmax of a row in place, or zeros if all elements are −Inf. If sink is
// set, exp(logit) is part of the sum.
func SoftmaxRow[T RealFloat](c *ir.Call, row []T, logit float64, sink bool) {
	top := T(math.Inf(-1))
	r, fast := any(row).([]float32)
	if fast = fast && !c.Generic && len(row) > 0; fast {
		top = T(vec.ReduceMaxF32(cpu.Active(), r))
	} else {
		for _, v := range row {
			top = max(top, v) // NaN propagates
		}
	}
	if sink {
		top = max(top, T(logit))
	}
	if math.IsInf(float64(top), -1) {
		clear(row)
		return
	}
	if fast {
		if !sink {
			vec.SoftmaxF32(cpu.Active(), r, r)
			return
		}
		sum := vec.ExpSubSumF32(cpu.Active(), r, r, float32(top))
		vec.MulScalarF32(cpu.Active(), r, r, 1/(sum+float32(math.Exp(logit-float64(top)))))
		return
	}
	sum := 0.0
	if sink {
		sum = math.Exp(logit - float64(top))
	}
	for j, v := range row {
		e := math.Exp(float64(v) - float64(top))
		row[j] = T(e)
		sum += e
	}
	for j, v := range row {
		row[j] = T(float64(v) / sum)
	}
}

// GemmSerial computes the product on the calling thread with the best kernel for T.
func GemmSerial[T RealFloat](g *gemm.Args[T]) {
	gemm.Parallel(nil, cpu.Active(), g)
}
