package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
)

// DecoderMaskedMultiHeadAttention computes attention for one new token per batch item.
// Keys and values come from the item's past, [batch, heads, length, size], which may be a
// buffer longer than its contents, or are given in that form (cross attention). With
// cache_indirection each past token is read from the beam that the entry selects
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DecoderMaskedMultiHeadAttention).
type DecoderMaskedMultiHeadAttention struct {
	Heads         int
	Scale, Filter float32
	Share         bool
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "DecoderMaskedMultiHeadAttention",
	Since: kit.Versions{1},
	In: "query:T, key:T?, value:T?, mask_index:int32?, attention_bias:T?, past_key:T?, past_value:T?, " +
		"past_sequence_length:int32?, " +
		"beam_width:int32?, cache_indirection:int32?, bias:T?",
	Out:         "output:T, present_key:T?, present_value:T?, qk:T?",
	KeepOutputs: kit.Always, // ONNX Runtime requires the present of a past
	Types:       "T: float float16", Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Ignore("output_qk") // the use of the fourth output decides this
		return &DecoderMaskedMultiHeadAttention{attention.ReadHeads(a, "num_heads"), a.Float("scale", 0),
			a.Float("mask_filter_value", -10000), a.Bool("past_present_share_buffer", false)}
	}})

// Infer sets output to [batch, 1, value size].
func (op *DecoderMaskedMultiHeadAttention) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 3, "query"); err != nil {
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

// Extends implements [ir.Appender].
func (op *DecoderMaskedMultiHeadAttention) Extends(out int) (in, axis int, ok bool) {
	return out + 4, 2, out == 1 || out == 2
}

// Run appends the new key and value and computes attention in float32.
func (op *DecoderMaskedMultiHeadAttention) Run(c *ir.Call) error {
	qt, kt, vt := c.Tensor(0), c.Tensor(1), c.Tensor(2)
	s, h := qt.Shape(), op.Heads
	if len(s) != 3 || s[1] != 1 {
		return fail.Errorf("query has shape %v, want [batch, 1, hidden]", s)
	}
	var in [3][]float32
	for i := range in {
		var err error
		if in[i], err = kit.RealIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	a := &attention.Core[float32]{Batch: s[0], Heads: h, KVHeads: h, QLen: 1, Observe: attention.ScoresNone}
	cross := false
	switch {
	case kt == nil && vt == nil && s[2]%(3*h) == 0:
		a.Dim = s[2] / 3 / h
		a.VDim = a.Dim
		part := func(k int) attention.HeadView[float32] {
			return attention.HeadView[float32]{Data: in[0][min(k*h*a.Dim, len(in[0])):], Batch: s[2],
				Head: a.Dim, Row: s[2]}
		}
		a.Q, a.K, a.V = part(0), part(1), part(2)
	case kt != nil && vt != nil && kt.Rank() == 3 && s[2]%h == 0 && slices.Equal(kt.Shape(), s) && vt.Rank() == 3 &&
		slices.Equal(vt.Shape()[:2], s[:2]) && vt.Dim(2)%h == 0:
		a.Dim, a.VDim = s[2]/h, vt.Dim(2)/h
		a.Q, a.K, a.V = attention.HeadsLast(in[0], h, 1, a.Dim), attention.HeadsLast(in[1], h, 1, a.Dim),
			attention.HeadsLast(in[2], h, 1, a.VDim)
	case kt != nil && vt != nil && kt.Rank() == 4 && vt.Rank() == 4 && s[2]%h == 0 && kt.Dim(0) == s[0] &&
		kt.Dim(1) == h && kt.Dim(3) == s[2]/h && slices.Equal(vt.Shape()[:3], kt.Shape()[:3]):
		cross = true
		a.Dim, a.VDim, a.KVLen = s[2]/h, vt.Dim(3), kt.Dim(2)
		a.Q, a.K, a.V = attention.HeadsLast(in[0], h, 1, a.Dim), attention.HeadsFirst(in[1], h, a.KVLen, a.Dim),
			attention.HeadsFirst(in[2], h, a.KVLen, a.VDim)
	default:
		return fail.Errorf("query, key and value are %s, %s and %s, which are inconsistent for %d heads", qt, kt, vt, h)
	}
	if b := c.Tensor(10); b != nil {
		if want := 2*h*a.Dim + h*a.VDim; b.Rank() != 1 || b.Len() != want {
			return fail.Errorf("bias has shape %v, want [%d]", b.Shape(), want)
		}
		bias, err := kit.RealIn[float32](c, b)
		if err != nil {
			return err
		}
		if a.Q, err = plusBias(c, a.Q, a.Batch, h, 1, a.Dim, bias[:h*a.Dim]); err != nil {
			return err
		}
		if !cross {
			if a.K, err = plusBias(c, a.K, a.Batch, h, 1, a.Dim, bias[h*a.Dim:2*h*a.Dim]); err != nil {
				return err
			}
			if a.V, err = plusBias(c, a.V, a.Batch, h, 1, a.VDim, bias[2*h*a.Dim:]); err != nil {
				return err
			}
		}
	}
	a.Scale = attention.Scale(op.Scale, a.Dim)
	var outs [2]kit.RealOutput[float32]
	if !cross {
		if err := op.append(c, a, &outs); err != nil {
			return err
		}
	}
	var mask func(b, i int, row []float32)
	var err error
	if m := c.Tensor(3); m != nil {
		if !slices.Equal(m.Shape(), []int{a.Batch, a.KVLen}) {
			return fail.Errorf("mask_index has shape %v, want [%d %d]", m.Shape(), a.Batch, a.KVLen)
		}
		if mask, err = msMask(m, a.Batch, 1, a.KVLen, a.KVLen-1, op.Filter); err != nil {
			return err
		}
	}
	if a.Bias, err = msBias(c, mask, c.Tensor(4), a.Batch, h, 1, a.KVLen); err != nil {
		return err
	}
	var qk kit.RealOutput[float32]
	if c.Wants(3) {
		if qk, err = kit.RealOut[float32](c, 3, qt.DType(), a.Batch, h, 1, a.KVLen); err != nil {
			return err
		}
		a.Observe, a.Observed = attention.ScoresSoftmax, qk.Data
	}
	y, err := kit.RealOut[float32](c, 0, qt.DType(), a.Batch, 1, h*a.VDim)
	if err != nil {
		return err
	}
	a.Y = attention.HeadsLast(y.Data, h, 1, a.VDim)
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

// append concatenates the past with the new key and value. It reads each beam's past
// tokens from the beams that cache_indirection selects.
func (op *DecoderMaskedMultiHeadAttention) append(c *ir.Call, a *attention.Core[float32],
	outs *[2]kit.RealOutput[float32]) error {
	h, past, capacity := a.Heads, 0, 0
	if c.Has(5) != c.Has(6) {
		return fail.Errorf("past_key and past_value must be given together")
	}
	if p := c.Tensor(5); p != nil && p.Rank() == 4 {
		capacity = p.Dim(2)
		past = capacity
	}
	for i, dim := range []int{a.Dim, a.VDim} {
		if p := c.Tensor(5 + i); p != nil && !slices.Equal(p.Shape(), []int{a.Batch, h, capacity, dim}) {
			return fail.Errorf("past_key and past_value have shapes %v and %v, want [%d %d length %d] and [%[3]d "+
				"%[4]d length %[6]d]", c.Tensor(5).Shape(), c.Tensor(6).Shape(), a.Batch, h, a.Dim, a.VDim)
		}
	}
	total := capacity + 1
	if op.Share {
		var err error
		if c.Tensor(7) == nil {
			return fail.Errorf("past_sequence_length is missing; past_present_share_buffer requires it")
		}
		if past, err = kit.ScalarInt(c.Tensor(7), "past_sequence_length"); err != nil {
			return err
		}
		if past < 0 || past >= capacity {
			return fail.Errorf("past_sequence_length is %d, want 0 to %d", past, capacity-1)
		}
		total = capacity
	}
	from, err := cacheBeams(c, c.Tensor(8), c.Tensor(9), a.Batch, past)
	if err != nil {
		return err
	}
	half := a.ReadsHalf(c, c.Tensor(0).DType()) && !c.Wants(3)
	for i, v := range []*attention.HeadView[float32]{&a.K, &a.V} {
		dim := []int{a.Dim, a.VDim}[i]
		if *v, outs[i], err = appendBuffer(c, 1+i, c.Tensor(5+i), *v, from, a.Batch, h, past, 1, capacity,
			total, dim, half); err != nil {
			return err
		}
	}
	a.KVLen = past + 1
	return nil
}
