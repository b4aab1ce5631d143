package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// headView is a tensor of [batch, heads, rows, columns] in memory of any order;
// the columns are contiguous.
type headView[T realFloat] struct {
	data             []T
	batch, head, row int // strides in elements
}

func (v *headView[T]) at(b, h, i int) []T { return v.data[b*v.batch+h*v.head+i*v.row:] }

// headsFirst views [batch, heads, rows, columns].
func headsFirst[T realFloat](data []T, heads, rows, cols int) headView[T] {
	return headView[T]{data, heads * rows * cols, rows * cols, cols}
}

// headsLast views [batch, rows, heads·columns].
func headsLast[T realFloat](data []T, heads, rows, cols int) headView[T] {
	return headView[T]{data, rows * heads * cols, cols, heads * cols}
}

// copyHeads copies n rows of cols elements of every batch and head, from row
// srcRow of src to row dstRow of dst.
func copyHeads[T realFloat](dst, src headView[T], batch, heads, dstRow, srcRow, n, cols int) {
	for b := range batch {
		for h := range heads {
			for i := range n {
				copy(dst.at(b, h, dstRow+i)[:cols], src.at(b, h, srcRow+i))
			}
		}
	}
}

// scoreStage names the values of an attention that can be observed.
type scoreStage int

const (
	scoresNone    scoreStage = iota - 1
	scoresRaw                // scale·Q·Kᵀ
	scoresCapped             // after the soft cap
	scoresBiased             // after the bias
	scoresSoftmax            // the probabilities
)

// attentionCore computes Y = softmax(cap(scale·Q·Kᵀ) + bias)·V for every batch
// item and query head; query head h reads key and value head h·kvHeads/heads.
type attentionCore[T realFloat] struct {
	batch, heads, kvHeads  int
	qLen, kvLen, dim, vDim int
	q, k, v, y             headView[T]
	scale, softcap         float64 // softcap 0: none
	observe                scoreStage
	observed               []T                           // [batch, heads, qLen, kvLen] for observe
	bias                   func(b, h, i int, row []T)    // fills the bias of one query's row; nil: none
	visible                func(b, i int) (from, to int) // keys outside of [from, to) take no part; nil: all do
	sink                   func(h int) (float64, bool)   // a logit that takes its share of the sum but no value; nil: none
}

// attentionBlock bounds the scores that one thread holds at once, in elements.
const attentionBlock = 1 << 16

// run computes all heads, blocks of queries in parallel.
func (a *attentionCore[T]) run(c *ir.Call) error {
	if a.batch*a.heads*a.qLen == 0 {
		return nil
	}
	rows := min(a.qLen, max(1, attentionBlock/max(1, a.kvLen)))
	blocks := (a.qLen + rows - 1) / rows
	items := a.batch * a.heads * blocks
	slots := slotCount(items)
	per := rows*a.kvLen + a.kvLen
	scratch, err := ir.ScratchOf[T](c, slots*per)
	if err != nil {
		return err
	}
	return inSlots(c, items, func(slot, i int) error {
		s := scratch[slot*per:][:per]
		bh, block := i/blocks, i%blocks
		i0 := block * rows
		a.block(c, bh/a.heads, bh%a.heads, i0, min(rows, a.qLen-i0), s[a.kvLen:], s[:a.kvLen])
		return nil
	})
}

