// Package attention computes attention for blocks of queries: scores, masks, softmax and the GEMM
// with the values. It also reads heads from inputs of several layouts and applies rotary
// embeddings. Attention of ai.onnx, the attention operators of com.microsoft, the blocked layout
// and the gradients import it.
package attention

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
)

// HeadView is a view of a [batch, heads, rows, columns] tensor with arbitrary strides; columns are
// contiguous.
type HeadView[T kit.RealFloat] struct {
	Data             []T
	Batch, Head, Row int          // strides in elements
	half             *halfView[T] // in place of Data, or nil
}

// At returns the data from row i of head h of batch item b on.
func (v *HeadView[T]) At(b, h, i int) []T { return v.Data[b*v.Batch+h*v.Head+i*v.Row:] }

// HeadsFirst returns a view of [batch, heads, rows, columns].
func HeadsFirst[T kit.RealFloat](data []T, heads, rows, cols int) HeadView[T] {
	return HeadView[T]{Data: data, Batch: heads * rows * cols, Head: rows * cols, Row: cols}
}

// HeadsLast returns a view of [batch, rows, heads·columns].
func HeadsLast[T kit.RealFloat](data []T, heads, rows, cols int) HeadView[T] {
	return HeadView[T]{Data: data, Batch: rows * heads * cols, Head: cols, Row: heads * cols}
}

