package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
)

// CausalConvWithState is a depthwise convolution over time that sees the present
// and past positions only: with the last k−1 positions of before in past_state,
// output[b,c,t] = act(bias[c] + Σ_j weight[c,0,j]·padded[b,c,t+j])
// (https://onnx.ai/onnx/operators/onnx__CausalConvWithState.html).
type CausalConvWithState struct{ Silu bool }

var _ = register(Def{Name: "CausalConvWithState", Since: []int{27}, In: "input:T, weight:T, bias:T?, past_state:T?", Out: "output:T, present_state:T",
	Types: Types{"T": "float float16 bfloat16"}, Build: simple(func(a *Attrs, opset int) Operator {
		return &CausalConvWithState{a.Enum("activation", "none", "none", "silu", "swish") != "none"}
	})})

// Infer sets output to the type of input and present_state to [batch, channels, k−1].
func (op *CausalConvWithState) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	s := ir.UnknownDims(3)
	if x := c.Shape(0); len(x) == 3 {
		s[0], s[1] = x[0], x[1]
	}
	if w := c.Shape(1); len(w) == 3 {
		s[2] = w[2].Sub(ir.Known(1))
	}
	c.SetOut(1, ir.TensorType(c.Elem(0), s...))
	return nil
}

// Run convolves channel by channel.
func (op *CausalConvWithState) Run(c *ir.Call) error {
	x, w := c.Tensor(0), c.Tensor(1)
	xs, ws := x.Shape(), w.Shape()
	if len(xs) != 3 || len(ws) != 3 || ws[0] != xs[1] || ws[1] != 1 || ws[2] < 1 {
		return fmt.Errorf("input and weight have shapes %v and %v, want [batch, channels, length] and [channels, 1, k] with k at least 1", xs, ws)
	}
	batch, channels, length, k := xs[0], xs[1], xs[2], ws[2]
	if b := c.Tensor(2); b != nil && !slices.Equal(b.Shape(), []int{channels}) {
		return fmt.Errorf("bias has shape %v, want [%d]", b.Shape(), channels)
	}
	if p := c.Tensor(3); p != nil && !slices.Equal(p.Shape(), []int{batch, channels, k - 1}) {
		return fmt.Errorf("past_state has shape %v, want [%d %d %d]", p.Shape(), batch, channels, k-1)
	}
	var in [4][]float32
	for i := range in {
		var err error
		if in[i], err = realIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	y, err := realOut[float32](c, 0, x.DType(), xs...)
	if err != nil {
		return err
	}
	state, err := realMaybe[float32](c, 1, x.DType(), batch, channels, k-1)
	if err != nil {
		return err
	}
	if k > math.MaxInt-length {
		return fmt.Errorf("weight has shape %v, which is too large", ws)
	}
	n := batch * channels
	slots, padded := slotCount(n), length+k-1
	scratch, err := ir.ScratchOf[float32](c, slots*padded)
	if err != nil {
		return err
	}
	err = inSlots(c, n, func(slot, i int) error {
		ch := i % channels
		p := scratch[slot*padded:][:padded]
		if in[3] != nil {
			copy(p, in[3][i*(k-1):][:k-1])
		} else {
			clear(p[:k-1])
		}
		copy(p[k-1:], in[0][i*length:][:length])
		copy(state.data[i*(k-1):][:k-1], p[length:])
		bias := float32(0)
		if in[2] != nil {
			bias = in[2][ch]
		}
		out := y.data[i*length:][:length]
		for t := range out {
			out[t] = bias
		}
		for j, f := range in[1][ch*k:][:k] {
			src := p[j:][:len(out)]
			for t := range out {
				out[t] += f * src[t]
			}
		}
		if op.Silu {
			for t, v := range out {
				out[t] = float32(float64(v) * logistic(float64(v)))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	y.store()
	if state.t != nil {
		state.store()
	}
	return nil
}
