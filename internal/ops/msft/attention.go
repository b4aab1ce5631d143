package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// msAttention implements Attention of com.microsoft: one matrix projects input, [batch,
// length, hidden], to queries, keys and values, on which it computes attention. past and
// present hold keys and values as [2, batch, heads, length, size]
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Attention).
type msAttention struct {
	heads          int
	scale, filter  float32
	unidirectional bool
	sizes          []int // total sizes of queries, keys and values; nil: one third of the columns each
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "Attention", Since: kit.Versions{1},
	MACs: kit.ProjectionMACs,
	In: "input:T, weights:T, bias:T?, mask_index:int32?, past:T?, attention_bias:T?, " +
		"past_sequence_length:int32?",
	Out:         "output:T, present:T?",
	KeepOutputs: kit.Always, // ONNX Runtime requires the present of a past
	Types:       "T: float float16 bfloat16", Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &msAttention{attention.ReadHeads(a, "num_heads"), a.Float("scale", 0),
			a.Float("mask_filter_value", -10000), a.Bool("unidirectional", false), a.Ints("qkv_hidden_sizes")}
		if a.Bool("do_rotary", false) || a.Bool("past_present_share_buffer", false) {
			a.Errorf("do_rotary and past_present_share_buffer are not supported")
		}
		a.Ignore("rotary_embedding_dim")
		if s := op.sizes; s != nil && (len(s) != 3 || s[0] != s[1] || s[0] < 0 || s[2] < 0 || s[0]%op.heads != 0 ||
			s[2]%op.heads != 0) {
			a.Errorf("qkv_hidden_sizes is %v, want three multiples of %d heads, the first two equal", s, op.heads)
		}
		return op
	}})

// Infer sets output to [batch, length, value size].
func (op *msAttention) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 3, "input"); err != nil {
		return err
	}
	y, present := ir.UnknownDims(3), ir.UnknownDims(5)
	present[0], present[2] = ir.Known(2), ir.Known(op.heads)
	if x := c.Shape(0); x != nil {
		y[0], y[1] = x[0], x[1]
	}
	if op.sizes != nil {
		y[2] = ir.Known(op.sizes[2])
	} else if w := c.Shape(1); len(w) == 2 {
		y[2] = w[1].Div(ir.Known(3))
	}
	present[1], present[4] = y[0], y[2].Div(ir.Known(op.heads))
	present[3] = y[1]
	if c.Has(4) {
		present[3] = ir.Unknown
		if p := c.Shape(4); len(p) == 5 {
			present[3] = p[3].Add(y[1])
		}
	}
	c.SetOut(0, ir.TensorType(c.Elem(0), y...))
	c.SetOut(1, ir.TensorType(c.Elem(0), present...))
	return nil
}

// Run projects the input and computes attention in float32.
func (op *msAttention) Run(c *ir.Call) error { return op.run(c, c.Tensor(1).Shape(), nil) }

// attentionPacked is an Attention with constant, packed weights.
type attentionPacked struct {
	*msAttention
	weights []int // their shape
	data    *matmul.PackedReals
}

// Prepare packs constant weights.
func (op *msAttention) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	w, ok := in[1].(*tensor.Tensor)
	if !ok || w.Rank() != 2 || !matmul.Packable(w) {
		return nil, nil, nil
	}
	data, err := matmul.PackMatrix(w, false, false)
	if err != nil {
		return nil, nil, err
	}
	return &attentionPacked{op, w.Shape(), data}, []int{1}, nil
}

// Rounded implements [ir.Rounder].
func (p *attentionPacked) Rounded() ir.Operator {
	if data := p.data.Rounded(); data != nil {
		return &attentionPacked{p.msAttention, p.weights, data}
	}
	return nil
}

// Run multiplies by the packed weights.
func (p *attentionPacked) Run(c *ir.Call) error { return p.run(c, p.weights, p.data) }

