package ops

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// Attention is scaled dot-product attention, softmax(cap(scale·Q·Kᵀ) + mask)·V, with grouped query
// heads, a key-value cache, causal masks and window masks
// (https://onnx.ai/onnx/operators/onnx__Attention.html).
//
// Inputs have shape [batch, heads, length, size], or [batch, length, heads·size] with the numbers
// of heads as attributes. Query i has position offset + i among the keys, where offset is the
// length of the past or nonpad_kv_seqlen − q_length. The output for a query that sees no key is
// zero.
//
// Softmax is computed in float32, or in float64 if an input is float64 or SoftmaxPrecision requires
// it. Lower precisions are not emulated.
type Attention struct {
	Causal          bool
	QHeads, KVHeads int // 0: not set
	Scale           float64
	HasScale        bool
	Softcap         float64
	QKMode          attention.ScoreStage
	Double          bool // softmax_precision is double
	Left, Right     int  // window; −1: unlimited
	PadMask         bool // a mask whose last dimension is 1 has one key and is not broadcast
}

const attentionMaskTypes = "@int @float bool"

var _ = kit.Register(&kit.Def{Name: "Attention", Since: kit.Versions{23, 24, 25},
	MACs:        kit.AttentionMACs,
	In:          "Q:T1, K:T1, V:T2, attn_mask:U?, past_key:T1?, past_value:T2?, nonpad_kv_seqlen:int64?",
	Out:         "Y:T1, present_key:T1?, present_value:T2?, qk_matmul_output:T1?",
	KeepOutputs: kit.Always, // ONNX Runtime requires the present of a past
	Types:       "T1: @float; T2: @float; U: " + attentionMaskTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &Attention{
			Causal: a.Bool("is_causal", false), QHeads: a.Int("q_num_heads", 0), KVHeads: a.Int("kv_num_heads", 0),
			HasScale: a.Has("scale"), Scale: float64(a.Float("scale", 0)), Softcap: float64(a.Float("softcap", 0)),
			QKMode: attention.ScoreStage(a.Int("qk_matmul_output_mode", 0)), Left: -1, Right: -1, PadMask: opset >= 24,
		}
		if opset >= 25 {
			op.Left, op.Right = a.Int("left_window_size", -1), a.Int("right_window_size", -1)
			if op.Left < -1 || op.Right < -1 {
				a.Errorf("window sizes are %d and %d, want −1 or more", op.Left, op.Right)
			}
		}
		if op.QKMode < attention.ScoresRaw || op.QKMode > attention.ScoresSoftmax {
			a.Errorf("qk_matmul_output_mode is %d, want 0 to 3", op.QKMode)
		}
		if op.QHeads < 0 || op.KVHeads < 0 || op.QHeads > math.MaxInt32 || op.KVHeads > math.MaxInt32 {
			a.Errorf("q_num_heads is %d and kv_num_heads %d, want at least 1", op.QHeads, op.KVHeads)
		}
		if !(op.Softcap >= 0) {
			a.Errorf("softcap is %v, want 0 or more", op.Softcap)
		}
		switch p := a.DType("softmax_precision", tensor.Undefined); p {
		case tensor.TypeFloat64:
			op.Double = true
		case tensor.Undefined, tensor.TypeFloat32, tensor.TypeFloat16, tensor.TypeBFloat16:
		default:
			a.Errorf("softmax_precision is %s, want a floating-point type", p)
		}
		return op
	},
	Gradient: &gradient.Gradient{Decompose: attentionParts}})

