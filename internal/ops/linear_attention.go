package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
)

// LinearAttention runs a matrix state S [d_k, d_v] per key and value head over
// the tokens: S decays by exp(g) (gated rules), takes in k ⊗ v, or
// k ⊗ β(v − Sᵀk) (delta rules), and answers the queries with scale·qᵀS
// (https://onnx.ai/onnx/operators/onnx__LinearAttention.html).
type LinearAttention struct {
	QHeads, KVHeads int
	Scale           float64 // 0: 1/√d_k
	Gated, Delta    bool
}

var _ = register(Def{Name: "LinearAttention", Since: []int{27}, In: "query:T, key:T, value:T, past_state:S?, decay:T?, beta:T?",
	Out: "output:T, present_state:S", Types: Types{"T": "float float16 bfloat16", "S": "float float16 bfloat16"},
	Build: simple(func(a *Attrs, opset int) Operator {
		a.Require("q_num_heads", "kv_num_heads")
		a.Ignore("chunk_size") // a hint for speed
		rule := a.Enum("update_rule", "gated_delta", "linear", "gated", "delta", "gated_delta")
		op := &LinearAttention{a.Int("q_num_heads", 1), a.Int("kv_num_heads", 1), float64(a.Float("scale", 0)),
			rule == "gated" || rule == "gated_delta", rule == "delta" || rule == "gated_delta"}
		if op.QHeads < 1 || op.KVHeads < 1 || op.QHeads%op.KVHeads != 0 {
			a.Errorf("q_num_heads is %d, want a multiple of kv_num_heads, which is %d", op.QHeads, op.KVHeads)
			op.QHeads, op.KVHeads = 1, 1
		}
		return op
	})})

// Infer sets output to [batch, length, heads·d_v] and present_state to
// [batch, kv heads, d_k, d_v].
func (op *LinearAttention) Infer(c *ir.InferContext) error {
	for i, name := range []string{"query", "key", "value"} {
		if err := checkRank(c, i, 3, name); err != nil {
			return err
		}
	}
	batch, length, dk, dv := ir.Unknown, ir.Unknown, ir.Unknown, ir.Unknown
	if q := c.Shape(0); q != nil {
		batch, length, dk = q[0], q[1], q[2].Div(ir.Known(op.QHeads))
	}
	if v := c.Shape(2); v != nil {
		dv = v[2].Div(ir.Known(op.KVHeads))
	}
	c.SetOut(0, ir.TensorType(c.Elem(0), batch, length, dv.Mul(ir.Known(op.QHeads))))
	state := c.Elem(0)
	if c.Has(3) {
		state = c.Elem(3)
	}
	c.SetOut(1, ir.TensorType(state, batch, ir.Known(op.KVHeads), dk, dv))
	return nil
}