// block computes n queries from query i0 on of one head.
func (a *attentionCore[T]) block(c *ir.Call, b, h, i0, n int, scores, bias []T) {
	kv := h * a.kvHeads / a.heads
	if a.kvLen > 0 {
		k := a.k.at(b, kv, 0)
		if c.Generic || a.dim == 0 {
			for i := range n {
				q := a.q.at(b, h, i0+i)[:a.dim]
				for j := range a.kvLen {
					key := k[j*a.k.row:][:len(q)]
					s := 0.0
					for d, v := range q {
						s += float64(v) * float64(key[d])
					}
					scores[i*a.kvLen+j] = T(s * a.scale)
				}
			}
		} else {
			alpha := T(a.scale)
			g := gemm.Args[T]{M: n, N: a.kvLen, K: a.dim, A: a.q.at(b, h, i0), LdA: a.q.row, B: k, LdB: a.k.row, TransB: true,
				C: scores, LdC: a.kvLen, Epilogue: gemm.Epilogue[T]{Alpha: alpha}}
			if alpha == 0 {
				clear(scores[:n*a.kvLen])
			} else {
				gemmSerial(&g)
			}
		}
	}
	for i := range n {
		row := scores[i*a.kvLen:][:a.kvLen]
		a.normalize(c, b, h, i0+i, row, bias)
	}
	y := a.y.at(b, h, i0)
	if a.kvLen == 0 {
		for i := range n {
			clear(y[i*a.y.row:][:a.vDim])
		}
		return
	}
	if a.vDim == 0 {
		return
	}
	v := a.v.at(b, kv, 0)
	if !c.Generic {
		gemmSerial(&gemm.Args[T]{M: n, N: a.vDim, K: a.kvLen, A: scores, LdA: a.kvLen, B: v, LdB: a.v.row, C: y, LdC: a.y.row})
		return
	}
	for i := range n {
		out := y[i*a.y.row:][:a.vDim]
		for d := range out {
			s := 0.0
			for j, p := range scores[i*a.kvLen:][:a.kvLen] {
				s += float64(p) * float64(v[j*a.v.row+d])
			}
			out[d] = T(s)
		}
	}
}

// normalize turns the raw scores of one query into probabilities. A query that
// may see no key gets zeros.
func (a *attentionCore[T]) normalize(c *ir.Call, b, h, i int, row, bias []T) {
	var seen []T
	if a.observe >= 0 && a.observed != nil {
		seen = a.observed[((b*a.heads+h)*a.qLen+i)*a.kvLen:][:a.kvLen]
	}
	show := func(s scoreStage) {
		if seen != nil && a.observe == s {
			copy(seen, row)
		}
	}
	show(scoresRaw)
	if a.softcap > 0 {
		for j, v := range row {
			row[j] = T(a.softcap * math.Tanh(float64(v)/a.softcap))
		}
	}
	show(scoresCapped)
	masked := len(row) == 0
	if a.bias != nil || a.visible != nil {
		from, to := 0, a.kvLen
		if a.visible != nil {
			from, to = a.visible(b, i)
			from = min(max(from, 0), a.kvLen)
			to = min(max(to, from), a.kvLen)
		}
		ninf := T(math.Inf(-1))
		masked = true
		if a.bias != nil {
			a.bias(b, h, i, bias)
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
	show(scoresBiased)
	if masked {
		clear(row)
	} else {
		var logit float64
		sink := false
		if a.sink != nil {
			logit, sink = a.sink(h)
		}
		softmaxRow(c, row, logit, sink)
	}
	show(scoresSoftmax)
}

// softmaxRow computes the softmax of a row in place, zeros when all elements
// are −Inf. With sink, exp(logit) counts in the sum.
func softmaxRow[T realFloat](c *ir.Call, row []T, logit float64, sink bool) {
	top := T(math.Inf(-1))
	r, fast := any(row).([]float32)
	if fast = fast && !c.Generic && len(row) > 0; fast {
		top = T(vec.ReduceMaxF32(cpu.Active(), r))
	} else {
		for _, v := range row {
			top = max(top, v) // NaN wins
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

// gemmSerial multiplies on the calling thread with the best kernel for T.
func gemmSerial[T realFloat](g *gemm.Args[T]) {
	if g, ok := any(g).(*gemm.Args[float32]); ok {
		gemm.Parallel(nil, cpu.Active(), g)
		return
	}
	gemm.ParallelGeneric(nil, g)
}
