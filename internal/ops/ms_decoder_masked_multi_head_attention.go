package ops

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
)

// DecoderMaskedMultiHeadAttention is attention of one new token per batch item:
// over its own past, [batch, heads, length, size], which may be a buffer that is
// longer than what it holds, or over given keys and values of that form (cross
// attention). With cache_indirection each past token is read from the beam that
// the entry names
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DecoderMaskedMultiHeadAttention).
type DecoderMaskedMultiHeadAttention struct {
	Heads         int
	Scale, Filter float32
	Share         bool
}

var _ = register(Def{Domain: DomainMicrosoft, Name: "DecoderMaskedMultiHeadAttention", Since: []int{1},
	In: "query:T, key:T?, value:T?, mask_index:int32?, attention_bias:T?, past_key:T?, past_value:T?, past_sequence_length:int32?, " +
		"beam_width:int32?, cache_indirection:int32?, bias:T?",
	Out:   "output:T, present_key:T?, present_value:T?, qk:T?",
	Types: Types{"T": "float float16"}, Build: simple(func(a *Attrs, opset int) Operator {
		a.Ignore("output_qk") // the fourth output says it
		return &DecoderMaskedMultiHeadAttention{readHeads(a, "num_heads"), a.Float("scale", 0), a.Float("mask_filter_value", -10000), a.Bool("past_present_share_buffer", false)}
	})})

// Infer sets output to [batch, 1, value size].
func (op *DecoderMaskedMultiHeadAttention) Infer(c *ir.InferContext) error {
	if err := checkRank(c, 0, 3, "query"); err != nil {
		return err
	}
	heads := ir.Known(op.Heads)
	y := []ir.Dim{ir.Unknown, ir.Known(1), ir.Unknown}
	if q := c.Shape(0); q != nil {
		y[0] = q[0]
		if !c.Has(1) {
			y[2] = q[2].Div(ir.Known(3))
		}
	}
	switch v := c.Shape(2); len(v) {
	case 3:
		y[2] = v[2]
	case 4:
		y[2] = heads.Mul(v[3])
	}
	c.SetOut(0, ir.TensorType(c.Elem(0), y...))
	for i := 1; i < 4; i++ {
		s := []ir.Dim{y[0], heads, ir.Unknown, ir.Unknown}
		if i == 3 {
			s[2] = ir.Known(1)
		}
		c.SetOut(i, ir.TensorType(c.Elem(0), s...))
	}
	return nil
}

