package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
)

// CausalConvWithState convolves each channel of a sequence with its own kernel, causally. A state
// carries the last elements from call to call: output[b,c,t] = act(bias[c] + Σ_j
// weight[c,0,j]·(past and input)[b,c,t+j·Dilation])
// (https://onnx.ai/onnx/operators/onnx__CausalConvWithState.html).
type CausalConvWithState struct {
	SiLU         bool // apply SiLU to the result
	Dilation     int
	ChannelsLast bool // [batch length channels...], else [batch channels length]
	Window       int  // number of last states in the outputs; 0: the last state, without an axis
}

const CausalConvInputs = "input:T, weight:T, bias:T?, past_state:T?"

var _ = kit.Register(&kit.Def{Name: "CausalConvWithState", Since: kit.Versions{27}, In: CausalConvInputs,
	Out:   "output:T, present_state:T",
	MACs:  kit.ConvMACs,
	Types: "T: float float16 bfloat16", Build: func(a *kit.Attrs, opset int) kit.Operator { return ReadCausalConv(a) }})

func ReadCausalConv(a *kit.Attrs) *CausalConvWithState {
	return &CausalConvWithState{SiLU: a.Enum("activation", "none", "none", "silu", "swish") != "none", Dilation: 1}
}

// Infer derives the shapes from input and weight, if known.
func (op *CausalConvWithState) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 1, 3, "weight"); err != nil {
		return err
	}
	c.SetOut(0, c.Type(0))
	t := ir.UnrankedTensor(c.Elem(0))
	if s := c.Shape(0); len(s) >= 3 {
		axis := 2
		if op.ChannelsLast {
			axis = 1
		}
		t.Shape = slices.Clone(s)
		t.Shape[axis] = ir.Unknown
		if w := c.Shape(1); w != nil {
			if k, ok := w[2].Value(); ok && k >= 1 && k <= window.Limit {
				t.Shape[axis] = ir.Known((k - 1) * op.Dilation)
			}
		}
		if op.Window > 0 {
			t.Shape = append([]ir.Dim{ir.Known(op.Window)}, t.Shape...)
		}
	}
	c.SetOut(1, t)
	return nil
}

// Run computes in float32, channels in parallel.
func (op *CausalConvWithState) Run(c *ir.Call) error {
	x, w := c.Tensor(0), c.Tensor(1)
	s, ws := x.Shape(), w.Shape()
	if len(s) != 3 && (len(s) < 3 || !op.ChannelsLast) || len(ws) != 3 || ws[1] != 1 || ws[2] < 1 ||
		ws[2] > window.Limit {
		return fail.Errorf("input and weight have shapes %v and %v, want [batch channels length], or [batch length "+
			"channels...] with channels_last, and [channels 1 k] with k at least 1", s, ws)
	}
	batch, channels, n, axis := s[0], s[1], s[2], 2
	if op.ChannelsLast {
		n, channels, axis = s[1], kit.Product(s[2:]), 1
	}
	k := ws[2]
	past := (k - 1) * op.Dilation
	if ws[0] != channels {
		return fail.Errorf("weight has shape %v, want %d channels", ws, channels)
	}
	if b := c.Tensor(2); b != nil && b.Len() != channels {
		return fail.Errorf("bias has shape %v, want [%d]", b.Shape(), channels)
	}
	shape := slices.Clone(s)
	shape[axis] = past
	slots := 1
	if op.Window > 0 {
		slots, shape = op.Window, append([]int{op.Window}, shape...)
	}
	if p := c.Tensor(3); p != nil && !slices.Equal(p.Shape(), shape) {
		return fail.Errorf("past_state has shape %v, want %v", p.Shape(), shape)
	}
	var in [4][]float32
	for i := range in {
		var err error
		if in[i], err = kit.RealIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	y, err := kit.RealOut[float32](c, 0, x.DType(), s...)
	if err != nil {
		return err
	}
	state, err := kit.RealOut[float32](c, 1, x.DType(), shape...)
	if err != nil {
		return err
	}
	size := batch * channels * past // elements per state
	// at returns the index of element t of a channel with length elements.
	at := func(b, ch, t, length int) int {
		if op.ChannelsLast {
			return (b*length+t)*channels + ch
		}
		return (b*channels+ch)*length + t
	}
	level, each := cpu.Active(), past+n // elements per workspace
	if op.ChannelsLast {
		each += n
	}
	lines, err := ir.ScratchOf[float32](c, kit.WorkspaceCount(c, batch*channels)*each)
	if err != nil {
		return err
	}
	err = kit.InWorkspaces(c, batch*channels, func(ws, item int) error {
		if err := c.Err(); err != nil {
			return err
		}
		b, ch := item/channels, item%channels
		line := lines[ws*each:][:past+n] // the past and the new elements
		for t := range past {
			line[t] = 0
			if in[3] != nil {
				line[t] = in[3][(slots-1)*size+at(b, ch, t, past)]
			}
		}
		var dst []float32
		if op.ChannelsLast {
			dst = lines[ws*each+past+n:][:n]
			for t := range n {
				line[past+t] = in[0][at(b, ch, t, n)]
			}
		} else {
			dst = y.Data[item*n:][:n]
			copy(line[past:], in[0][item*n:][:n])
		}
		watch := 1 + ir.GrainWatch/(k+1)
		bias := float32(0)
		if in[2] != nil {
			bias = in[2][ch]
		}
		vec.FillF32(dst, bias)
		for t := 0; t < n; t += watch {
			if c.Err() != nil {
				return c.Err()
			}
			m := min(watch, n-t)
			vec.AxpyRowsF32(level, dst[t:], 0, line[t:], op.Dilation, m, in[1][ch*k:][:k])
			if op.SiLU {
				vec.SiluF32(level, dst[t:][:m], dst[t:][:m])
			}
		}
		if op.ChannelsLast {
			for t, v := range dst {
				y.Data[at(b, ch, t, n)] = v
			}
		}
		for w := range slots {
			end := n - slots + w + 1 // number of new elements in the state
			for t := range past {
				v := float32(0)
				switch {
				case end >= 0:
					v = line[end+t]
				case in[3] != nil && w+n < slots:
					v = in[3][(w+n)*size+at(b, ch, t, past)]
				}
				state.Data[w*size+at(b, ch, t, past)] = v
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	y.Store()
	state.Store()
	return nil
}
