package ops

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
	"github.com/onward-ml/onward/tensor"
)

// FlexAttention is attention over [batch, heads, length, size] with subgraphs that modify scores
// and probabilities: Y = prob_mod(softmax(score_mod(scale·Q·Kᵀ)))·V
// (https://onnx.ai/onnx/operators/onnx_aionnxpreview_FlexAttention.html).
type FlexAttention struct {
	Scale             float64
	HasScale          bool
	ScoreMod, ProbMod int          // subgraphs; −1: none
	Precision         tensor.DType // type of scores and probabilities; Undefined: the default
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainPreview, Name: "FlexAttention", Since: kit.Versions{1},
	In: "Q:T1, K:T1, V:T1", Out: "Y:T1",
	MACs:  kit.AttentionMACs,
	Types: "T1: @float", Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &FlexAttention{Scale: float64(a.Float("scale", 0)), HasScale: a.Has("scale"), ScoreMod: -1, ProbMod: -1,
			Precision: a.DType("softmax_precision", tensor.Undefined)}
		if a.Has("score_mod") {
			op.ScoreMod = a.Graph("score_mod")
		}
		if a.Has("prob_mod") {
			op.ProbMod = a.Graph("prob_mod")
		}
		switch op.Precision {
		case tensor.Undefined, tensor.TypeFloat32, tensor.TypeFloat64, tensor.TypeFloat16, tensor.TypeBFloat16:
		default:
			a.Errorf("softmax_precision is %s, want a floating-point type", op.Precision)
		}
		return op
	}})

func (op *FlexAttention) precision(in tensor.DType) tensor.DType {
	switch {
	case op.Precision != tensor.Undefined:
		return op.Precision
	case in == tensor.TypeFloat64:
		return in
	}
	return tensor.TypeFloat32
}

// Infer sets Y to [batch, query heads, query length, value size] and infers the
// subgraphs.
func (op *FlexAttention) Infer(c *ir.InferContext) error {
	for i, name := range []string{"Q", "K", "V"} {
		if err := kit.CheckRank(c, i, 4, name); err != nil {
			return err
		}
	}
	y, scores := ir.UnknownDims(4), ir.UnknownDims(4)
	if q := c.Shape(0); q != nil {
		copy(y, q[:3])
		copy(scores, q[:3])
	}
	if k := c.Shape(1); k != nil {
		scores[3] = k[2]
	}
	if v := c.Shape(2); v != nil {
		y[3] = v[3]
	}
	want := ir.TensorType(op.precision(c.Elem(0)), scores...)
	for _, g := range []int{op.ScoreMod, op.ProbMod} {
		if g < 0 {
			continue
		}
		out, err := c.InferGraph(g, []ir.Value{{Type: want}})
		if err != nil {
			return err
		}
		if len(out) != 1 {
			return fail.Errorf("subgraph has %d outputs, want 1", len(out))
		}
		if t := out[0].Type; t.Known() && !t.Base().Equal(want.Base()) {
			return fail.Errorf("subgraph returns %s, want %s", t, want)
		}
	}
	c.SetOut(0, ir.TensorType(c.Elem(0), y...))
	return nil
}

// Run computes the attention.
func (op *FlexAttention) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 || op.Precision == tensor.TypeFloat64 {
		return runFlexAttention[float64](op, c)
	}
	return runFlexAttention[float32](op, c)
}

