package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Attention is scaled dot-product attention, softmax(cap(scale·Q·Kᵀ) + mask)·V,
// with grouped query heads, a key-value cache, causal and window masks
// (https://onnx.ai/onnx/operators/onnx__Attention.html).
//
// Inputs are [batch, heads, length, size], or [batch, length, heads·size] with
// the numbers of heads as attributes. Query i stands at position offset + i among
// the keys: offset is the length of the past, or nonpad_kv_seqlen − q_length, or
// 0. A query that may see no key gives zeros.
//
// Softmax runs in float, or in double when an input is double or SoftmaxPrecision
// asks for it; lower precisions are not imitated.
type Attention struct {
	Causal          bool
	QHeads, KVHeads int // 0: not given
	Scale           float64
	HasScale        bool
	Softcap         float64
	QKMode          scoreStage
	Double          bool // softmax_precision is double
	Left, Right     int  // window, −1: unbounded
	PadMask         bool // a mask whose last dimension is 1 is one key long, not repeated
}

const attentionMaskTypes = "@int @float bool"

var _ = register(Def{Name: "Attention", Since: []int{23, 24, 25},
	In:    "Q:T1, K:T1, V:T2, attn_mask:U?, past_key:T1?, past_value:T2?, nonpad_kv_seqlen:int64?",
	Out:   "Y:T1, present_key:T1?, present_value:T2?, qk_matmul_output:T1?",
	Types: Types{"T1": "@float", "T2": "@float", "U": attentionMaskTypes},
	Build: simple(func(a *Attrs, opset int) Operator {
		op := &Attention{
			Causal: a.Bool("is_causal", false), QHeads: a.Int("q_num_heads", 0), KVHeads: a.Int("kv_num_heads", 0),
			HasScale: a.Has("scale"), Scale: float64(a.Float("scale", 0)), Softcap: float64(a.Float("softcap", 0)),
			QKMode: scoreStage(a.Int("qk_matmul_output_mode", 0)), Left: -1, Right: -1, PadMask: opset >= 24,
		}
		if opset >= 25 {
			op.Left, op.Right = a.Int("left_window_size", -1), a.Int("right_window_size", -1)
			if op.Left < -1 || op.Right < -1 {
				a.Errorf("window sizes are %d and %d, want −1 or more", op.Left, op.Right)
			}
		}
		if op.QKMode < scoresRaw || op.QKMode > scoresSoftmax {
			a.Errorf("qk_matmul_output_mode is %d, want 0 to 3", op.QKMode)
		}
		if op.QHeads < 0 || op.KVHeads < 0 || op.QHeads > math.MaxInt32 || op.KVHeads > math.MaxInt32 {
			a.Errorf("q_num_heads is %d and kv_num_heads %d", op.QHeads, op.KVHeads)
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
	})})

// Infer sets the shapes of the outputs from those of Q, K, V and the past.
func (op *Attention) Infer(c *ir.InferContext) error {
	q, k, v := c.Shape(0), c.Shape(1), c.Shape(2)
	for i, s := range [][]ir.Dim{q, k, v} {
		if s != nil && len(s) != 3 && len(s) != 4 {
			return fmt.Errorf("input %d has rank %d, want 3 or 4", i, len(s))
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

// Run computes the attention.
func (op *Attention) Run(c *ir.Call) error {
	if op.Double || c.Tensor(0).DType() == tensor.TypeFloat64 || c.Tensor(2).DType() == tensor.TypeFloat64 {
		return runAttention[float64](op, c)
	}
	return runAttention[float32](op, c)
}

// attentionInput is a checked Q, K or V.
type attentionInput struct {
	batch, heads, length, size int
	last                       bool // heads are in the last dimension
}

func newAttentionInput(t *tensor.Tensor, name string, heads int) (attentionInput, error) {
	s := t.Shape()
	switch len(s) {
	case 4:
		if heads != 0 && heads != s[1] {
			return attentionInput{}, fmt.Errorf("%s has shape %v, want %d heads", name, s, heads)
		}
		return attentionInput{s[0], s[1], s[2], s[3], false}, nil
	case 3:
		if heads <= 0 || s[2]%heads != 0 {
			return attentionInput{}, fmt.Errorf("%s has shape %v and %d heads, want a last dimension that the heads divide", name, s, heads)
		}
		return attentionInput{s[0], heads, s[1], s[2] / heads, true}, nil
	}
	return attentionInput{}, fmt.Errorf("%s has shape %v, want rank 3 or 4", name, s)
}

func attentionView[T realFloat](data []T, in attentionInput) headView[T] {
	if in.last {
		return headsLast(data, in.heads, in.length, in.size)
	}
	return headsFirst(data, in.heads, in.length, in.size)
}

func runAttention[T realFloat](op *Attention, c *ir.Call) error {
	q, err := newAttentionInput(c.Tensor(0), "Q", op.QHeads)
	if err != nil {
		return err
	}
	k, err := newAttentionInput(c.Tensor(1), "K", op.KVHeads)
	if err != nil {
		return err
	}
	v, err := newAttentionInput(c.Tensor(2), "V", op.KVHeads)
	if err != nil {
		return err
	}
	qs, ks, vs := c.Tensor(0).Shape(), c.Tensor(1).Shape(), c.Tensor(2).Shape()
	switch {
	case len(qs) != len(ks) || len(qs) != len(vs) || k.batch != q.batch || v.batch != q.batch:
		return fmt.Errorf("Q, K and V have shapes %v, %v and %v, want one rank and batch size", qs, ks, vs)
	case k.size != q.size || v.length != k.length || v.heads != k.heads:
		return fmt.Errorf("Q, K and V have shapes %v, %v and %v with %d and %d heads, which do not fit together", qs, ks, vs, q.heads, k.heads)
	case k.heads == 0 && q.heads > 0 || k.heads > 0 && q.heads%k.heads != 0:
		return fmt.Errorf("%d query heads, want a multiple of the %d key and value heads", q.heads, k.heads)
	}
	a := &attentionCore[T]{batch: q.batch, heads: q.heads, kvHeads: k.heads, qLen: q.length, dim: q.size, vDim: v.size,
		scale: op.Scale, softcap: op.Softcap, observe: scoresNone}
	if !op.HasScale {
		a.scale = 1 / math.Sqrt(float64(max(1, q.size)))
	}
	qd, err := realIn[T](c, c.Tensor(0))
	if err != nil {
		return err
	}
	a.q = attentionView(qd, q)

	past := 0
	if c.Has(4) != c.Has(5) {
		return fmt.Errorf("past_key and past_value must be given together")
	}
	if c.Has(4) {
		if c.Has(6) {
			return fmt.Errorf("nonpad_kv_seqlen cannot be combined with past_key and past_value")
		}
		pk, pv := c.Tensor(4).Shape(), c.Tensor(5).Shape()
		if len(pk) == 4 {
			past = pk[2]
		}
		if !slices.Equal(pk, []int{k.batch, k.heads, past, k.size}) || !slices.Equal(pv, []int{k.batch, k.heads, past, v.size}) {
			return fmt.Errorf("past_key and past_value have shapes %v and %v, want [%d %d past %d] and [%[3]d %[4]d past %[6]d]", pk, pv, k.batch, k.heads, k.size, v.size)
		}
		if past > math.MaxInt-k.length {
			return fmt.Errorf("past_key has shape %v, which is too large", pk)
		}
	}
	a.kvLen = past + k.length
	var kOut, vOut realOutput[T]
	if a.k, kOut, err = withPast[T](c, 1, 4, 1, k, past); err != nil {
		return err
	}
	if a.v, vOut, err = withPast[T](c, 2, 5, 2, v, past); err != nil {
		return err
	}

	nonpad := ints(c.Tensor(6))
	if c.Has(6) {
		if s := c.Tensor(6).Shape(); len(nonpad) != q.batch {
			return fmt.Errorf("nonpad_kv_seqlen has shape %v, want [%d]", s, q.batch)
		}
		for i, n := range nonpad {
			if n < 0 || n > a.kvLen {
				return fmt.Errorf("nonpad_kv_seqlen[%d] is %d, want 0 to %d", i, n, a.kvLen)
			}
		}
	}
	if op.Causal || op.Left >= 0 || op.Right >= 0 || nonpad != nil {
		a.visible = func(b, i int) (from, to int) { return op.visible(nonpad, b, i, past, a.qLen, a.kvLen) }
	}
	if c.Has(3) {
		if a.bias, err = attentionMask[T](c, c.Tensor(3), a.batch, a.heads, a.qLen, a.kvLen, op.PadMask); err != nil {
			return err
		}
	}

	out := []int{q.batch, q.heads, q.length, v.size}
	yIn := attentionInput{q.batch, q.heads, q.length, v.size, q.last}
	if q.last {
		if q.heads > 0 && v.size > math.MaxInt/q.heads {
			return fmt.Errorf("V has shape %v for %d query heads, which is too large", vs, q.heads)
		}
		out = []int{q.batch, q.length, q.heads * v.size}
	}
	y, err := realOut[T](c, 0, c.Tensor(0).DType(), out...)
	if err != nil {
		return err
	}
	a.y = attentionView(y.data, yIn)
	var qk realOutput[T]
	if c.Wants(3) {
		if qk, err = realOut[T](c, 3, c.Tensor(0).DType(), q.batch, q.heads, q.length, a.kvLen); err != nil {
			return err
		}
		a.observe, a.observed = op.QKMode, qk.data
	}
	if err := a.run(c); err != nil {
		return err
	}
	for _, o := range []realOutput[T]{y, kOut, vOut, qk} {
		if o.t != nil {
			o.store()
		}
	}
	return nil
}

// visible returns the keys that query i of batch item b may see by position.
func (op *Attention) visible(nonpad []int, b, i, past, qLen, kvLen int) (from, to int) {
	to, p := kvLen, past+i
	if nonpad != nil {
		to = nonpad[b]
		p = nonpad[b] - qLen + i
	}
	if op.Causal {
		to = min(to, p+1)
	}
	if op.Left >= 0 {
		from = max(0, p-min(op.Left, math.MaxInt32*1024))
	}
	if op.Right >= 0 {
		to = min(to, p+min(op.Right, math.MaxInt32*1024)+1)
	}
	return from, to
}

// withPast views input i after the past, input pi, as [batch, heads, length,
// size]. It copies them together when there is a past or output o is wanted.
func withPast[T realFloat](c *ir.Call, i, pi, o int, in attentionInput, past int) (headView[T], realOutput[T], error) {
	data, err := realIn[T](c, c.Tensor(i))
	view := attentionView(data, in)
	if err != nil || past == 0 && !c.Wants(o) {
		return view, realOutput[T]{}, err
	}
	old, err := realIn[T](c, c.Tensor(pi))
	if err != nil {
		return view, realOutput[T]{}, err
	}
	total := past + in.length
	out, err := realMaybe[T](c, o, c.Tensor(i).DType(), in.batch, in.heads, total, in.size)
	if err != nil {
		return view, out, err
	}
	dst := headsFirst(out.data, in.heads, total, in.size)
	if past > 0 {
		copyHeads(dst, headsFirst(old, in.heads, past, in.size), in.batch, in.heads, 0, 0, past, in.size)
	}
	copyHeads(dst, view, in.batch, in.heads, past, 0, in.length, in.size)
	return dst, out, nil
}

// attentionMask reads a mask that broadcasts to [batch, heads, q, kv] as a bias:
// booleans mean 0 and −Inf, numbers are added. A last dimension shorter than kv
// is filled up with −Inf; one of 1 only with pad.
func attentionMask[T realFloat](c *ir.Call, t *tensor.Tensor, batch, heads, q, kv int, pad bool) (func(b, h, i int, row []T), error) {
	s := t.Shape()
	full := []int{batch, heads, q, kv}
	if len(s) > 4 {
		return nil, fmt.Errorf("attn_mask has shape %v, want rank 4 at most", s)
	}
	var stride [4]int
	step, cols := 1, 1
	for k := len(s) - 1; k >= 0; k-- {
		d := 4 - len(s) + k
		switch {
		case d == 3 && (s[k] == kv || s[k] < kv && (s[k] != 1 || pad)):
			stride[d], cols = 1, s[k]
		case s[k] == 1:
		case d != 3 && s[k] == full[d]:
			stride[d] = step
		default:
			return nil, fmt.Errorf("attn_mask has shape %v, want one that broadcasts to %v", s, full)
		}
		step *= s[k]
	}
	data, err := maskBias[T](c, t)
	if err != nil {
		return nil, err
	}
	ninf := T(math.Inf(-1))
	return func(b, h, i int, row []T) {
		m := data[b*stride[0]+h*stride[1]+i*stride[2]:]
		if stride[3] == 0 {
			for j := range row {
				row[j] = m[0]
			}
			return
		}
		copy(row[:cols], m)
		for j := cols; j < len(row); j++ {
			row[j] = ninf
		}
	}, nil
}

func maskBias[T realFloat](c *ir.Call, t *tensor.Tensor) ([]T, error) {
	if t.DType().IsFloat() {
		return realIn[T](c, t)
	}
	r, err := ir.ScratchOf[T](c, t.Len())
	if err != nil {
		return nil, err
	}
	switch t.DType() {
	case tensor.TypeBool:
		ninf := T(math.Inf(-1))
		for i, v := range tensor.Of[bool](t) {
			r[i] = 0
			if !v {
				r[i] = ninf
			}
		}
	case tensor.TypeInt8:
		castReal(r, tensor.Of[int8](t))
	case tensor.TypeInt16:
		castReal(r, tensor.Of[int16](t))
	case tensor.TypeInt32:
		castReal(r, tensor.Of[int32](t))
	case tensor.TypeInt64:
		castReal(r, tensor.Of[int64](t))
	case tensor.TypeUint8:
		castReal(r, tensor.Of[uint8](t))
	case tensor.TypeUint16:
		castReal(r, tensor.Of[uint16](t))
	case tensor.TypeUint32:
		castReal(r, tensor.Of[uint32](t))
	case tensor.TypeUint64:
		castReal(r, tensor.Of[uint64](t))
	default:
		return nil, fmt.Errorf("attn_mask is %s", t.DType())
	}
	return r, nil
}

func castReal[T realFloat, S int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](dst []T, src []S) {
	for i, v := range src {
		dst[i] = T(v)
	}
}