// Run appends the new key and value and attends, in float.
func (op *DecoderMaskedMultiHeadAttention) Run(c *ir.Call) error {
	qt, kt, vt := c.Tensor(0), c.Tensor(1), c.Tensor(2)
	s, h := qt.Shape(), op.Heads
	if len(s) != 3 || s[1] != 1 {
		return fmt.Errorf("query has shape %v, want [batch, 1, hidden]", s)
	}
	var in [3][]float32
	for i := range in {
		var err error
		if in[i], err = realIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	a := &attentionCore[float32]{batch: s[0], heads: h, kvHeads: h, qLen: 1, observe: scoresNone}
	cross := false
	switch {
	case kt == nil && vt == nil && s[2]%(3*h) == 0:
		a.dim = s[2] / 3 / h
		a.vDim = a.dim
		part := func(k int) headView[float32] {
			return headView[float32]{in[0][min(k*h*a.dim, len(in[0])):], s[2], a.dim, s[2]}
		}
		a.q, a.k, a.v = part(0), part(1), part(2)
	case kt != nil && vt != nil && kt.Rank() == 3 && s[2]%h == 0 && slices.Equal(kt.Shape(), s) && vt.Rank() == 3 && slices.Equal(vt.Shape()[:2], s[:2]) && vt.Dim(2)%h == 0:
		a.dim, a.vDim = s[2]/h, vt.Dim(2)/h
		a.q, a.k, a.v = headsLast(in[0], h, 1, a.dim), headsLast(in[1], h, 1, a.dim), headsLast(in[2], h, 1, a.vDim)
	case kt != nil && vt != nil && kt.Rank() == 4 && vt.Rank() == 4 && s[2]%h == 0 && kt.Dim(0) == s[0] && kt.Dim(1) == h && kt.Dim(3) == s[2]/h && slices.Equal(vt.Shape()[:3], kt.Shape()[:3]):
		cross = true
		a.dim, a.vDim, a.kvLen = s[2]/h, vt.Dim(3), kt.Dim(2)
		a.q, a.k, a.v = headsLast(in[0], h, 1, a.dim), headsFirst(in[1], h, a.kvLen, a.dim), headsFirst(in[2], h, a.kvLen, a.vDim)
	default:
		return fmt.Errorf("query, key and value are %v, %v and %v, which do not fit together for %d heads", qt, kt, vt, h)
	}
	if b := c.Tensor(10); b != nil {
		if want := 2*h*a.dim + h*a.vDim; b.Rank() != 1 || b.Len() != want {
			return fmt.Errorf("bias has shape %v, want [%d]", b.Shape(), want)
		}
		bias, err := realIn[float32](c, b)
		if err != nil {
			return err
		}
		if a.q, err = plusBias(c, a.q, a.batch, h, 1, a.dim, bias[:h*a.dim]); err != nil {
			return err
		}
		if !cross {
			if a.k, err = plusBias(c, a.k, a.batch, h, 1, a.dim, bias[h*a.dim:2*h*a.dim]); err != nil {
				return err
			}
			if a.v, err = plusBias(c, a.v, a.batch, h, 1, a.vDim, bias[2*h*a.dim:]); err != nil {
				return err
			}
		}
	}
	var outs [2]realOutput[float32]
	if !cross {
		if err := op.append(c, a, &outs); err != nil {
			return err
		}
	}
	a.scale = attentionScale(op.Scale, a.dim)
	var mask func(b, i int, row []float32)
	var err error
	if m := c.Tensor(3); m != nil {
		if !slices.Equal(m.Shape(), []int{a.batch, a.kvLen}) {
			return fmt.Errorf("mask_index has shape %v, want [%d %d]", m.Shape(), a.batch, a.kvLen)
		}
		if mask, err = msMask(m, a.batch, 1, a.kvLen, a.kvLen-1, op.Filter); err != nil {
			return err
		}
	}
	if a.bias, err = msBias(c, mask, c.Tensor(4), a.batch, h, 1, a.kvLen); err != nil {
		return err
	}
	var qk realOutput[float32]
	if c.Wants(3) {
		if qk, err = realOut[float32](c, 3, qt.DType(), a.batch, h, 1, a.kvLen); err != nil {
			return err
		}
		a.observe, a.observed = scoresSoftmax, qk.data
	}
	y, err := realOut[float32](c, 0, qt.DType(), a.batch, 1, h*a.vDim)
	if err != nil {
		return err
	}
	a.y = headsLast(y.data, h, 1, a.vDim)
	if err := a.run(c); err != nil {
		return err
	}
	for _, o := range []realOutput[float32]{y, outs[0], outs[1], qk} {
		if o.t != nil {
			o.store()
		}
	}
	return nil
}

// append joins the past with the new key and value, and reads the past of each
// beam from where cache_indirection says.
func (op *DecoderMaskedMultiHeadAttention) append(c *ir.Call, a *attentionCore[float32], outs *[2]realOutput[float32]) error {
	h, past, capacity := a.heads, 0, 0
	if c.Has(5) != c.Has(6) {
		return fmt.Errorf("past_key and past_value must be given together")
	}
	if p := c.Tensor(5); p != nil && p.Rank() == 4 {
		capacity = p.Dim(2)
		past = capacity
	}
	for i, dim := range []int{a.dim, a.vDim} {
		if p := c.Tensor(5 + i); p != nil && !slices.Equal(p.Shape(), []int{a.batch, h, capacity, dim}) {
			return fmt.Errorf("past_key and past_value have shapes %v and %v, want [%d %d length %d] and [%[3]d %[4]d length %[6]d]", c.Tensor(5).Shape(), c.Tensor(6).Shape(), a.batch, h, a.dim, a.vDim)
		}
	}
	total := capacity + 1
	if op.Share {
		var err error
		if c.Tensor(7) == nil {
			return fmt.Errorf("past_sequence_length is missing, which a shared buffer needs")
		}
		if past, err = scalarInt(c.Tensor(7), "past_sequence_length"); err != nil {
			return err
		}
		if past < 0 || past >= capacity {
			return fmt.Errorf("past_sequence_length is %d, want 0 to %d", past, capacity-1)
		}
		total = capacity
	}
	from, err := cacheBeams(c, c.Tensor(8), c.Tensor(9), a.batch, past)
	if err != nil {
		return err
	}
	for i, v := range []*headView[float32]{&a.k, &a.v} {
		dim := []int{a.dim, a.vDim}[i]
		if *v, outs[i], err = appendBuffer(c, 1+i, c.Tensor(5+i), *v, from, a.batch, h, past, 1, capacity, total, dim); err != nil {
			return err
		}
	}
	a.kvLen = past + 1
	return nil
}
