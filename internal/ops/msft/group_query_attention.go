package msft

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// GroupQueryAttention computes causal attention of a decoder with a key-value cache
// [batch, kv heads, capacity, size]. Groups of query heads share a key head and a value
// head. query may contain the keys and values, after the queries. Batch item b has
// seqlens_k[b]+1 tokens, including the new ones; the cache may be longer
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GroupQueryAttention).
type GroupQueryAttention struct {
	Heads, KVHeads      int
	Scale, Softcap      float32
	Window              int // number of last keys that a query attends to; −1: all
	Causal              bool
	Rotary, Interleaved bool
	Smooth              bool // softmax with an additional logit of 0
	QK                  attention.ScoreStage
	NormEpsilon         float32
	Cache               [2]kvQuant // quantization of keys and of values
	Sliding             bool       // the cache holds only the tokens of the window, see [slidingCache]
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "GroupQueryAttention", Since: kit.Versions{1},
	MACs: kit.AttentionMACs,
	In: "query:T, key:T?, value:T?, past_key:C?, past_value:C?, seqlens_k:int32, total_sequence_length:int32, " +
		"cos_cache:T?, sin_cache:T?, " +
		"position_ids:int64?, attention_bias:T?, head_sink:T?, k_scale:float?, v_scale:float?, q_norm_weight:T?, " +
		"k_norm_weight:T?",
	Out:         "output:T, present_key:C?, present_value:C?, output_qk:T?",
	KeepOutputs: kit.Always, // ONNX Runtime requires the present of a past
	Types:       "T: float float16 bfloat16; C: float float16 bfloat16 int8 uint8",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &GroupQueryAttention{Heads: attention.ReadHeads(a, "num_heads"),
			KVHeads: attention.ReadHeads(a, "kv_num_heads"), Scale: a.Float("scale", 0),
			Softcap: a.Float("softcap", 0), Window: a.Int("local_window_size", -1), Causal: a.Bool("causal", true),
			Rotary:      a.Bool("do_rotary", false),
			Interleaved: a.Bool("rotary_interleaved", false), Smooth: a.Int("smooth_softmax", 0) == 1,
			QK: attention.ScoresNone, NormEpsilon: a.Float("qk_norm_epsilon", 1e-6)}
		if op.Heads%op.KVHeads != 0 {
			a.Errorf("num_heads is %d, want a multiple of kv_num_heads, which is %d", op.Heads, op.KVHeads)
		}
		if op.Window < -1 || op.Window == 0 || op.Window > 0 && !op.Causal {
			a.Errorf("local_window_size must be -1 or positive, and -1 without causal, got %d with causal %v",
				op.Window, op.Causal)
		}
		if !(op.Softcap >= 0) {
			a.Errorf("softcap is %v, want 0 or more", op.Softcap)
		}
		switch q := a.Int("qk_output", 0); q {
		case 0:
		case 1:
			op.QK = attention.ScoresBiased
		case 2:
			op.QK = attention.ScoresSoftmax
		default:
			a.Errorf("qk_output is %d, want 0 to 2", q)
		}
		op.Cache = [2]kvQuant{readKVQuant(a, "k_quant_type"), readKVQuant(a, "v_quant_type")}
		if op.Sliding = a.Bool("sliding_window_cache", false); op.Sliding &&
			(op.Window < 1 || op.QK != attention.ScoresNone) {
			a.Errorf("sliding_window_cache is 1 with a local_window_size of %d and qk_output %d, want a positive "+
				"window and qk_output 0", op.Window, a.Int("qk_output", 0))
		}
		return op
	}})

// Infer sets the shapes as far as the shape of the query determines them.
func (op *GroupQueryAttention) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 3, "query"); err != nil {
		return err
	}
	y, present, qk := ir.UnknownDims(3), ir.UnknownDims(4), ir.UnknownDims(4)
	present[1], qk[1] = ir.Known(op.KVHeads), ir.Known(op.Heads)
	if q := c.Shape(0); q != nil {
		y[0], y[1] = q[0], q[1]
		size := q[2].Div(ir.Known(op.Heads))
		if !c.Has(1) {
			size = q[2].Div(ir.Known(op.Heads + 2*op.KVHeads))
		}
		y[2], present[3] = size.Mul(ir.Known(op.Heads)), size
	}
	present[0], qk[0], qk[2] = y[0], y[0], y[1]
	c.SetOut(0, ir.TensorType(c.Elem(0), y...))
	for i, q := range op.Cache {
		cache := slices.Clone(present)
		if size, ok := present[3].Value(); ok {
			cache[3] = ir.Known(q.width(size))
		} else if q.width(2) == 1 {
			cache[3] = ir.Unknown
		}
		c.SetOut(1+i, ir.TensorType(q.elem(c.Elem(0)), cache...))
	}
	c.SetOut(3, ir.TensorType(c.Elem(0), qk...))
	return nil
}

