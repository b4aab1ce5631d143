package ops

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
)

// MultiHeadAttention is attention over projected queries, keys and values,
// [batch, length, heads·size], or packed: query [batch, length, heads, 3, size] or
// key [batch, length, heads, 2, size]; keys and values may also come as
// [batch, heads, length, size]. A bias for all three, a mask and a bias of the
// scores are added
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MultiHeadAttention).
type MultiHeadAttention struct {
	Heads          int
	Scale, Filter  float32
	Unidirectional bool
}

var _ = register(Def{Domain: DomainMicrosoft, Name: "MultiHeadAttention", Since: []int{1},
	In:    "query:T, key:T?, value:T?, bias:T?, key_padding_mask:int32?, attention_bias:T?, past_key:T?, past_value:T?, past_sequence_length:int32?, cache_indirection:int32?",
	Out:   "output:T, present_key:T?, present_value:T?, qk:T?",
	Types: Types{"T": "float float16 bfloat16"}, Build: simple(func(a *Attrs, opset int) Operator {
		return &MultiHeadAttention{readHeads(a, "num_heads"), a.Float("scale", 0), a.Float("mask_filter_value", -10000), a.Bool("unidirectional", false)}
	})})

// Infer sets the shapes as far as the query and the value tell.
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
		return fmt.Errorf("query has rank %d, want 3 or 5", len(q))
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
		qk[3] = ir.Unknown // as many as past_sequence_length and the new ones
	}
	c.SetOut(0, ir.TensorType(c.Elem(0), y...))
	c.SetOut(1, ir.TensorType(c.Elem(0), present...))
	value := slices.Clone(present)
	value[3] = vSize
	c.SetOut(2, ir.TensorType(c.Elem(0), value...))
	c.SetOut(3, ir.TensorType(c.Elem(0), qk...))
	return nil
}

