package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
)

// MultiHeadAttention computes attention of projected queries, keys and values, [batch,
// length, heads·size]. They may be packed: query [batch, length, heads, 3, size] or key
// [batch, length, heads, 2, size]. Keys and values may also be [batch, heads, length,
// size]. An optional bias is added to all three, and a mask and another bias to the
// scores
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MultiHeadAttention).
type MultiHeadAttention struct {
	Heads          int
	Scale, Filter  float32
	Unidirectional bool
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "MultiHeadAttention", Since: kit.Versions{1},
	MACs: kit.AttentionMACs,
	In: "query:T, key:T?, value:T?, bias:T?, key_padding_mask:int32?, attention_bias:T?, past_key:T?, " +
		"past_value:T?, past_sequence_length:int32?, cache_indirection:int32?",
	Out:         "output:T, present_key:T?, present_value:T?, qk:T?",
	KeepOutputs: kit.Always, // ONNX Runtime requires the present of a past
	Types:       "T: float float16 bfloat16", Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &MultiHeadAttention{attention.ReadHeads(a, "num_heads"), a.Float("scale", 0),
			a.Float("mask_filter_value", -10000), a.Bool("unidirectional", false)}
	}})

// Infer sets the shapes as far as the shapes of the inputs determine them.
func (op *MultiHeadAttention) Infer(c *ir.InferContext) error {
	heads := ir.Known(op.Heads)
	y, present, qk := ir.UnknownDims(3), ir.UnknownDims(4), ir.UnknownDims(4)
	present[1], qk[1] = heads, heads
	kvLen, vSize := ir.Unknown, ir.Unknown
	switch q := c.Shape(0); len(q) {
	case 0:
	case 3:
		y[0], y[1] = q[0], q[1]
		present[3] = q[2].Div(heads)
	case 5:
		y[0], y[1], y[2] = q[0], q[1], q[2].Mul(q[4])
		kvLen, vSize, present[3] = q[1], q[4], q[4]
	default:
		return fail.Errorf("query has rank %d, want 3 or 5", len(q))
	}
	if k := c.Shape(1); len(k) == 5 {
		kvLen, vSize = k[1], k[4]
		y[2] = heads.Mul(k[4])
	}
	switch v := c.Shape(2); len(v) {
	case 3:
		kvLen, y[2], vSize = v[1], v[2], v[2].Div(heads)
	case 4:
		kvLen, y[2], vSize = v[2], heads.Mul(v[3]), v[3]
	}
	total := kvLen
	if c.Has(6) {
		total = ir.Unknown
		if p := c.Shape(6); len(p) == 4 {
			total = p[2].Add(kvLen)
			if c.Has(8) {
				total = p[2]
			}
		}
	}
	present[0], qk[0], qk[2] = y[0], y[0], y[1]
	present[2], qk[3] = total, total
	if c.Has(8) {
		qk[3] = ir.Unknown // past_sequence_length plus the number of new tokens
	}
	c.SetOut(0, ir.TensorType(c.Elem(0), y...))
	c.SetOut(1, ir.TensorType(c.Elem(0), present...))
	value := slices.Clone(present)
	value[3] = vSize
	c.SetOut(2, ir.TensorType(c.Elem(0), value...))
	c.SetOut(3, ir.TensorType(c.Elem(0), qk...))
	return nil
}

// Extends implements [ir.Appender].
func (op *MultiHeadAttention) Extends(out int) (in, axis int, ok bool) {
	return out + 5, 2, out == 1 || out == 2
}