// attentionParts computes the outputs by two GEMMs, a mask and a softmax between them.
func attentionParts(b *gradient.Builder, n *gradient.Node) ([]string, error) {
	if len(n.Inputs) < 3 {
		return nil, fail.Errorf("node has %d inputs, want at least 3", len(n.Inputs))
	}
	heads := func(x, attr string) string {
		return b.Factored("onward.SplitHeads", float32(n.Attrs.Int(attr, 0)), x)
	}
	after := func(past, x string) string {
		if past == "" {
			return x
		}
		return b.Node("Concat", gradient.Attrs{"axis": int64(2)}, past, x)
	}
	q, newKeys := heads(n.Inputs[0], "q_num_heads"), heads(n.Inputs[1], "kv_num_heads")
	k, v := after(n.Input(4), newKeys), after(n.Input(5), heads(n.Inputs[2], "kv_num_heads"))
	raw := b.Op("MatMul", q, b.Op("onward.SwapLast", b.Op("onward.RepeatHeads", k, q)))
	if n.Attrs.Has("scale") {
		raw = b.Scaled(n.Attrs.Float("scale", 0), raw)
	} else {
		raw = b.Op("Div", raw, b.Op("Sqrt", b.SumAxis(b.Filled(1, q), -1)))
	}
	capped := raw
	if limit := n.Attrs.Float("softcap", 0); limit > 0 {
		limits := b.Filled(limit, raw)
		capped = b.Op("Mul", b.Op("Tanh", b.Op("Div", raw, limits)), limits)
	}
	biased := capped
	window := func(name string) int64 {
		if b.Opset < 25 {
			return -1
		}
		return n.Attrs.Int(name, -1)
	}
	causal, left, right := n.Attrs.Int("is_causal", 0), window("left_window_size"), window("right_window_size")
	if mask, nonpad := n.Input(3), n.Input(6); mask != "" || nonpad != "" || causal != 0 || left >= 0 || right >= 0 {
		pad := int64(0)
		if b.Opset >= 24 {
			pad = 1
		}
		attrs := gradient.Attrs{"is_causal": causal, "left_window_size": left, "right_window_size": right,
			"pad_mask": pad}
		biased = b.Op("Add", capped, b.Node("onward.AttentionMask", attrs, raw, newKeys, mask, nonpad))
	}
	p := b.Op("onward.VisibleSoftmax", biased)
	y := b.Op("MatMul", p, b.Op("onward.RepeatHeads", v, p))
	y = b.Factored("onward.JoinHeads", float32(n.Attrs.Int("q_num_heads", 0)), y, n.Inputs[0])
	mode := n.Attrs.Int("qk_matmul_output_mode", 0)
	if mode < 0 || mode > 3 {
		return nil, fail.Errorf("qk_matmul_output_mode is %d, want 0 to 3", mode)
	}
	return []string{y, k, v, []string{raw, capped, biased, p}[mode]}, nil
}

// Infer derives the output shapes from those of Q, K, V and the past.
func (op *Attention) Infer(c *ir.InferContext) error {
	q, k, v := c.Shape(0), c.Shape(1), c.Shape(2)
	for i, s := range [][]ir.Dim{q, k, v} {
		if s != nil && len(s) != 3 && len(s) != 4 {
			return fail.Errorf("input %d has rank %d, want 3 or 4", i, len(s))
		}
	}
	split := func(s []ir.Dim, heads int) (batch, h, n, d ir.Dim) {
		switch {
		case len(s) == 4:
			return s[0], s[1], s[2], s[3]
		case len(s) == 3 && heads > 0:
			return s[0], ir.Known(heads), s[1], s[2].Div(ir.Known(heads))
		case len(s) == 3:
			return s[0], ir.Unknown, s[1], ir.Unknown
		}
		return
	}
	batch, qh, n, d := split(q, op.QHeads)
	_, kvh, kvLen, kd := split(k, op.KVHeads)
	_, _, _, vd := split(v, op.KVHeads)
	if d.IsUnknown() {
		d = kd
	}
	total := kvLen
	if c.Has(4) {
		total = ir.Unknown
		if p := c.Shape(4); len(p) == 4 {
			total = p[2].Add(kvLen)
		}
	}
	switch len(q) {
	case 0:
		c.SetOut(0, ir.UnrankedTensor(c.Elem(0)))
	case 3:
		c.SetOut(0, ir.TensorType(c.Elem(0), batch, n, ir.Known(op.QHeads).Mul(vd)))
	case 4:
		c.SetOut(0, ir.TensorType(c.Elem(0), batch, qh, n, vd))
	}
	c.SetOut(1, ir.TensorType(c.Elem(0), batch, kvh, total, d))
	c.SetOut(2, ir.TensorType(c.Elem(2), batch, kvh, total, vd))
	c.SetOut(3, ir.TensorType(c.Elem(0), batch, qh, n, total))
	return nil
}

// Extends implements [ir.Appender].
func (op *Attention) Extends(out int) (in, axis int, ok bool) {
	return out + 3, 2, out == 1 || out == 2
}

