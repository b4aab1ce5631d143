package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
)

// PackedMultiHeadAttention is MultiHeadAttention for concatenated sequences without
// padding. query, key and value are [tokens, heads·size], or packed in query, [tokens,
// heads, 3, size]
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.PackedMultiHeadAttention).
type PackedMultiHeadAttention struct {
	Heads int
	Scale float32
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "PackedMultiHeadAttention", Since: kit.Versions{1},
	In:  "query:T, key:T?, value:T?, bias:T?, token_offset:M, cumulative_sequence_length:M, attention_bias:T?",
	Out: "output:T", Types: "T: float float16; M: int32",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Float("mask_filter_value", 0) // the operator has no mask
		return &PackedMultiHeadAttention{attention.ReadHeads(a, "num_heads"), a.Float("scale", 0)}
	}})

// Infer sets output to [tokens, value size].
func (op *PackedMultiHeadAttention) Infer(c *ir.InferContext) error {
	var tokens, size ir.Dim
	q := c.Shape(0)
	switch {
	case len(q) == 4:
		tokens, size = q[0], q[1].Mul(q[3])
	case len(q) == 2:
		tokens = q[0]
		if v := c.Shape(2); len(v) == 2 {
			size = v[1]
		}
	}
	inferPacked(c, tokens, size)
	if q != nil && len(q) != 2 && len(q) != 4 {
		return fail.Errorf("query has rank %d, want 2 or 4", len(q))
	}
	return nil
}

// Run computes attention in float32.
func (op *PackedMultiHeadAttention) Run(c *ir.Call) error {
	qt, kt, vt := c.Tensor(0), c.Tensor(1), c.Tensor(2)
	var in [4][]float32
	for i := range in {
		var err error
		if in[i], err = kit.RealIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	h, s := op.Heads, qt.Shape()
	p := packedAttention{heads: h, scale: op.Scale}
	switch {
	case len(s) == 4 && kt == nil && vt == nil && s[1] == h && s[2] == 3:
		p.dim, p.vDim = s[3], s[3]
		p.q, p.k, p.v = packedHeads(in[0], 0, 3, h, s[0], p.dim), packedHeads(in[0], 1, 3, h, s[0], p.dim),
			packedHeads(in[0], 2, 3, h, s[0], p.dim)
	case len(s) == 2 && kt != nil && vt != nil && slices.Equal(kt.Shape(), s) && vt.Rank() == 2 && vt.Dim(0) == s[0] &&
		s[1]%h == 0 && vt.Dim(1)%h == 0:
		p.dim, p.vDim = s[1]/h, vt.Dim(1)/h
		p.q, p.k, p.v = attention.HeadsLast(in[0], h, s[0], p.dim), attention.HeadsLast(in[1], h, s[0], p.dim),
			attention.HeadsLast(in[2], h, s[0], p.vDim)
	default:
		return fail.Errorf("query, key and value are %s, %s and %s, which are inconsistent for %d heads", qt, kt, vt, h)
	}
	if b := c.Tensor(3); b != nil {
		size := h * p.dim
		if b.Rank() != 1 || b.Len() != 2*size+h*p.vDim {
			return fail.Errorf("bias has shape %v, want [%d]", b.Shape(), 2*size+h*p.vDim)
		}
		var err error
		if p.q, err = plusBias(c, p.q, 1, h, s[0], p.dim, in[3][:size]); err != nil {
			return err
		}
		if p.k, err = plusBias(c, p.k, 1, h, s[0], p.dim, in[3][size:2*size]); err != nil {
			return err
		}
		if p.v, err = plusBias(c, p.v, 1, h, s[0], p.vDim, in[3][2*size:]); err != nil {
			return err
		}
	}
	return p.run(c, s[0], qt.DType(), 4, 5, 6)
}