// CopyHeads copies n rows of cols elements, for every batch item and head, from row srcRow of src
// to row dstRow of dst. It does not return if the run must stop.
func CopyHeads[T kit.RealFloat](c *ir.Call, dst, src HeadView[T], batch, heads, dstRow, srcRow, n, cols int) {
	if n == 0 || cols == 0 { // batch may be large then
		return
	}
	m := ir.Meter{C: c}
	for b := range batch {
		for h := range heads {
			for i := range n {
				m.Check(cols)
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

// Core computes Y = softmax(cap(scale·Q·Kᵀ) + bias)·V for every batch item and query head.
// Query head h uses key and value head h·kvHeads/heads.
type Core[T kit.RealFloat] struct {
	Batch, Heads, KVHeads  int
	QLen, KVLen, Dim, VDim int
	Q, K, V, Y             HeadView[T]
	Scale, Softcap         float64 // softcap 0: no cap
	Observe                ScoreStage
	Observed               []T                           // [batch, heads, qLen, kvLen] for observe
	Bias                   *Bias[T]                      // nil: no bias
	Visible                func(b, i int) (from, to int) // keys in [from, to) are visible; nil: all keys
	// an additional logit in the softmax without a value; nil: none
	Sink func(h int) (float64, bool)
	// the result for scores that are all −Inf is NaN, as that of Softmax, not 0
	NaN bool
	// probabilities that are NaN, which are those of all keys of a query, become 0
	ZeroNaN bool
}

// Bias is added to the scores.
type Bias[T kit.RealFloat] struct {
	Fill func(b, h, i int, row []T) // writes the bias of one query
	Rows HeadView[T]                // where the bias of each query is in memory, or without data
}

const (
	// attentionScores limits the scores of a block of queries, which stay in the second-level cache
	// with the keys and values of their head.
	attentionScores = 1 << 15
	// attentionRows is the least number of queries per block: one tile of the largest kernel.
	attentionRows = 14
	// blockRows is the most: a few tiles. Many threads divide a few heads by blocks, and a causal
	// mask hides many keys from all queries of a block.
	blockRows = 3 * attentionRows
)

// attentionPlan describes how the queries of a head are divided, and the memory of one thread. The
// division into blocks does not depend on the number of threads, because results may.
type attentionPlan struct {
	blocks, chunks int  // chunks are ranges of blocks that share packed keys and values
	packed         bool // the keys, and the values unless their size is 0
	shared         bool // keys and values are packed before, for all chunks and all heads that share them
	rounded        bool // keys, values and the left operands are rounded to bfloat16
	keys, values   int  // elements of the packed matrices
	staging        int  // elements of a matrix before it is rounded
	scores         int
}

func (a *Core[T]) plan(c *ir.Call) attentionPlan {
	rows := max(attentionRows, min(blockRows, attentionScores/max(1, a.KVLen)))
	p := attentionPlan{blocks: (a.QLen + rows - 1) / rows}
	p.scores = (a.QLen+p.blocks-1)/p.blocks*(a.KVLen+scoresGap) + a.KVLen
	// Packed keys and values are read faster, but packing takes as long as the GEMMs of a few
	// queries.
	p.packed = !c.Generic && a.QLen > 2*attentionRows && a.Dim*a.VDim*a.KVLen > 0
	p.chunks = p.blocks
	if p.packed {
		p.keys, p.values = gemm.PackedLen(a.Dim, a.KVLen), gemm.PackedLen(a.KVLen, a.VDim)
		if _, single := any(a.Y.Data).([]float32); single && c.BFloat16 && max(a.Dim, a.KVLen) <= gemm.MaxBF16K {
			p.rounded, p.staging = true, max(p.keys, p.values)
			p.keys, p.values = gemm.BF16Len(a.Dim, a.KVLen)/2, gemm.BF16Len(a.KVLen, a.VDim)/2
		} else if cpu.Active() == cpu.AVX512 { // tiles read rows of values as fast as panels
			p.values = 0
		}
		heads := a.Batch * a.Heads
		p.chunks = min(p.blocks, (4*c.Threads()+heads-1)/heads)
		p.shared = p.chunks > 1
	}
	return p
}

// scoresGap is the distance of rows of scores that would share the sets of a cache.
const scoresGap = 16

// scoresStride returns the distance between the beginnings of rows of n scores.
func scoresStride(n int) int {
	if n%512 == 0 {
		return n + scoresGap
	}
	return n
}

// Compute computes all heads, chunks of queries in parallel.
func (a *Core[T]) Compute(c *ir.Call) error {
	if err := a.compute(c, ir.ScratchOf[T], c.Parallel); err != nil {
		return err
	}
	return c.Err()
}

// Launch launches the computation of all heads, which reads the views later.
func (a *Core[T]) Launch(c *ir.Call) error {
	return a.compute(c, ir.LaunchScratchOf[T], c.Launch)
}

func (a *Core[T]) compute(c *ir.Call, scratch func(c *ir.Call, n int) ([]T, error),
	run func(n, grain int, fn func(lo, hi int))) error {
	if a.Batch*a.Heads*a.QLen == 0 {
		return nil
	}
	if a.few(c) {
		return a.computeFew(c)
	}
	p := a.plan(c)
	s := headsSection[T]{a: a, c: c, plan: p, items: a.Batch * a.Heads * p.chunks, pairs: a.Batch * a.KVHeads,
		own: p.keys + p.values + p.scores + p.staging}
	both := p.keys + p.values
	if s.own -= both; !p.shared {
		s.own, s.pairs = s.own+both, 0
	}
	s.workspaces = kit.WorkspaceCount(c, s.items)
	memory, err := scratch(c, s.pairs*both+s.workspaces*s.own)
	if err != nil {
		return err
	}
	s.packed, s.scratch = memory[:s.pairs*both], memory[s.pairs*both:]
	s.heads = keptHeads[T](c, s.workspaces)
	if s.pairs > 0 {
		run(min(s.pairs, s.workspaces), 1, ir.Do(c, packSection[T]{s}))
	}
	run(s.workspaces, 1, ir.Do(c, s))
	return nil
}

// keptHeads returns n heads that the call keeps.
func keptHeads[T kit.RealFloat](c *ir.Call, n int) []attentionHead[T] {
	h := ir.Kept[[]attentionHead[T]](c)
	if len(*h) < n {
		*h = make([]attentionHead[T], n)
	}
	return *h
}

// pack packs the keys of a head and, if that is planned, the values behind them.
func (a *Core[T]) pack(w *attentionHead[T], staging []T) {
	if w.packed {
		w.pack(w.k[:w.keys], staging, a.K.At(w.b, w.kv, 0), a.K.Row, true, a.Dim, a.KVLen)
	}
	if w.values > 0 {
		w.pack(w.k[w.keys:], staging, a.V.At(w.b, w.kv, 0), a.V.Row, false, a.KVLen, a.VDim)
	}
}

// pack writes a K×N matrix to dst, packed and, if that is planned, rounded.
func (w *attentionHead[T]) pack(dst, staging, b []T, ld int, trans bool, k, n int) {
	packed := dst
	if w.rounded {
		packed = staging[:gemm.PackedLen(k, n)]
	}
	gemm.Pack(packed, b, ld, trans, k, n)
	if w.rounded {
		gemm.PackBF16(cpu.Active(), bf16Data(dst), any(packed).([]float32), k, n)
	}
}

// bf16Data returns the bfloat16 numbers in the memory of s.
func bf16Data[T kit.RealFloat](s []T) []uint16 { return memory.FromRaw[uint16](memory.AsBytes(s)) }

// attentionHead is the state of a thread that computes queries of one head.
type attentionHead[T kit.RealFloat] struct {
	attentionPlan
	b, h, kv int
	k, v     []T // packed
	s        []T // scores of a block, and one row of bias
	ld       int // stride of the scores
	scoring  gemm.Args[T]
	most     float64 // greatest length of a key, infinity if a value is not finite, or -1 if not known yet
}

// block computes n queries of one head from query i0 on.
func (a *Core[T]) block(c *ir.Call, w *attentionHead[T], i0, n int) {
	length := min(a.visibleKeys(w.b, i0, n), a.unmaskedKeys(w, i0, n))
	w.ld = scoresStride(length)
	fast := length > 0 && a.fast(c)
	if length > 0 {
		a.rawScores(c, w, i0, n, length, fast)
	}
	a.probabilities(c, w, i0, n, length, fast)
	a.product(c, w, i0, n, length)
}

// fast reports whether softmaxRows can compute the probabilities.
func (a *Core[T]) fast(c *ir.Call) bool {
	_, float := any(a.Y.Data).([]float32)
	return float && !c.Generic && a.Dim > 0 && T(a.Scale) != 0 && a.Softcap == 0 && a.Observe < 0 && a.Sink == nil
}

// probabilities converts raw scores, with the bias if fast is set, to probabilities.
func (a *Core[T]) probabilities(c *ir.Call, w *attentionHead[T], i0, n, length int, fast bool) {
	bias, meter := w.s[len(w.s)-a.KVLen:], ir.Meter{C: c}
	if !fast || !a.softmaxRows(c, w, i0, n, length) {
		for i := range n {
			meter.Check(2 * kit.ExpCost * length)
			a.normalize(c, w.b, w.h, i0+i, w.s[i*w.ld:][:length], bias)
		}
	}
}

// product writes the products of probabilities and values.
func (a *Core[T]) product(c *ir.Call, w *attentionHead[T], i0, n, length int) {
	y, meter := a.Y.At(w.b, w.h, i0), ir.Meter{C: c}
	if length == 0 {
		for i := range n {
			clear(y[i*a.Y.Row:][:a.VDim])
		}
		return
	}
	if a.VDim == 0 {
		return
	}
	v := a.V.At(w.b, w.kv, 0)
	switch {
	case c.Generic:
		for i := range n {
			out := y[i*a.Y.Row:][:a.VDim]
			for d := range out {
				meter.Check(length)
				s := 0.0
				for j, p := range w.s[i*w.ld:][:length] {
					s += float64(p) * float64(v[j*a.V.Row+d])
				}
				out[d] = T(s)
			}
		}
	case w.rounded && length == a.KVLen:
		GemmSerial(&gemm.Args[T]{M: n, N: a.VDim, K: length, A: w.s, LdA: w.ld, BF16: bf16Data(w.v),
			C: y, LdC: a.Y.Row})
	case w.rounded: // panels have more rows than keys are visible
		size := gemm.BF16Len(a.KVLen, 1)
		for d := 0; d < a.VDim; d += gemm.PanelWidth {
			GemmSerial(&gemm.Args[T]{M: n, N: min(gemm.PanelWidth, a.VDim-d), K: length, A: w.s, LdA: w.ld,
				BF16: bf16Data(w.v)[d/gemm.PanelWidth*size:], C: y[d:], LdC: a.Y.Row})
		}
	case w.values > 0:
		for d := 0; d < a.VDim; d += gemm.PanelWidth {
			GemmSerial(&gemm.Args[T]{M: n, N: min(gemm.PanelWidth, a.VDim-d), K: length, A: w.s, LdA: w.ld,
				B: w.v[d*a.KVLen:], LdB: gemm.PanelWidth, Packed: true, C: y[d:], LdC: a.Y.Row})
		}
	default:
		w.scoring = gemm.Args[T]{M: n, N: a.VDim, K: length, A: w.s, LdA: w.ld, B: v, LdB: a.V.Row, C: y, LdC: a.Y.Row}
		matmul.GemmHere(c, &w.scoring)
	}
}

// visibleKeys returns the number of keys that n queries from query i0 on need: the others are not
// visible to any of them.
func (a *Core[T]) visibleKeys(b, i0, n int) int {
	if a.Visible == nil || a.Observe >= 0 {
		return a.KVLen
	}
	most := 0
	for i := range n {
		if from, to := a.Visible(b, i0+i); to > from {
			most = max(most, to)
		}
	}
	return min(most, a.KVLen)
}

// visible returns the range of the first n keys that query i sees.
func (a *Core[T]) visible(b, i, n int) (from, to int) {
	from, to = a.Visible(b, i)
	from = min(max(from, 0), n)
	return from, min(max(to, from), n)
}

// rawScores writes scale·Q·Kᵀ of n queries and the first keys, plus the bias if biased is set and
// the bias has rows.
func (a *Core[T]) rawScores(c *ir.Call, w *attentionHead[T], i0, n, keys int, biased bool) {
	if a.few(c) {
		a.scores(w, 1, i0, n, 0, keys, biased)
		return
	}
	k, dst := a.K.At(w.b, w.kv, 0), w.s
	if c.Generic || a.Dim == 0 {
		meter := ir.Meter{C: c}
		for i := range n {
			q := a.Q.At(w.b, w.h, i0+i)[:a.Dim]
			for j := range keys {
				meter.Check(a.Dim)
				key := k[j*a.K.Row:][:len(q)]
				s := 0.0
				for d, v := range q {
					s += float64(v) * float64(key[d])
				}
				dst[i*w.ld+j] = T(s * a.Scale)
			}
		}
		return
	}
	alpha := T(a.Scale)
	if alpha == 0 {
		for i := range n {
			clear(dst[i*w.ld:][:keys])
		}
		return
	}
	g := &w.scoring
	*g = gemm.Args[T]{M: n, N: keys, K: a.Dim, A: a.Q.At(w.b, w.h, i0), LdA: a.Q.Row, B: k, LdB: a.K.Row, TransB: true,
		C: dst, LdC: w.ld, Epilogue: gemm.Epilogue[T]{Alpha: alpha}}
	if biased && a.Bias != nil && a.Bias.Rows.Data != nil {
		g.Add, g.LdAdd = a.Bias.Rows.At(w.b, w.h, i0), a.Bias.Rows.Row
	}
	if w.rounded {
		g.B, g.TransB, g.BF16 = nil, false, bf16Data(w.k)
	} else if w.packed {
		g.B, g.LdB, g.TransB, g.Packed = w.k, gemm.PanelWidth, false, true
	}
	GemmSerial(g)
}

// softmaxRows converts the scores of n queries, with the bias if it has rows, to probabilities at
// once. It returns false, with the raw scores in place, if a row needs more than the kernel for
// rows.
func (a *Core[T]) softmaxRows(c *ir.Call, w *attentionHead[T], i0, n, length int) bool {
	scores, level := any(w.s).([]float32), cpu.Active()
	bias := scores[len(w.s)-a.KVLen:]
	if a.Bias != nil && a.Bias.Rows.Data == nil {
		for i := range n {
			a.Bias.Fill(w.b, w.h, i0+i, w.s[len(w.s)-a.KVLen:])
			row := scores[i*w.ld:][:length]
			vec.AddF32(level, row, row, bias)
		}
	}
	for i := 0; i < n && a.Visible != nil; i++ {
		row := scores[i*w.ld:][:length]
		from, to := a.visible(w.b, i0+i, length)
		vec.FillF32(row[:from], float32(math.Inf(-1)))
		vec.FillF32(row[to:], float32(math.Inf(-1)))
	}
	if w.ld == length {
		vec.SoftmaxRowsF32(level, scores[:n*length], scores, length)
	}
	for i := range n {
		row := scores[i*w.ld:][:length]
		if w.ld != length {
			vec.SoftmaxF32(level, row, row)
		}
		if a.NaN || row[0] == row[0] {
			a.zeroNaN(w.s[i*w.ld:][:length])
			continue
		}
		from, to := 0, length
		if a.Visible != nil {
			from, to = a.visible(w.b, i0+i, length)
		}
		masked := from == to
		if !masked && a.Bias != nil {
			a.Bias.Fill(w.b, w.h, i0+i, w.s[len(w.s)-a.KVLen:])
			masked = math.IsInf(float64(vec.ReduceMaxF32(level, bias[from:to])), -1)
		}
		if !masked { // a score is NaN, or all are -Inf without the bias
			a.rawScores(c, w, i0, n, length, false)
			return false
		}
		clear(row)
	}
	return true
}

// normalize converts the raw scores of one query and its first keys to probabilities: zeros if the
// query sees no key, unless NaN is set.
func (a *Core[T]) normalize(c *ir.Call, b, h, i int, row, bias []T) {
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
	from, to := 0, len(row)
	if a.Bias != nil || a.Visible != nil {
		if a.Visible != nil {
			from, to = a.visible(b, i, len(row))
		}
		ninf := T(math.Inf(-1))
		masked = true
		if a.Bias != nil {
			a.Bias.Fill(b, h, i, bias)
			masked = addBias(c, row[from:to], bias[from:to]) == ninf
		} else {
			masked = from == to
		}
		if seen != nil || a.NaN {
			for j := range from {
				row[j] = ninf
			}
			for j := to; j < len(row); j++ {
				row[j] = ninf
			}
		}
	}
	show(ScoresBiased)
	r, fast := any(row).([]float32)
	switch {
	case a.NaN && fast && !c.Generic:
		vec.SoftmaxF32(cpu.Active(), r, r)
	case masked && !a.NaN:
		clear(row)
	default:
		var logit float64
		sink := false
		if a.Sink != nil {
			logit, sink = a.Sink(h)
		}
		visible := row
		if !a.NaN {
			clear(row[:from])
			clear(row[to:])
			visible = row[from:to]
		}
		SoftmaxRow(c, visible, logit, sink)
	}
	a.zeroNaN(row)
	show(ScoresSoftmax)
}

// zeroNaN clears the probabilities of a query if they are NaN and ZeroNaN is set.
func (a *Core[T]) zeroNaN(row []T) {
	if a.ZeroNaN && len(row) > 0 && row[0] != row[0] {
		clear(row)
	}
}

// addBias adds a bias to scores and returns its maximum.
func addBias[T kit.RealFloat](c *ir.Call, row, bias []T) T {
	top := T(math.Inf(-1))
	if r, ok := any(row).([]float32); ok && !c.Generic && len(r) > 0 {
		b := any(bias).([]float32)
		vec.AddF32(cpu.Active(), r, r, b)
		return T(vec.ReduceMaxF32(cpu.Active(), b))
	}
	for j, v := range bias {
		row[j] += v
		top = max(top, v)
	}
	return top
}

// SoftmaxRow computes the softmax of a row in place, or zeros if all elements are −Inf. If sink is
// set, exp(logit) is part of the sum.
func SoftmaxRow[T kit.RealFloat](c *ir.Call, row []T, logit float64, sink bool) {
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
		sum := vec.ExpSubSumF32(cpu.Active(), r, r, float32(top))
		if sink {
			sum += float32(math.Exp(logit - float64(top)))
		}
		vec.MulScalarF32(cpu.Active(), r, r, 1/sum)
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

// GemmSerial computes the GEMM on the calling thread with the best kernel for T.
func GemmSerial[T kit.RealFloat](g *gemm.Args[T]) {
	gemm.Parallel(nil, cpu.Active(), g)
}
