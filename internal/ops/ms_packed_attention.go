package ops

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/tensor"
)

// PackedAttention is Attention of com.microsoft for sequences without padding
// between them: input is [tokens, hidden]
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.PackedAttention).
type PackedAttention struct {
	Heads int
	Scale float32
	Sizes []int // of all queries, keys and values, or nil for thirds
}

var _ = register(Def{Domain: DomainMicrosoft, Name: "PackedAttention", Since: []int{1},
	In:  "input:T, weights:T, bias:T, token_offset:M, cumulative_sequence_length:M, attention_bias:T?",
	Out: "output:T", Types: Types{"T": "float float16", "M": "int32"},
	Build: simple(func(a *Attrs, opset int) Operator {
		op := &PackedAttention{readHeads(a, "num_heads"), a.Float("scale", 0), a.Ints("qkv_hidden_sizes")}
		if s := op.Sizes; s != nil && (len(s) != 3 || s[0] != s[1] || s[0] < 0 || s[2] < 0 || s[0]%op.Heads != 0 || s[2]%op.Heads != 0) {
			a.Errorf("qkv_hidden_sizes is %v, want three sizes that %d heads divide, the first two equal", s, op.Heads)
		}
		return op
	})})

// Infer sets output to [tokens, value size].
func (op *PackedAttention) Infer(c *ir.InferContext) error {
	var tokens, size ir.Dim
	if x := c.Shape(0); len(x) == 2 {
		tokens = x[0]
	}
	if op.Sizes != nil {
		size = ir.Known(op.Sizes[2])
	} else if w := c.Shape(1); len(w) == 2 {
		size = w[1].Div(ir.Known(3))
	}
	inferPacked(c, tokens, size)
	for i, want := range []int{2, 2, 1, 2, 1} {
		if err := checkRank(c, i, want, []string{"input", "weights", "bias", "token_offset", "cumulative_sequence_length"}[i]); err != nil {
			return err
		}
	}
	return nil
}

// Run projects and attends, in float.
func (op *PackedAttention) Run(c *ir.Call) error {
	xs, ws, bs := c.Tensor(0).Shape(), c.Tensor(1).Shape(), c.Tensor(2).Shape()
	if len(xs) != 2 || len(ws) != 2 || ws[0] != xs[1] || !slices.Equal(bs, ws[1:]) {
		return fmt.Errorf("input, weights and bias have shapes %v, %v and %v, want [tokens hidden], [hidden sizes] and [sizes]", xs, ws, bs)
	}
	sizes := op.Sizes
	if sizes == nil {
		if ws[1]%3 != 0 || ws[1]/3%op.Heads != 0 {
			return fmt.Errorf("weights have shape %v, want a last dimension of three times a multiple of %d heads", ws, op.Heads)
		}
		sizes = []int{ws[1] / 3, ws[1] / 3, ws[1] / 3}
	}
	if sizes[0] > ws[1] || sizes[2] > ws[1] || 2*sizes[0]+sizes[2] != ws[1] {
		return fmt.Errorf("weights have shape %v, want a last dimension of the sum of %v", ws, sizes)
	}
	var in [3][]float32
	for i := range in {
		var err error
		if in[i], err = realIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	tokens, width := xs[0], ws[1]
	size, err := tensor.Elements([]int{tokens, width})
	if err != nil {
		return err
	}
	qkv, err := ir.ScratchOf[float32](c, size)
	if err != nil {
		return err
	}
	if size > 0 {
		g := gemm.Args[float32]{M: tokens, N: width, K: xs[1], A: in[0], LdA: xs[1], B: in[1], LdB: width, C: qkv, LdC: width}
		if err := matMulScaled(c, 1, &g); err != nil {
			return err
		}
		for i := range tokens {
			addTo(qkv[i*width:][:width], in[2])
		}
	}
	p := packedAttention{heads: op.Heads, dim: sizes[0] / op.Heads, vDim: sizes[2] / op.Heads, scale: op.Scale}
	part := func(from, cols int) headView[float32] {
		return headView[float32]{qkv[min(from, len(qkv)):], 0, cols, width}
	}
	p.q, p.k, p.v = part(0, p.dim), part(sizes[0], p.dim), part(2*sizes[0], p.vDim)
	return p.run(c, tokens, c.Tensor(0).DType(), 3, 4, 5)
}