func runFlexAttention[T kit.RealFloat](op *FlexAttention, c *ir.Call) error {
	qs, ks, vs := c.Tensor(0).Shape(), c.Tensor(1).Shape(), c.Tensor(2).Shape()
	if len(qs) != 4 || len(ks) != 4 || len(vs) != 4 || ks[0] != qs[0] || vs[0] != qs[0] || ks[1] != vs[1] ||
		ks[2] != vs[2] || ks[3] != qs[3] ||
		ks[1] == 0 && qs[1] > 0 || ks[1] > 0 && qs[1]%ks[1] != 0 {
		return fail.Errorf("Q, K and V have shapes %v, %v and %v, want matching [batch, heads, length, size]",
			qs, ks, vs)
	}
	var in [3][]T
	for i := range in {
		var err error
		if in[i], err = kit.RealIn[T](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	batch, heads, qLen, kvLen, dim, vDim := qs[0], qs[1], qs[2], ks[2], qs[3], vs[3]
	scale := op.Scale
	if !op.HasScale {
		scale = 1 / math.Sqrt(float64(max(1, dim)))
	}
	y, err := kit.RealOut[T](c, 0, c.Tensor(0).DType(), batch, heads, qLen, vDim)
	if err != nil {
		return err
	}
	shape := []int{batch, heads, qLen, kvLen}
	n, err := tensor.Elements(shape)
	if err != nil {
		return err
	}
	scores, err := ir.ScratchOf[T](c, n)
	if err != nil {
		return err
	}
	items := batch * heads
	kvHead := func(i int) int { return i/heads*ks[1] + i%heads*ks[1]/heads }
	err = kit.InWorkspaces(c, items, func(_, i int) error {
		q, k := in[0][i*qLen*dim:][:qLen*dim], in[1][kvHead(i)*kvLen*dim:][:kvLen*dim]
		s := scores[i*qLen*kvLen:][:qLen*kvLen]
		plainOrFast(c, qLen, kvLen, dim, q, k, true, s)
		for j := range s {
			s[j] *= T(scale)
		}
		return nil
	})
	if err == nil && op.ScoreMod >= 0 {
		err = flexModify(c, op.precision(c.Tensor(0).DType()), op.ScoreMod, shape, scores)
	}
	if err != nil {
		return err
	}
	if kvLen > 0 {
		c.Parallel(items*qLen, kit.GrainFor(kvLen*8), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				attention.SoftmaxRow(c, scores[i*kvLen:][:kvLen], 0, false)
			}
		})
	}
	if op.ProbMod >= 0 {
		if err := flexModify(c, op.precision(c.Tensor(0).DType()), op.ProbMod, shape, scores); err != nil {
			return err
		}
	}
	err = kit.InWorkspaces(c, items, func(_, i int) error {
		v := in[2][kvHead(i)*kvLen*vDim:][:kvLen*vDim]
		plainOrFast(c, qLen, vDim, kvLen, scores[i*qLen*kvLen:][:qLen*kvLen], v, false,
			y.Data[i*qLen*vDim:][:qLen*vDim])
		return nil
	})
	if err != nil {
		return err
	}
	y.Store()
	return nil
}

// flexModify replaces the scores, of the given shape, by the output of a subgraph.
func flexModify[T kit.RealFloat](c *ir.Call, dtype tensor.DType, graph int, shape []int, scores []T) error {
	size, err := tensor.ByteLen(dtype, shape)
	if err != nil {
		return err
	}
	if err := c.Reserve(int64(size)); err != nil {
		return err
	}
	t, err := tensor.Zeros(dtype, shape...)
	if err != nil {
		return err
	}
	if dtype == tensor.DTypeOf[T]() {
		copy(tensor.MustData[T](t), scores)
	} else {
		kit.RealOutput[T]{Data: scores, T: t}.Store()
	}
	out, err := c.RunGraph(graph, []tensor.Value{t})
	if err != nil {
		return err
	}
	if len(out) != 1 {
		return fail.Errorf("subgraph has %d outputs, want 1", len(out))
	}
	r, ok := out[0].(*tensor.Tensor)
	if !ok || r.DType() != dtype || !slices.Equal(r.Shape(), shape) {
		return fail.Errorf("subgraph returns %s, want %s%v", out[0], dtype, shape)
	}
	err = kit.RealConvert(scores, r)
	c.Release(out[0])
	return err
}

// plainOrFast computes C[m,n] = A[m,k]·B on the calling thread. B is [k,n], or [n,k] if trans is
// set.
func plainOrFast[T kit.RealFloat](c *ir.Call, m, n, k int, a, b []T, trans bool, out []T) {
	if m*n == 0 {
		return
	}
	ldb, rs, cs := n, n, 1
	if trans {
		ldb, rs, cs = k, 1, k
	}
	if !c.Generic && k > 0 {
		attention.GemmSerial(&gemm.Args[T]{M: m, N: n, K: k, A: a, LdA: k, B: b, LdB: ldb,
			TransB: trans, C: out, LdC: n})
		return
	}
	for i := range m {
		for j := range n {
			s := 0.0
			for p, v := range a[i*k:][:k] {
				s += float64(v) * float64(b[p*rs+j*cs])
			}
			out[i*n+j] = T(s)
		}
	}
}