// run computes the outputs. ws is the shape of the weights, which are packed or input 1.
func (op *msAttention) run(c *ir.Call, ws []int, packed *matmul.PackedReals) error {
	if c.Has(6) {
		return fail.Errorf("past_sequence_length is not supported")
	}
	xs := c.Tensor(0).Shape()
	if len(xs) != 3 || len(ws) != 2 || ws[0] != xs[2] {
		return fail.Errorf("input and weights have shapes %v and %v, want [batch, length, hidden] and [hidden, sizes]",
			xs, ws)
	}
	sizes := op.sizes
	if sizes == nil {
		if ws[1]%3 != 0 || ws[1]/3%op.heads != 0 {
			return fail.Errorf("weights has shape %v, want a last dimension of three times a multiple of %d heads",
				ws, op.heads)
		}
		sizes = []int{ws[1] / 3, ws[1] / 3, ws[1] / 3}
	}
	if sizes[0] > ws[1] || sizes[2] > ws[1] || 2*sizes[0]+sizes[2] != ws[1] {
		return fail.Errorf("weights has shape %v, want a last dimension equal to the sum of %v", ws, sizes)
	}
	if b := c.Tensor(2); b != nil && !slices.Equal(b.Shape(), ws[1:]) {
		return fail.Errorf("bias has shape %v, want [%d]", b.Shape(), ws[1])
	}
	var in [3][]float32
	for i := range in {
		var err error
		if in[i], err = kit.RealIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	rows, width := xs[0]*xs[1], ws[1]
	size, err := tensor.Elements([]int{rows, width})
	if err != nil {
		return err
	}
	qkv, err := ir.ScratchOf[float32](c, size)
	if err != nil {
		return err
	}
	if packed == nil {
		matmul.MulPlain(c, rows, width, xs[2], in[0], in[1], in[2], qkv)
	} else if size > 0 {
		g := gemm.Args[float32]{M: rows, N: width, K: xs[2], A: in[0], LdA: xs[2], C: qkv, LdC: width,
			Epilogue: gemm.Epilogue[float32]{BiasCol: in[2]}}
		packed.In(&g)
		if err := matmul.GemmParallel(c, &g); err != nil {
			return err
		}
	}
	return op.attend(c, qkv, xs[0], xs[1], sizes, c.Tensor(0).DType(), 3, 4, 5)
}

// attend computes the outputs, of type dtype, from projected queries, keys and values,
// [batch, length, sum of sizes]. iMask, iPast and iBias are the indices of the inputs
// mask, past and attention bias; iBias is negative if there is no bias.
func (op *msAttention) attend(c *ir.Call, qkv []float32, batch, length int, sizes []int, dtype tensor.DType,
	iMask, iPast, iBias int) error {
	h, width := op.heads, 2*sizes[0]+sizes[2]
	a := &attention.Core[float32]{Batch: batch, Heads: h, KVHeads: h, QLen: length, Dim: sizes[0] / h,
		VDim: sizes[2] / h, Observe: attention.ScoresNone}
	part := func(from, cols int) attention.HeadView[float32] {
		return attention.HeadView[float32]{Data: qkv[min(from, len(qkv)):], Batch: a.QLen * width,
			Head: cols, Row: width}
	}
	a.Q, a.K, a.V = part(0, a.Dim), part(sizes[0], a.Dim), part(2*sizes[0], a.VDim)

	past := 0
	var present kit.RealOutput[float32]
	old, err := kit.RealIn[float32](c, c.Tensor(iPast))
	if err != nil {
		return err
	}
	if p := c.Tensor(iPast); p != nil {
		s := p.Shape()
		if len(s) == 5 {
			past = s[3]
		}
		if !slices.Equal(s, []int{2, a.Batch, h, past, a.Dim}) {
			return fail.Errorf("past has shape %v, want [2 %d %d past %d]", s, a.Batch, h, a.Dim)
		}
	}
	a.KVLen = past + a.QLen
	if c.Has(iPast) || c.Wants(1) {
		if a.Dim != a.VDim {
			return fail.Errorf("past requires keys and values of one size, got %d and %d", a.Dim, a.VDim)
		}
		if present, err = kit.RealMaybe[float32](c, 1, dtype, 2, a.Batch, h, a.KVLen, a.Dim); err != nil {
			return err
		}
		half := len(present.Data) / 2
		for k, v := range []*attention.HeadView[float32]{&a.K, &a.V} {
			dst := attention.HeadsFirst(present.Data[k*half:(k+1)*half], h, a.KVLen, a.Dim)
			if old != nil {
				attention.CopyHeads(c, dst, attention.HeadsFirst(old[k*len(old)/2:], h, past, a.Dim), a.Batch,
					h, 0, 0, past, a.Dim)
			}
			attention.CopyHeads(c, dst, *v, a.Batch, h, past, 0, a.QLen, a.Dim)
			*v = dst
		}
	}
	a.Scale = attention.Scale(op.scale, a.Dim)
	var mask func(b, i int, row []float32)
	if m := c.Tensor(iMask); m != nil && !dummyMask(m.Shape(), a.Batch, a.KVLen) {
		if mask, err = msMask(m, a.Batch, a.QLen, a.KVLen, past, op.filter); err != nil {
			return err
		}
	}
	var bias *tensor.Tensor
	if iBias >= 0 {
		bias = c.Tensor(iBias)
	}
	if a.Bias, err = msBias(c, mask, bias, a.Batch, h, a.QLen, a.KVLen); err != nil {
		return err
	}
	if op.unidirectional {
		a.Visible = func(b, i int) (int, int) { return 0, past + i + 1 }
	}
	y, err := kit.RealOut[float32](c, 0, dtype, a.Batch, a.QLen, sizes[2])
	if err != nil {
		return err
	}
	a.Y = attention.HeadsLast(y.Data, h, a.QLen, a.VDim)
	if err := a.Compute(c); err != nil {
		return err
	}
	y.Store()
	if present.T != nil {
		present.Store()
	}
	return nil
}

// dummyMask reports whether a mask has one element for all keys of a batch, or of all batches.
// ONNX Runtime ignores such a mask for any values.
func dummyMask(s []int, batch, total int) bool {
	return len(s) == 2 && s[1] == 1 && (s[0] == batch && total != 1 || s[0] == 1 && (batch != 1 || total != 1))
}