// Extends implements [ir.Appender] for caches that keep all tokens as they are. Elements of a
// longer buffer that follow the new tokens keep their contents.
func (op *GroupQueryAttention) Extends(out int) (in, axis int, ok bool) {
	ok = (out == 1 || out == 2) && !op.Sliding && !op.Cache[out-1].on()
	return out + 2, 2, ok
}

// Run appends the new keys and values to the cache and computes attention in float32.
func (op *GroupQueryAttention) Run(c *ir.Call) error {
	qt := c.Tensor(0)
	qs := qt.Shape()
	if len(qs) != 3 {
		return fail.Errorf("query has shape %v, want [batch, length, hidden]", qs)
	}
	batch, n, width, h, kvh := qs[0], qs[1], qs[2], op.Heads, op.KVHeads
	var in [3][]float32
	for i := range in {
		var err error
		if in[i], err = kit.RealIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	var dim int
	var q, k, v attention.HeadView[float32]
	if c.Has(1) != c.Has(2) {
		return fail.Errorf("key and value must be given together")
	}
	if c.Has(1) {
		dim = width / h
		want := []int{batch, n, kvh * dim}
		if width%h != 0 || !slices.Equal(c.Tensor(1).Shape(), want) || !slices.Equal(c.Tensor(2).Shape(), want) {
			return fail.Errorf("query, key and value have shapes %v, %v and %v, which are inconsistent for %d query "+
				"heads and %d key-value heads", qs, c.Tensor(1).Shape(), c.Tensor(2).Shape(), h, kvh)
		}
		q, k, v = attention.HeadsLast(in[0], h, n, dim), attention.HeadsLast(in[1], kvh, n, dim),
			attention.HeadsLast(in[2], kvh, n, dim)
	} else {
		dim = width / (h + 2*kvh)
		if width%(h+2*kvh) != 0 {
			return fail.Errorf("query has shape %v, want a last dimension divisible by %d heads of queries, "+
				"keys and values", qs, h+2*kvh)
		}
		part := func(head int) attention.HeadView[float32] {
			return attention.HeadView[float32]{Data: in[0][min(head*dim, len(in[0])):], Batch: n * width,
				Head: dim, Row: width}
		}
		q, k, v = part(0), part(h), part(h+kvh)
	}
	total, err := kit.ScalarInt(c.Tensor(6), "total_sequence_length")
	if err != nil {
		return err
	}
	lens := tensor.MustData[int32](c.Tensor(5))
	if len(lens) != batch {
		return fail.Errorf("seqlens_k has shape %v, want [%d]", c.Tensor(5).Shape(), batch)
	}
	capacity := 0
	if c.Has(3) != c.Has(4) {
		return fail.Errorf("past_key and past_value must be given together")
	}
	if c.Has(3) {
		pk, pv := c.Tensor(3).Shape(), c.Tensor(4).Shape()
		if len(pk) == 4 {
			capacity = pk[2]
		}
		for i, q := range op.Cache {
			p := c.Tensor(3 + i)
			if want := []int{batch, kvh, capacity, q.width(dim)}; !slices.Equal(p.Shape(), want) ||
				p.DType() != q.elem(qt.DType()) {
				return fail.Errorf("past_key and past_value are %s %v and %s %v, want %s [%d %d capacity %d]",
					c.Tensor(3).DType(), pk, c.Tensor(4).DType(), pv, q.elem(qt.DType()), batch, kvh, q.width(dim))
			}
		}
	}
	if op.Sliding && capacity < op.Window {
		return fail.Errorf("sliding_window_cache is 1: the cache holds %d tokens, want %d or more, as many as "+
			"local_window_size", capacity, op.Window)
	}
	present := max(capacity, total)
	if total < 0 || total > math.MaxInt32 {
		return fail.Errorf("total_sequence_length must be a non-negative int32, got %d", total)
	}
	// past[b] is the number of tokens before the new ones. A first prompt may have padding
	// after its end; all of its rows are computed.
	r := ir.Kept[groupedRun](c)
	past := append(r.past[:0], make([]int, batch)...)
	r.past = past
	for b, last := range lens {
		l := int(last) + 1
		if l < 1 || l > present || op.Sliding && l > total {
			return fail.Errorf("seqlens_k[%d] is %d, want 0 to %d", b, l-1, present-1)
		}
		if n != total {
			past[b] = l - n
		}
		if past[b] < 0 || past[b] > capacity && !op.Sliding || past[b]+n > present {
			return fail.Errorf("seqlens_k[%d] is %d, which is inconsistent with %d new tokens and a cache of %d",
				b, l-1, n, capacity)
		}
	}
	if q, err = op.prepare(c, q, 14, batch, h, n, dim, past, n == total); err != nil {
		return err
	}
	if k, err = op.prepare(c, k, 15, batch, kvh, n, dim, past, n == total); err != nil {
		return err
	}
	var outs [2]kit.RealOutput[float32]
	held, kvLen := past, total // held: number of cached tokens before the new ones
	var slide *slidingCache
	if op.Sliding {
		slide = newSlidingCache(capacity, op.Window, n, past, kit.Ints(c.Tensor(5)))
		held, kvLen = slide.held, slide.length
	}
	reach := kvLen // number of rows that attention reads
	for b := range batch {
		reach = max(reach, held[b]+n)
	}
	a := &r.core
	*a = attention.Core[float32]{Batch: batch, Heads: h, KVHeads: kvh, QLen: n, KVLen: reach, Dim: dim,
		VDim: dim, Q: q, Scale: attention.Scale(op.Scale, dim), Softcap: float64(op.Softcap),
		Observe: attention.ScoresNone}
	half := a.ReadsHalf(c, qt.DType()) && !c.Wants(3) && !c.Has(11) && !op.Smooth
	for i, src := range []*attention.HeadView[float32]{&k, &v} {
		if slide != nil {
			if *src, outs[i], err = slide.push(c, op.Cache[i], 1+i, 12+i, c.Tensor(3+i), *src, kvh, dim); err != nil {
				return err
			}
			continue
		}
		if op.Cache[i].on() {
			if *src, err = op.Cache[i].cache(c, 1+i, 12+i, c.Tensor(3+i), *src, past, kvh, n, capacity,
				present, dim); err != nil {
				return err
			}
			continue
		}
		var inPlace bool
		if *src, inPlace, err = attention.Extend(c, 1+i, qt.DType(), *src, past, kvh, n, present,
			reach, dim, half); err != nil {
			return err
		} else if inPlace {
			continue
		}
		if *src, outs[i], err = appendEach(c, 1+i, c.Tensor(3+i), *src, past, false, kvh, n, capacity,
			present, dim); err != nil {
			return err
		}
	}
	a.K, a.V = k, v
	if r.op, r.held, r.n = op, held, n; r.visible == nil {
		r.visible = r.keys
	}
	a.Visible = r.visible
	if slide != nil {
		a.Bias, err = msBiasFrom(c, nil, c.Tensor(10), batch, h, n, total, slide.base)
	} else {
		a.Bias, err = msBias(c, nil, c.Tensor(10), batch, h, n, a.KVLen)
	}
	if err != nil {
		return err
	}
	if s := c.Tensor(11); s != nil {
		if s.Rank() != 1 || s.Len() != h {
			return fail.Errorf("head_sink has shape %v, want [%d]", s.Shape(), h)
		}
		sinks, err := kit.RealIn[float32](c, s)
		if err != nil {
			return err
		}
		a.Sink = func(head int) (float64, bool) { return float64(sinks[head]), true }
	} else if op.Smooth {
		a.Sink = func(int) (float64, bool) { return 0, true }
	}
	var qk kit.RealOutput[float32]
	if c.Wants(3) {
		if op.QK == attention.ScoresNone {
			return fail.Errorf("output output_qk is used, but attribute qk_output is 0")
		}
		if qk, err = kit.RealOut[float32](c, 3, qt.DType(), batch, h, n, a.KVLen); err != nil {
			return err
		}
		a.Observe, a.Observed = op.QK, qk.Data
	}
	y, err := kit.RealOut[float32](c, 0, qt.DType(), batch, n, h*dim)
	if err != nil {
		return err
	}
	a.Y = attention.HeadsLast(y.Data, h, n, dim)
	if err := a.Compute(c); err != nil {
		return err
	}
	for _, o := range []kit.RealOutput[float32]{y, outs[0], outs[1], qk} {
		if o.T != nil {
			o.Store()
		}
	}
	return nil
}

// groupedRun holds what a call of a binding does not allocate again.
type groupedRun struct {
	core    attention.Core[float32]
	past    []int
	op      *GroupQueryAttention
	held    []int // tokens in the cache before the new ones, for each batch item
	n       int   // new tokens
	visible func(b, i int) (from, to int)
}

// keys returns the range of keys that query i of batch item b sees.
func (r *groupedRun) keys(b, i int) (from, to int) {
	if !r.op.Causal {
		return 0, r.held[b] + r.n
	}
	to = r.held[b] + i + 1
	if r.op.Window > 0 {
		from = to - r.op.Window
	}
	return from, to
}

// prepare normalizes each head's vectors and scales them by input norm, if that is given.
// It then rotates them by their positions if the operator has rotary embeddings.
func (op *GroupQueryAttention) prepare(c *ir.Call, v attention.HeadView[float32], norm, batch, heads, n, dim int,
	past []int, first bool) (attention.HeadView[float32], error) {
	if !op.Rotary && !c.Has(norm) {
		return v, nil
	}
	data, err := ir.ScratchOf[float32](c, batch*heads*n*dim)
	if err != nil {
		return v, err
	}
	r := attention.HeadsFirst(data, heads, n, dim)
	attention.CopyHeads(c, r, v, batch, heads, 0, 0, n, dim)
	if w := c.Tensor(norm); w != nil {
		if w.Rank() != 1 || w.Len() != dim {
			return v, fail.Errorf("input %d has shape %v, want [%d]", norm, w.Shape(), dim)
		}
		gain, err := kit.RealIn[float32](c, w)
		if err != nil {
			return v, err
		}
		rows := reduce.NormRows[float32]{X: data, Y: data, Cols: dim, Gain: gain, Eps: float64(op.NormEpsilon)}
		if err := rows.Compute(c); err != nil {
			return v, err
		}
	}
	if !op.Rotary {
		return r, nil
	}
	return r, rotateCached(c, r, c.Tensor(7), c.Tensor(8), c.Tensor(9), op.Interleaved, batch,
		heads, n, dim, past, first)
}

// rotateCached rotates the heads of r in place by the angles of their positions.
// Positions are the given ones, or follow the past. For a first prompt, the first given
// position is the position of row 0 of every batch item.
func rotateCached(c *ir.Call, r attention.HeadView[float32], cosT, sinT, posT *tensor.Tensor, interleaved bool,
	batch, heads, n, dim int, past []int, first bool) error {
	if cosT == nil || sinT == nil || cosT.Rank() != 2 || !slices.Equal(cosT.Shape(), sinT.Shape()) ||
		cosT.Dim(1) > dim/2 {
		return fail.Errorf("cos_cache and sin_cache are %s and %s, want [positions, %d at most]", cosT, sinT, dim/2)
	}
	if posT != nil && posT.Len() != batch*n {
		return fail.Errorf("position_ids has shape %v, want [%d %d]", posT.Shape(), batch, n)
	}
	pos, half, rows := kit.Ints(posT), cosT.Dim(1), cosT.Dim(0)
	position := func(b, t int) int {
		switch {
		case pos != nil && first:
			return pos[0] + t
		case pos != nil:
			return pos[b*n+t]
		}
		return past[b] + t
	}
	from, to := rows, 0 // positions whose angles are read
	for b := range batch {
		for t := range n {
			p := position(b, t)
			if p < 0 || p >= rows {
				return fail.Errorf("position %d is out of range: the caches hold %d positions", p, rows)
			}
			from, to = min(from, p), max(to, p+1)
		}
	}
	if from >= to {
		return nil
	}
	cos, err := kit.RealRange[float32](c, cosT, from*half, to*half)
	if err != nil {
		return err
	}
	sin, err := kit.RealRange[float32](c, sinT, from*half, to*half)
	if err != nil {
		return err
	}
	for b := range batch {
		for t := range n {
			at := (position(b, t) - from) * half
			for h := range heads {
				x := r.At(b, h, t)[:dim]
				attention.RotateHead(x, x, cos[at:][:half], sin[at:][:half], interleaved)
			}
		}
	}
	return nil
}
