package msft

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// qAttention implements QAttention: Attention of com.microsoft with 8-bit input and
// weights
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QAttention).
type qAttention struct{ msAttention }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "QAttention", Since: kit.Versions{1},
	MACs: kit.ProjectionMACs,
	In: "input:T1, weight:T2, bias:T3, input_scale:T3, weight_scale:T3, mask_index:int32?, input_zero_point:T1?, " +
		"weight_zero_point:T2?, past:T3?",
	Out: "output:T3, present:T3?", KeepOutputs: kit.Always, Types: "T1: int8 uint8; T2: int8 uint8; T3: float float16",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &qAttention{msAttention{heads: attention.ReadHeads(a, "num_heads"), scale: a.Float("scale", 0),
			filter:         a.Float("mask_filter_value", -10000),
			unidirectional: a.Bool("unidirectional", false)}}
		if a.Bool("do_rotary", false) || a.Bool("past_present_share_buffer", false) {
			a.Errorf("do_rotary and past_present_share_buffer are not supported")
		}
		return op
	}})

// Infer sets output to [batch, length, hidden].
func (op *qAttention) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 3, "input"); err != nil {
		return err
	}
	y, present := ir.UnknownDims(3), ir.UnknownDims(5)
	present[0], present[2] = ir.Known(2), ir.Known(op.heads)
	if x := c.Shape(0); x != nil {
		y[0], y[1] = x[0], x[1]
	}
	if w := c.Shape(1); len(w) == 2 {
		y[2] = w[1].Div(ir.Known(3))
	}
	present[1], present[3], present[4] = y[0], y[1], y[2].Div(ir.Known(op.heads))
	if c.Has(8) {
		present[3] = ir.Unknown
		if p := c.Shape(8); len(p) == 5 {
			present[3] = p[3].Add(y[1])
		}
	}
	c.SetOut(0, ir.TensorType(c.Elem(2), y...))
	c.SetOut(1, ir.TensorType(c.Elem(2), present...))
	return nil
}

// Run computes the projection in integers and attention in float32.
func (op *qAttention) Run(c *ir.Call) error { return op.run(c, nil) }

// run computes the outputs; packed is the packed weight if it is constant, else nil.
func (op *qAttention) run(c *ir.Call, packed *matmul.PackedBytes) error {
	x, w := c.Tensor(0), c.Tensor(1)
	shape, err := matmul.BytesShape(w, packed)
	if err != nil {
		return err
	}
	if x.Rank() != 3 || len(shape) != 2 || shape[0] != x.Dim(2) || shape[1]%(3*op.heads) != 0 {
		return fail.Errorf("input and weight have shapes %v and %v, want [batch, length, hidden] and [hidden, 3·n], n "+
			"a multiple of %d heads", x.Shape(), shape, op.heads)
	}
	s, err := matmul.NewShape(x.Shape(), shape)
	if err != nil {
		return err
	}
	size, err := tensor.Elements(s.Out)
	if err != nil {
		return err
	}
	sums, err := ir.ScratchOf[int32](c, size)
	if err != nil {
		return err
	}
	if err := matmul.BytesBy(c, &s, x, w, packed, c.Tensor(6), c.Tensor(7), sums); err != nil {
		return err
	}
	p := quantizedProduct{shape: &s, sums: sums, bScale: c.Tensor(4), bShape: shape, bias: c.Tensor(2)}
	if p.aScale, err = oneScale(c, "input_scale", c.Tensor(3)); err != nil {
		return err
	}
	qkv, err := ir.ScratchOf[float32](c, size)
	if err != nil {
		return err
	}
	if err := p.reals(c, qkv); err != nil {
		return err
	}
	n := shape[1] / 3
	return op.attend(c, qkv, x.Dim(0), x.Dim(1), []int{n, n, n}, c.Tensor(2).DType(), 5, 8, -1)
}

// qAttentionPacked is a QAttention with a constant, packed weight.
type qAttentionPacked struct {
	qAttention
	w *matmul.PackedBytes
}

// Prepare packs a constant weight.
func (op *qAttention) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	if p := matmul.PackBytes(in[1]); p != nil {
		return &qAttentionPacked{*op, p}, []int{1}, nil
	}
	return nil, nil, nil
}

// Run multiplies by the packed weight.
func (op *qAttentionPacked) Run(c *ir.Call) error { return op.run(c, op.w) }
