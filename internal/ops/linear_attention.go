package ops

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
)

// LinearAttention keeps a state S, a key-size by value-size matrix for each head,
// and for each token computes, with decay g and rate β as the rule says,
//
//	S = exp(g)·S;  S += β·k⊗(v − Sᵀk);  o = scale·Sᵀq
//
// ("linear" and "gated" add k⊗v instead)
// (https://onnx.ai/onnx/operators/onnx__LinearAttention.html).
type LinearAttention struct {
	Heads, KVHeads int
	Scale          float32 // 0: 1/√(key size)
	Decays, Delta  bool
	Window         int  // number of last states in the outputs; 0: the last state, without an axis
	SharedKeys     bool // key may have fewer heads than value, as many as query
}

const LinearAttentionInputs = "query:T, key:T, value:T, past_state:S?, decay:T?, beta:T?"

var _ = kit.Register(&kit.Def{Name: "LinearAttention", Since: kit.Versions{27}, In: LinearAttentionInputs,
	Out:   "output:T, present_state:S",
	Types: "T: float float16 bfloat16; S: float float16 bfloat16",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := ReadLinearAttention(a)
		if op.Heads%op.KVHeads != 0 {
			a.Errorf("q_num_heads is %d, want a multiple of kv_num_heads, which is %d", op.Heads, op.KVHeads)
		}
		return op
	}})

func ReadLinearAttention(a *kit.Attrs) *LinearAttention {
	a.Require("q_num_heads", "kv_num_heads")
	a.Ignore("chunk_size") // does not affect results
	rule := a.Enum("update_rule", "gated_delta", "linear", "gated", "delta", "gated_delta")
	return &LinearAttention{Heads: attention.ReadHeads(a, "q_num_heads"),
		KVHeads: attention.ReadHeads(a, "kv_num_heads"), Scale: a.Float("scale", 0),
		Decays: rule == "gated" || rule == "gated_delta", Delta: rule == "delta" || rule == "gated_delta"}
}

// Infer derives the shapes from query and value, if known.
func (op *LinearAttention) Infer(c *ir.InferContext) error {
	for i, name := range []string{"query", "key", "value"} {
		if err := kit.CheckRank(c, i, 3, name); err != nil {
			return err
		}
	}
	y, state := ir.UnknownDims(3), ir.UnknownDims(4)
	state[1] = ir.Known(op.KVHeads)
	if q := c.Shape(0); q != nil {
		y[0], y[1], state[0] = q[0], q[1], q[0]
		state[2] = q[2].Div(ir.Known(op.Heads))
	}
	if v := c.Shape(2); v != nil {
		state[3] = v[2].Div(ir.Known(op.KVHeads))
		y[2] = state[3].Mul(ir.Known(max(op.Heads, op.KVHeads)))
	}
	if op.Window > 0 {
		state = append([]ir.Dim{ir.Known(op.Window)}, state...)
	}
	elem := c.Elem(0)
	if c.Has(3) {
		elem = c.Elem(3)
	}
	c.SetOut(0, ir.TensorType(c.Elem(0), y...))
	c.SetOut(1, ir.TensorType(elem, state...))
	return nil
}

// Recurrent implements [ir.Recurrent].
func (*LinearAttention) Recurrent() {}