// Run computes the attention in float.
func (op *MultiHeadAttention) Run(c *ir.Call) error {
	qt, kt, vt := c.Tensor(0), c.Tensor(1), c.Tensor(2)
	var in [3][]float32
	for i := range in {
		var err error
		if in[i], err = realIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	a := &attentionCore[float32]{heads: op.Heads, kvHeads: op.Heads, observe: scoresNone}
	n, h := 0, op.Heads // n: new keys
	projected := true   // keys and values still want their bias
	switch {
	case qt.Rank() == 5 && kt == nil && vt == nil:
		s := qt.Shape()
		if s[2] != h || s[3] != 3 {
			return fmt.Errorf("query has shape %v, want [batch, length, %d, 3, size]", s, h)
		}
		a.batch, a.qLen, n, a.dim, a.vDim = s[0], s[1], s[1], s[4], s[4]
		a.q, a.k, a.v = packedHeads(in[0], 0, 3, h, a.qLen, a.dim), packedHeads(in[0], 1, 3, h, n, a.dim), packedHeads(in[0], 2, 3, h, n, a.dim)
	case qt.Rank() == 3 && kt != nil:
		s, k := qt.Shape(), kt.Shape()
		if s[2]%h != 0 {
			return fmt.Errorf("query has shape %v, want a last dimension that %d heads divide", s, h)
		}
		a.batch, a.qLen, a.dim = s[0], s[1], s[2]/h
		a.q = headsLast(in[0], h, a.qLen, a.dim)
		switch {
		case len(k) == 5 && vt == nil && k[0] == a.batch && k[2] == h && k[3] == 2 && k[4] == a.dim:
			n, a.vDim = k[1], a.dim
			a.k, a.v = packedHeads(in[1], 0, 2, h, n, a.dim), packedHeads(in[1], 1, 2, h, n, a.dim)
		case len(k) == 3 && vt != nil && vt.Rank() == 3 && k[0] == a.batch && k[2] == s[2] && slices.Equal(vt.Shape()[:2], k[:2]) && vt.Dim(2)%h == 0:
			n, a.vDim = k[1], vt.Dim(2)/h
			a.k, a.v = headsLast(in[1], h, n, a.dim), headsLast(in[2], h, n, a.vDim)
		case len(k) == 4 && vt != nil && vt.Rank() == 4 && k[0] == a.batch && k[1] == h && k[3] == a.dim && slices.Equal(vt.Shape()[:3], k[:3]):
			n, a.vDim, projected = k[2], vt.Dim(3), false
			a.k, a.v = headsFirst(in[1], h, n, a.dim), headsFirst(in[2], h, n, a.vDim)
		default:
			return fmt.Errorf("query, key and value are %v, %v and %v, which do not fit together for %d heads", qt, kt, vt, h)
		}
	default:
		return fmt.Errorf("query, key and value are %v, %v and %v, which do not fit together", qt, kt, vt)
	}
	if b := c.Tensor(3); b != nil {
		want := 2*h*a.dim + h*a.vDim
		if b.Rank() != 1 || b.Len() != want {
			return fmt.Errorf("bias has shape %v, want [%d]", b.Shape(), want)
		}
		bias, err := realIn[float32](c, b)
		if err != nil {
			return err
		}
		if a.q, err = plusBias(c, a.q, a.batch, h, a.qLen, a.dim, bias[:h*a.dim]); err != nil {
			return err
		}
		if projected {
			if a.k, err = plusBias(c, a.k, a.batch, h, n, a.dim, bias[h*a.dim:2*h*a.dim]); err != nil {
				return err
			}
			if a.v, err = plusBias(c, a.v, a.batch, h, n, a.vDim, bias[2*h*a.dim:]); err != nil {
				return err
			}
		}
	}
	past := 0
	if c.Has(6) != c.Has(7) {
		return fmt.Errorf("past_key and past_value must be given together")
	}
	if c.Has(6) {
		pk, pv := c.Tensor(6).Shape(), c.Tensor(7).Shape()
		if len(pk) == 4 {
			past = pk[2]
		}
		if !slices.Equal(pk, []int{a.batch, h, past, a.dim}) || !slices.Equal(pv, []int{a.batch, h, past, a.vDim}) {
			return fmt.Errorf("past_key and past_value have shapes %v and %v, want [%d %d past %d] and [%[3]d %[4]d past %[6]d]", pk, pv, a.batch, h, a.dim, a.vDim)
		}
	}
	var kOut, vOut, qk realOutput[float32]
	var err error
	if capacity := past; c.Has(8) {
		// The past is a buffer of which the first tokens are used; the new ones follow
		// them in place.
		if past, err = scalarInt(c.Tensor(8), "past_sequence_length"); err != nil {
			return err
		}
		if past < 0 || past > capacity-n {
			return fmt.Errorf("past_sequence_length is %d for %d new tokens and a past of %d", past, n, capacity)
		}
		from, err := cacheBeams(c, nil, c.Tensor(9), a.batch, past)
		if err != nil {
			return err
		}
		if a.k, kOut, err = appendBuffer(c, 1, c.Tensor(6), a.k, from, a.batch, h, past, n, capacity, capacity, a.dim); err != nil {
			return err
		}
		if a.v, vOut, err = appendBuffer(c, 2, c.Tensor(7), a.v, from, a.batch, h, past, n, capacity, capacity, a.vDim); err != nil {
			return err
		}
	} else {
		if c.Has(9) {
			return fmt.Errorf("cache_indirection is given without past_sequence_length")
		}
		pastK, err := realIn[float32](c, c.Tensor(6))
		if err != nil {
			return err
		}
		pastV, err := realIn[float32](c, c.Tensor(7))
		if err != nil {
			return err
		}
		if a.k, kOut, err = appendPast(c, 1, pastK, past, a.k, a.batch, h, n, a.dim); err != nil {
			return err
		}
		if a.v, vOut, err = appendPast(c, 2, pastV, past, a.v, a.batch, h, n, a.vDim); err != nil {
			return err
		}
	}
	a.kvLen = past + n
	a.scale = attentionScale(op.Scale, a.dim)
	var mask func(b, i int, row []float32)
	if m := c.Tensor(4); m != nil {
		if mask, err = msMask(m, a.batch, a.qLen, a.kvLen, past, op.Filter); err != nil {
			return err
		}
	}
	if a.bias, err = msBias(c, mask, c.Tensor(5), a.batch, h, a.qLen, a.kvLen); err != nil {
		return err
	}
	if op.Unidirectional {
		a.visible = func(b, i int) (int, int) { return 0, past + i + 1 }
	}
	if c.Wants(3) {
		if qk, err = realOut[float32](c, 3, qt.DType(), a.batch, h, a.qLen, a.kvLen); err != nil {
			return err
		}
		a.observe, a.observed = scoresSoftmax, qk.data
	}
	y, err := realOut[float32](c, 0, qt.DType(), a.batch, a.qLen, h*a.vDim)
	if err != nil {
		return err
	}
	a.y = headsLast(y.data, h, a.qLen, a.vDim)
	if err := a.run(c); err != nil {
		return err
	}
	for _, o := range []realOutput[float32]{y, kOut, vOut, qk} {
		if o.t != nil {
			o.store()
		}
	}
	return nil
}

// packedHeads views part k of [batch, length, heads, parts, size].
func packedHeads(data []float32, k, parts, heads, length, size int) headView[float32] {
	return headView[float32]{data[min(k*size, len(data)):], length * heads * parts * size, parts * size, heads * parts * size}
}