// Run computes the attention.
func (op *Attention) Run(c *ir.Call) error {
	if op.Double || c.Tensor(0).DType() == tensor.TypeFloat64 || c.Tensor(2).DType() == tensor.TypeFloat64 {
		return runAttention[float64](op, c)
	}
	return runAttention[float32](op, c)
}

// attentionRun holds the checked inputs of a run.
type attentionRun struct {
	q, k, v attention.Input
	past    int   // the keys of past_key
	nonpad  []int // nonpad_kv_seqlen or nil
	out     []int // the shape of Y
}

// inputs checks the shapes of the inputs.
func (op *Attention) inputs(c *ir.Call) (*attentionRun, error) {
	var (
		r   attentionRun
		err error
	)
	if r.q, err = attention.NewInput(c.Tensor(0), "Q", op.QHeads); err != nil {
		return nil, err
	}
	if r.k, err = attention.NewInput(c.Tensor(1), "K", op.KVHeads); err != nil {
		return nil, err
	}
	if r.v, err = attention.NewInput(c.Tensor(2), "V", op.KVHeads); err != nil {
		return nil, err
	}
	q, k, v := &r.q, &r.k, &r.v
	qs, ks, vs := c.Tensor(0).Shape(), c.Tensor(1).Shape(), c.Tensor(2).Shape()
	switch {
	case len(qs) != len(ks) || len(qs) != len(vs) || k.Batch != q.Batch || v.Batch != q.Batch:
		return nil, fail.Errorf("Q, K and V have shapes %v, %v and %v, want the same rank and batch size", qs, ks, vs)
	case k.Size != q.Size || v.Length != k.Length || v.Heads != k.Heads:
		return nil, fail.Errorf("Q, K and V have shapes %v, %v and %v with %d and %d heads, which do not match", qs,
			ks, vs, q.Heads, k.Heads)
	case k.Heads == 0 && q.Heads > 0 || k.Heads > 0 && q.Heads%k.Heads != 0:
		return nil, fail.Errorf("got %d query heads, want a multiple of the %d key and value heads", q.Heads, k.Heads)
	}
	if c.Has(4) != c.Has(5) {
		return nil, fail.Errorf("past_key and past_value must be given together")
	}
	if c.Has(4) {
		if c.Has(6) {
			return nil, fail.Errorf("nonpad_kv_seqlen cannot be combined with past_key and past_value")
		}
		pk, pv := c.Tensor(4).Shape(), c.Tensor(5).Shape()
		if len(pk) == 4 {
			r.past = pk[2]
		}
		if !slices.Equal(pk, []int{k.Batch, k.Heads, r.past, k.Size}) ||
			!slices.Equal(pv, []int{k.Batch, k.Heads, r.past, v.Size}) {
			return nil,
				fail.Errorf("past_key and past_value have shapes %v and %v, want [%d %d past %d] and [%[3]d "+
					"%[4]d past %[6]d]", pk, pv, k.Batch, k.Heads, k.Size, v.Size)
		}
		if r.past > math.MaxInt-k.Length {
			return nil, fail.Errorf("past_key has shape %v, which overflows with %d new tokens", pk, k.Length)
		}
	}
	r.nonpad = kit.Ints(c.Tensor(6))
	if c.Has(6) {
		if s := c.Tensor(6).Shape(); len(r.nonpad) != q.Batch {
			return nil, fail.Errorf("nonpad_kv_seqlen has shape %v, want [%d]", s, q.Batch)
		}
		for i, n := range r.nonpad {
			if n < 0 || n > r.past+k.Length {
				return nil, fail.Errorf("nonpad_kv_seqlen[%d] is %d, want 0 to %d", i, n, r.past+k.Length)
			}
		}
	}
	r.out = []int{q.Batch, q.Heads, q.Length, v.Size}
	if q.Last {
		if q.Heads > 0 && v.Size > math.MaxInt/q.Heads {
			return nil, fail.Errorf("output size overflows: V has shape %v for %d query heads", vs, q.Heads)
		}
		r.out = []int{q.Batch, q.Length, q.Heads * v.Size}
	}
	return &r, nil
}