// Run processes token by token, heads in parallel.
func (op *LinearAttention) Run(c *ir.Call) error {
	qt, kt, vt, pt := c.Tensor(0), c.Tensor(1), c.Tensor(2), c.Tensor(3)
	qs, ks, vs := qt.Shape(), kt.Shape(), vt.Shape()
	h, kvh := op.Heads, op.KVHeads
	kh := kvh // heads of key
	if op.SharedKeys && len(qs) == 3 && len(ks) == 3 && qs[2] >= h {
		if n := ks[2] / (qs[2] / h); n > 0 && kvh%n == 0 {
			kh = n
		}
	}
	if len(qs) != 3 || len(ks) != 3 || len(vs) != 3 || !slices.Equal(qs[:2], ks[:2]) || !slices.Equal(qs[:2], vs[:2]) ||
		qs[2]%h != 0 || ks[2]%kh != 0 || vs[2]%kvh != 0 || qs[2]/h != ks[2]/kh {
		return fail.Errorf("query, key and value have shapes %v, %v and %v, which do not match for %d and %d heads",
			qs, ks, vs, h, kvh)
	}
	batch, n, dk, dv := qs[0], qs[1], qs[2]/h, vs[2]/kvh
	outs := max(h, kvh)
	shape := []int{batch, kvh, dk, dv}
	if op.Window > 0 {
		shape = append([]int{op.Window}, shape...)
	}
	elem := qt.DType()
	if pt != nil {
		if elem = pt.DType(); !slices.Equal(pt.Shape(), shape) {
			return fail.Errorf("past_state has shape %v, want %v", pt.Shape(), shape)
		}
	}
	var in [6][]float32
	for i := range in {
		var err error
		if in[i], err = kit.RealIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	perDecay, perBeta := 0, 0 // per token
	if op.Decays {
		t := c.Tensor(4)
		if t == nil || t.Rank() != 3 || !slices.Equal(t.Shape()[:2], qs[:2]) || t.Dim(2) != kvh && t.Dim(2) != kvh*dk {
			return fail.Errorf("decay is %s, want [%d %d %d] or [%[2]d %[3]d %d]", t, batch, n, kvh, kvh*dk)
		}
		perDecay = t.Dim(2)
	}
	if op.Delta {
		t := c.Tensor(5)
		if t == nil || t.Rank() != 3 || !slices.Equal(t.Shape()[:2], qs[:2]) || t.Dim(2) != kvh && t.Dim(2) != 1 {
			return fail.Errorf("beta is %s, want [%d %d %d] or [%[2]d %[3]d 1]", t, batch, n, kvh)
		}
		perBeta = t.Dim(2)
	}
	y, err := kit.RealOut[float32](c, 0, qt.DType(), batch, n, outs*dv)
	if err != nil {
		return err
	}
	present, err := kit.RealOut[float32](c, 1, elem, shape...)
	if err != nil {
		return err
	}
	slots := max(1, op.Window)
	size := batch * kvh * dk * dv // elements per state
	// rows of whole vectors: a kernel that stores a part of one waits for the store when it loads
	// it again
	wide := (dv + 15) &^ 15
	space := dk*wide + 2*wide + dk
	rows, err := ir.ScratchOf[float32](c, kit.WorkspaceCount(c, batch*kvh)*space)
	if err != nil {
		return err
	}
	scale := attention.Scale(op.Scale, dk)
	scaleBy := func(x []float32, f float32) {
		for i := range x {
			x[i] *= f
		}
	}
	// addRows adds multiples of a row of x to a row of dst. The starts of both move on by a step
	// each time.
	addRows := func(dst []float32, dstStep int, x []float32, xStep int, f []float32) {
		for i, v := range f {
			d := dst[i*dstStep:][:wide]
			for j, w := range x[i*xStep:][:wide] {
				d[j] += v * w
			}
		}
	}
	if !c.Generic {
		scaleBy = func(x []float32, f float32) { vec.MulScalarF32(cpu.Active(), x, x, f) }
		addRows = func(dst []float32, dstStep int, x []float32, xStep int, f []float32) {
			vec.AxpyRowsF32(cpu.Active(), dst, dstStep, x, xStep, wide, f)
		}
	}
	err = kit.InWorkspaces(c, batch*kvh, func(ws, item int) error {
		work := rows[ws*space:][:space]
		s, row, sum, factors := work[:dk*wide], work[dk*wide:][:wide], work[(dk+1)*wide:][:wide], work[(dk+2)*wide:]
		b, g := item/kvh, item%kvh
		clear(work)
		for i := range dk {
			if in[3] != nil {
				copy(s[i*wide:][:dv], in[3][(slots-1)*size+(item*dk+i)*dv:])
			}
		}
		keep := func(slot int) {
			for i := range dk {
				copy(present.Data[slot*size+(item*dk+i)*dv:][:dv], s[i*wide:])
			}
		}
		// States before the first token are past ones, if available.
		for w := range slots {
			if t := n - slots + w; t < 0 {
				dst := present.Data[w*size+item*dk*dv:][:dk*dv]
				clear(dst)
				if from := w + n; in[3] != nil && from < slots {
					copy(dst, in[3][from*size+item*dk*dv:])
				}
			}
		}
		m := ir.Meter{C: c}
		for t := range n {
			m.Check((3 + h/kvh) * dk * dv)
			token := b*n + t
			k, v := in[1][(token*kh+g*kh/kvh)*dk:][:dk], in[2][token*kvh*dv+g*dv:][:dv]
			if op.Decays {
				d := in[4][token*perDecay:][:perDecay]
				if perDecay == kvh {
					scaleBy(s, float32(math.Exp(float64(d[g]))))
				} else {
					for i := range dk {
						scaleBy(s[i*wide:(i+1)*wide], float32(math.Exp(float64(d[g*dk+i]))))
					}
				}
			}
			copy(row, v)
			beta := float32(1)
			if op.Delta {
				beta = in[5][token*perBeta+g%perBeta]
				for i, kv := range k {
					factors[i] = -kv
				}
				addRows(row, 0, s, wide, factors)
			}
			for i, kv := range k {
				factors[i] = beta * kv
			}
			addRows(s, wide, row, 0, factors)
			// The query heads that share the state, or the one query head of several states.
			first, last := g*h/kvh, (g+1)*h/kvh
			if kvh > h {
				first, last = g, g+1
			}
			for o := first; o < last; o++ {
				q := in[0][token*h*dk+o*h/outs*dk:][:dk]
				clear(sum)
				addRows(sum, 0, s, wide, q)
				scaleBy(sum, float32(scale))
				copy(y.Data[(token*outs+o)*dv:][:dv], sum)
			}
			if w := t - (n - slots); w >= 0 {
				keep(w)
			}
		}
		if n == 0 {
			keep(slots - 1)
		}
		return nil
	})
	if err != nil {
		return err
	}
	y.Store()
	present.Store()
	return nil
}