// Run walks over the tokens, heads in parallel.
func (op *LinearAttention) Run(c *ir.Call) error {
	q, err := newAttentionInput(c.Tensor(0), "query", op.QHeads)
	if err != nil {
		return err
	}
	k, err := newAttentionInput(c.Tensor(1), "key", op.KVHeads)
	if err != nil {
		return err
	}
	v, err := newAttentionInput(c.Tensor(2), "value", op.KVHeads)
	if err != nil {
		return err
	}
	dk, dv := q.size, v.size
	if !q.last || !k.last || !v.last || k.batch != q.batch || v.batch != q.batch || k.length != q.length || v.length != q.length || k.size != dk {
		return fmt.Errorf("query, key and value have shapes %v, %v and %v, which do not fit together", c.Tensor(0).Shape(), c.Tensor(1).Shape(), c.Tensor(2).Shape())
	}
	stateType := c.Tensor(0).DType()
	if p := c.Tensor(3); p != nil {
		stateType = p.DType()
		if !slices.Equal(p.Shape(), []int{q.batch, op.KVHeads, dk, dv}) {
			return fmt.Errorf("past_state has shape %v, want [%d %d %d %d]", p.Shape(), q.batch, op.KVHeads, dk, dv)
		}
	}
	if c.Has(4) != op.Gated || c.Has(5) != op.Delta {
		return fmt.Errorf("decay given: %v, beta given: %v; the update rule wants decay: %v, beta: %v", c.Has(4), c.Has(5), op.Gated, op.Delta)
	}
	last := func(i int, name string, allowed ...int) (int, error) {
		t := c.Tensor(i)
		if t == nil {
			return 0, nil
		}
		s := t.Shape()
		if len(s) != 3 || s[0] != q.batch || s[1] != q.length || !slices.Contains(allowed, s[2]) {
			return 0, fmt.Errorf("%s has shape %v, want [%d %d n] with n one of %v", name, s, q.batch, q.length, allowed)
		}
		return s[2], nil
	}
	nDecay, err := last(4, "decay", op.KVHeads, op.KVHeads*dk)
	if err != nil {
		return err
	}
	nBeta, err := last(5, "beta", op.KVHeads, 1)
	if err != nil {
		return err
	}
	var in [6][]float32
	for i := range in {
		if in[i], err = realIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	if dv > math.MaxInt/op.QHeads {
		return fmt.Errorf("value has shape %v, which is too large", c.Tensor(2).Shape())
	}
	y, err := realOut[float32](c, 0, c.Tensor(0).DType(), q.batch, q.length, op.QHeads*dv)
	if err != nil {
		return err
	}
	final, err := realMaybe[float32](c, 1, stateType, q.batch, op.KVHeads, dk, dv)
	if err != nil {
		return err
	}
	scale := float32(op.Scale)
	if scale == 0 {
		scale = float32(1 / math.Sqrt(float64(dk)))
	}
	n := q.batch * op.KVHeads
	slots := slotCount(n)
	scratch, err := ir.ScratchOf[float32](c, slots*dv)
	if err != nil {
		return err
	}
	qv, kv, vv := attentionView(in[0], q), attentionView(in[1], k), attentionView(in[2], v)
	yv := attentionView(y.data, attentionInput{q.batch, q.heads, q.length, dv, true})
	group := op.QHeads / op.KVHeads
	err = inSlots(c, n, func(slot, i int) error {
		b, h := i/op.KVHeads, i%op.KVHeads
		state := final.data[i*dk*dv:][:dk*dv]
		if in[3] != nil {
			copy(state, in[3][i*dk*dv:])
		} else {
			clear(state)
		}
		update := scratch[slot*dv:][:dv]
		for t := range q.length {
			if t%64 == 63 {
				if err := c.Err(); err != nil {
					return err
				}
			}
			key := kv.at(b, h, t)[:dk]
			if op.Gated {
				g := in[4][(b*q.length+t)*nDecay:][:nDecay]
				for d := range dk {
					x := g[h%len(g)]
					if nDecay != op.KVHeads {
						x = g[h*dk+d]
					}
					f := float32(math.Exp(float64(x)))
					for m := range dv {
						state[d*dv+m] *= f
					}
				}
			}
			copy(update, vv.at(b, h, t))
			if op.Delta {
				for d, x := range key {
					for m, s := range state[d*dv:][:dv] {
						update[m] -= x * s
					}
				}
				g := in[5][(b*q.length+t)*nBeta:][:nBeta]
				beta := g[h%nBeta]
				for m := range update {
					update[m] *= beta
				}
			}
			for d, x := range key {
				row := state[d*dv:][:dv]
				for m, u := range update {
					row[m] += x * u
				}
			}
			for j := range group {
				out := yv.at(b, h*group+j, t)[:dv]
				clear(out)
				for d, x := range qv.at(b, h*group+j, t)[:dk] {
					x *= scale
					for m, s := range state[d*dv:][:dv] {
						out[m] += x * s
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, o := range []realOutput[float32]{y, final} {
		if o.t != nil {
			o.store()
		}
	}
	return nil
}