// Run computes attention in float32.
func (op *MultiHeadAttention) Run(c *ir.Call) error {
	qt, kt, vt := c.Tensor(0), c.Tensor(1), c.Tensor(2)
	var in [3][]float32
	for i := range in {
		var err error
		if in[i], err = kit.RealIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	a := &attention.Core[float32]{Heads: op.Heads, KVHeads: op.Heads, Observe: attention.ScoresNone}
	n, h := 0, op.Heads // n is the number of new keys
	projected := true   // whether the bias applies to keys and values
	switch {
	case qt.Rank() == 5 && kt == nil && vt == nil:
		s := qt.Shape()
		if s[2] != h || s[3] != 3 {
			return fail.Errorf("query has shape %v, want [batch, length, %d, 3, size]", s, h)
		}
		a.Batch, a.QLen, n, a.Dim, a.VDim = s[0], s[1], s[1], s[4], s[4]
		a.Q, a.K, a.V = packedHeads(in[0], 0, 3, h, a.QLen, a.Dim), packedHeads(in[0], 1, 3, h, n, a.Dim),
			packedHeads(in[0], 2, 3, h, n, a.Dim)
	case qt.Rank() == 3 && kt != nil:
		s, k := qt.Shape(), kt.Shape()
		if s[2]%h != 0 {
			return fail.Errorf("query has shape %v, want a last dimension divisible by %d heads", s, h)
		}
		a.Batch, a.QLen, a.Dim = s[0], s[1], s[2]/h
		a.Q = attention.HeadsLast(in[0], h, a.QLen, a.Dim)
		switch {
		case len(k) == 5 && vt == nil && k[0] == a.Batch && k[2] == h && k[3] == 2 && k[4] == a.Dim:
			n, a.VDim = k[1], a.Dim
			a.K, a.V = packedHeads(in[1], 0, 2, h, n, a.Dim), packedHeads(in[1], 1, 2, h, n, a.Dim)
		case len(k) == 3 && vt != nil && vt.Rank() == 3 && k[0] == a.Batch && k[2] == s[2] &&
			slices.Equal(vt.Shape()[:2], k[:2]) && vt.Dim(2)%h == 0:
			n, a.VDim = k[1], vt.Dim(2)/h
			a.K, a.V = attention.HeadsLast(in[1], h, n, a.Dim), attention.HeadsLast(in[2], h, n, a.VDim)
		case len(k) == 4 && vt != nil && vt.Rank() == 4 && k[0] == a.Batch && k[1] == h && k[3] == a.Dim &&
			slices.Equal(vt.Shape()[:3], k[:3]):
			n, a.VDim, projected = k[2], vt.Dim(3), false
			a.K, a.V = attention.HeadsFirst(in[1], h, n, a.Dim), attention.HeadsFirst(in[2], h, n, a.VDim)
		default:
			return fail.Errorf("query, key and value are %s, %s and %s, which are inconsistent for %d heads",
				qt, kt, vt, h)
		}
	default:
		return fail.Errorf("query, key and value are %s, %s and %s, which is not a supported combination", qt, kt, vt)
	}
	if b := c.Tensor(3); b != nil {
		want := 2*h*a.Dim + h*a.VDim
		if b.Rank() != 1 || b.Len() != want {
			return fail.Errorf("bias has shape %v, want [%d]", b.Shape(), want)
		}
		bias, err := kit.RealIn[float32](c, b)
		if err != nil {
			return err
		}
		if a.Q, err = plusBias(c, a.Q, a.Batch, h, a.QLen, a.Dim, bias[:h*a.Dim]); err != nil {
			return err
		}
		if projected {
			if a.K, err = plusBias(c, a.K, a.Batch, h, n, a.Dim, bias[h*a.Dim:2*h*a.Dim]); err != nil {
				return err
			}
			if a.V, err = plusBias(c, a.V, a.Batch, h, n, a.VDim, bias[2*h*a.Dim:]); err != nil {
				return err
			}
		}
	}
	past := 0
	if c.Has(6) != c.Has(7) {
		return fail.Errorf("past_key and past_value must be given together")
	}
	if c.Has(6) {
		pk, pv := c.Tensor(6).Shape(), c.Tensor(7).Shape()
		if len(pk) == 4 {
			past = pk[2]
		}
		if !slices.Equal(pk, []int{a.Batch, h, past, a.Dim}) || !slices.Equal(pv, []int{a.Batch, h, past, a.VDim}) {
			return fail.Errorf("past_key and past_value have shapes %v and %v, want [%d %d past %d] and [%[3]d "+
				"%[4]d past %[6]d]", pk, pv, a.Batch, h, a.Dim, a.VDim)
		}
	}
	a.Scale = attention.Scale(op.Scale, a.Dim)
	half := a.ReadsHalf(c, qt.DType()) && !c.Wants(3)
	var kOut, vOut, qk kit.RealOutput[float32]
	var err error
	if capacity := past; c.Has(8) {
		// The past is a buffer whose first tokens are valid; the new tokens are written after
		// them.
		if past, err = kit.ScalarInt(c.Tensor(8), "past_sequence_length"); err != nil {
			return err
		}
		if past < 0 || past > capacity-n {
			return fail.Errorf("past_sequence_length is %d, which leaves no room for %d new tokens in a buffer of %d",
				past, n, capacity)
		}
		from, err := cacheBeams(c, nil, c.Tensor(9), a.Batch, past)
		if err != nil {
			return err
		}
		if a.K, kOut, err = appendBuffer(c, 1, c.Tensor(6), a.K, from, a.Batch, h, past, n, capacity,
			capacity, a.Dim, half); err != nil {
			return err
		}
		if a.V, vOut, err = appendBuffer(c, 2, c.Tensor(7), a.V, from, a.Batch, h, past, n, capacity, capacity,
			a.VDim, half); err != nil {
			return err
		}
	} else {
		if c.Has(9) {
			return fail.Errorf("cache_indirection requires past_sequence_length")
		}
		if a.K, kOut, err = appendPast(c, 1, c.Tensor(6), past, a.K, a.Batch, h, n, a.Dim, half); err != nil {
			return err
		}
		if a.V, vOut, err = appendPast(c, 2, c.Tensor(7), past, a.V, a.Batch, h, n, a.VDim, half); err != nil {
			return err
		}
	}
	a.KVLen = past + n
	var mask func(b, i int, row []float32)
	if m := c.Tensor(4); m != nil {
		if mask, err = msMask(m, a.Batch, a.QLen, a.KVLen, past, op.Filter); err != nil {
			return err
		}
	}
	if a.Bias, err = msBias(c, mask, c.Tensor(5), a.Batch, h, a.QLen, a.KVLen); err != nil {
		return err
	}
	if op.Unidirectional {
		a.Visible = func(b, i int) (int, int) { return 0, past + i + 1 }
	}
	if c.Wants(3) {
		if qk, err = kit.RealOut[float32](c, 3, qt.DType(), a.Batch, h, a.QLen, a.KVLen); err != nil {
			return err
		}
		a.Observe, a.Observed = attention.ScoresSoftmax, qk.Data
	}
	y, err := kit.RealOut[float32](c, 0, qt.DType(), a.Batch, a.QLen, h*a.VDim)
	if err != nil {
		return err
	}
	a.Y = attention.HeadsLast(y.Data, h, a.QLen, a.VDim)
	if err := a.Compute(c); err != nil {
		return err
	}
	for _, o := range []kit.RealOutput[float32]{y, kOut, vOut, qk} {
		if o.T != nil {
			o.Store()
		}
	}
	return nil
}

// packedHeads returns a view of part k of [batch, length, heads, parts, size].
func packedHeads(data []float32, k, parts, heads, length, size int) attention.HeadView[float32] {
	return attention.HeadView[float32]{Data: data[min(k*size, len(data)):], Batch: length * heads * parts * size,
		Head: parts * size, Row: heads * parts * size}
}