func runAttention[T kit.RealFloat](op *Attention, c *ir.Call) error {
	r, err := op.inputs(c)
	if err != nil {
		return err
	}
	q, d := r.q, c.Tensor(0).DType()
	a := &attention.Core[T]{Batch: q.Batch, Heads: q.Heads, KVHeads: r.k.Heads, QLen: q.Length,
		KVLen: r.past + r.k.Length, Dim: q.Size, VDim: r.v.Size,
		Scale: op.Scale, Softcap: op.Softcap, Observe: attention.ScoresNone}
	if !op.HasScale {
		a.Scale = 1 / math.Sqrt(float64(max(1, q.Size)))
	}
	qd, err := kit.RealIn[T](c, c.Tensor(0))
	if err != nil {
		return err
	}
	a.Q = attention.View(qd, q)
	half := a.ReadsHalf(c, d) && d == c.Tensor(2).DType() && !c.Wants(3)
	var kOut, vOut kit.RealOutput[T]
	if a.K, kOut, err = withPast[T](c, 1, 4, 1, r.k, r.past, half); err != nil {
		return err
	}
	if a.V, vOut, err = withPast[T](c, 2, 5, 2, r.v, r.past, half); err != nil {
		return err
	}
	if op.Causal || op.Left >= 0 || op.Right >= 0 || r.nonpad != nil {
		a.Visible = func(b, i int) (from, to int) { return op.Visible(r.nonpad, b, i, r.past, a.QLen, a.KVLen) }
	}
	if c.Has(3) {
		if a.Bias, err = attention.Mask[T](c, c.Tensor(3), a.Batch, a.Heads, a.QLen, a.KVLen, op.PadMask); err != nil {
			return err
		}
	}
	y, err := kit.RealOut[T](c, 0, d, r.out...)
	if err != nil {
		return err
	}
	a.Y = attention.View(y.Data, attention.Input{Batch: q.Batch, Heads: q.Heads, Length: q.Length,
		Size: r.v.Size, Last: q.Last})
	var qk kit.RealOutput[T]
	if c.Wants(3) {
		if qk, err = kit.RealOut[T](c, 3, d, q.Batch, q.Heads, q.Length, a.KVLen); err != nil {
			return err
		}
		a.Observe, a.Observed = op.QKMode, qk.Data
	}
	if err := a.Compute(c); err != nil {
		return err
	}
	for _, o := range []kit.RealOutput[T]{y, kOut, vOut, qk} {
		if o.T != nil {
			o.Store()
		}
	}
	return nil
}

// Visible returns the keys that query i of batch item b sees by position.
func (op *Attention) Visible(nonpad []int, b, i, past, qLen, kvLen int) (from, to int) {
	to, p := kvLen, past+i
	if nonpad != nil {
		to = nonpad[b]
		p = nonpad[b] - qLen + i
	}
	if op.Causal {
		to = min(to, p+1)
	}
	if op.Left >= 0 {
		from = max(0, p-min(op.Left, math.MaxInt/4))
	}
	if op.Right >= 0 {
		to = min(to, p+min(op.Right, math.MaxInt/4)+1)
	}
	return from, to
}

// withPast returns a view of input i appended to the past, input pi, as [batch, heads, length,
// size]. It copies if there is a past or if output o is used.
func withPast[T kit.RealFloat](c *ir.Call, i, pi, o int, in attention.Input,
	past int, half bool) (attention.HeadView[T], kit.RealOutput[T], error) {
	data, err := kit.RealIn[T](c, c.Tensor(i))
	view := attention.View(data, in)
	if err != nil || past == 0 && !c.Wants(o) {
		return view, kit.RealOutput[T]{}, err
	}
	total := past + in.Length
	state, ok, err := attention.Extend(c, o, c.Tensor(i).DType(), view, attention.Lengths(in.Batch, past), in.Heads,
		in.Length, total, total, in.Size, half)
	if ok || err != nil {
		return state, kit.RealOutput[T]{}, err
	}
	old, err := kit.RealIn[T](c, c.Tensor(pi))
	if err != nil {
		return view, kit.RealOutput[T]{}, err
	}
	out, err := kit.RealMaybe[T](c, o, c.Tensor(i).DType(), in.Batch, in.Heads, total, in.Size)
	if err != nil {
		return view, out, err
	}
	dst := attention.HeadsFirst(out.Data, in.Heads, total, in.Size)
	if past > 0 {
		attention.CopyHeads(c, dst, attention.HeadsFirst(old, in.Heads, past, in.Size), in.Batch,
			in.Heads, 0, 0, past, in.Size)
	}
	attention.CopyHeads(c, dst, view, in.Batch, in.Heads, past, 0, in.Length, in.Size)
	return dst, out, nil
}
