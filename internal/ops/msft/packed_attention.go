package msft

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// PackedAttention is Attention of com.microsoft for concatenated sequences without
// padding: input is [tokens, hidden]
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.PackedAttention).
type PackedAttention struct {
	Heads int
	Scale float32
	Sizes []int // total sizes of queries, keys and values; nil: one third of the columns each
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "PackedAttention", Since: kit.Versions{1},
	MACs: kit.ProjectionMACs,
	In:   "input:T, weights:T, bias:T, token_offset:M, cumulative_sequence_length:M, attention_bias:T?",
	Out:  "output:T", Types: "T: float float16; M: int32",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &PackedAttention{attention.ReadHeads(a, "num_heads"), a.Float("scale", 0), a.Ints("qkv_hidden_sizes")}
		if s := op.Sizes; s != nil && (len(s) != 3 || s[0] != s[1] || s[0] < 0 || s[2] < 0 || s[0]%op.Heads != 0 ||
			s[2]%op.Heads != 0) {
			a.Errorf("qkv_hidden_sizes is %v, want three multiples of %d heads, the first two equal", s, op.Heads)
		}
		return op
	}})

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
		if err := kit.CheckRank(c, i, want,
			[]string{"input", "weights", "bias", "token_offset", "cumulative_sequence_length"}[i]); err != nil {
			return err
		}
	}
	return nil
}

// Run projects the input and computes attention in float32.
func (op *PackedAttention) Run(c *ir.Call) error {
	xs, ws, bs := c.Tensor(0).Shape(), c.Tensor(1).Shape(), c.Tensor(2).Shape()
	if len(xs) != 2 || len(ws) != 2 || ws[0] != xs[1] || !slices.Equal(bs, ws[1:]) {
		return fail.Errorf("input, weights and bias have shapes %v, %v and %v, want [tokens hidden], [hidden "+
			"sizes] and [sizes]", xs, ws, bs)
	}
	sizes := op.Sizes
	if sizes == nil {
		if ws[1]%3 != 0 || ws[1]/3%op.Heads != 0 {
			return fail.Errorf("weights has shape %v, want a last dimension of three times a multiple of %d heads",
				ws, op.Heads)
		}
		sizes = []int{ws[1] / 3, ws[1] / 3, ws[1] / 3}
	}
	if sizes[0] > ws[1] || sizes[2] > ws[1] || 2*sizes[0]+sizes[2] != ws[1] {
		return fail.Errorf("weights has shape %v, want a last dimension equal to the sum of %v", ws, sizes)
	}
	var in [3][]float32
	for i := range in {
		var err error
		if in[i], err = kit.RealIn[float32](c, c.Tensor(i)); err != nil {
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
		g := gemm.Args[float32]{M: tokens, N: width, K: xs[1], A: in[0], LdA: xs[1], B: in[1],
			LdB: width, C: qkv, LdC: width}
		if err := matmul.One(c, &g); err != nil {
			return err
		}
		for i := range tokens {
			addTo(qkv[i*width:][:width], in[2])
		}
	}
	p := packedAttention{heads: op.Heads, dim: sizes[0] / op.Heads, vDim: sizes[2] / op.Heads, scale: op.Scale}
	part := func(from, cols int) attention.HeadView[float32] {
		return attention.HeadView[float32]{Data: qkv[min(from, len(qkv)):], Batch: 0, Head: cols, Row: width}
	}
	p.q, p.k, p.v = part(0, p.dim), part(sizes[0], p.dim), part(2*sizes[0], p.vDim)
	return p.run(c, tokens, c.Tensor(0).DType(), 3, 4, 5)
}

// packedAttention computes attention within concatenated sequences without padding. Each
// view has one batch item, whose rows are all tokens.
type packedAttention struct {
	heads, dim, vDim int
	scale            float32
	q, k, v          attention.HeadView[float32]
}

// run writes [tokens, heads·vDim]. These inputs describe the sequences:
//
//   - iOffset, [batch, length]: indices of the tokens in the padded sequences
//   - iEnds, [batch+1]: ends of the sequences
//   - iBias, [batch or 1, heads or 1, length, length], optional: a bias of the scores
func (p *packedAttention) run(c *ir.Call, tokens int, dtype tensor.DType, iOffset, iEnds, iBias int) error {
	offsets, ends := c.Tensor(iOffset), kit.Ints(c.Tensor(iEnds))
	if offsets.Rank() != 2 || c.Tensor(iEnds).Rank() != 1 || len(ends) != offsets.Dim(0)+1 {
		return fail.Errorf("token_offset and cumulative_sequence_length have shapes %v and %v, want [batch "+
			"length] and [batch+1]",
			offsets.Shape(), c.Tensor(iEnds).Shape())
	}
	batch, length := offsets.Dim(0), offsets.Dim(1)
	for i, e := range ends {
		if i == 0 && e != 0 || i > 0 && (e < ends[i-1] || e-ends[i-1] > length) || i == batch && e != tokens {
			return fail.Errorf("cumulative_sequence_length[%d] is %d, want an increase from 0 to %d in "+
				"steps of at most %d", i, e, tokens, length)
		}
	}
	bias, err := msBias(c, nil, c.Tensor(iBias), batch, p.heads, length, length)
	if err != nil {
		return err
	}
	if p.vDim > 0 && p.heads > math.MaxInt/p.vDim {
		return fail.Errorf("%d heads of size %d are too large", p.heads, p.vDim)
	}
	y, err := kit.RealOut[float32](c, 0, dtype, tokens, p.heads*p.vDim)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	all := attention.HeadsLast(y.Data, p.heads, tokens, p.vDim)
	// A row of the bias has the length of the padded sequence.
	for b := range batch {
		from, n := ends[b], ends[b+1]-ends[b]
		if n == 0 {
			continue
		}
		a := &attention.Core[float32]{Batch: 1, Heads: p.heads, KVHeads: p.heads, QLen: n, KVLen: n,
			Dim: p.dim, VDim: p.vDim,
			Scale: attention.Scale(p.scale, p.dim), Observe: attention.ScoresNone,
			Q: rowsFrom(p.q, from), K: rowsFrom(p.k, from), V: rowsFrom(p.v, from), Y: rowsFrom(all, from)}
		if bias != nil {
			a.Bias = &attention.Bias[float32]{Fill: func(_, h, i int, row []float32) { bias.Fill(b, h, i, row) }}
		}
		if err := a.Compute(c); err != nil {
			return err
		}
	}
	y.Store()
	return nil
}

// rowsFrom returns a view of v from row i on.
func rowsFrom[T kit.RealFloat](v attention.HeadView[T], i int) attention.HeadView[T] {
	v.Data = v.Data[min(i*v.Row, len(v.Data)):]
	return v
}

// inferPacked sets output 0 to [tokens, size].
func inferPacked(c *ir.InferContext, tokens, size ir.Dim) {
	c.SetOut(0, ir.TensorType(c.Elem(0), tokens, size))
}
