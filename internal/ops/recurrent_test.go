package ops

import (
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

func TestRecurrentForms(t *testing.T) {
	x, w, r := optest.Tensor([]float32{1, 2}, 2, 1, 1), optest.Tensor([]float32{1}, 1, 1, 1),
		optest.Tensor([]float32{0.5}, 1, 1, 1)
	linear := map[string]any{"activations": []string{"Affine"}} // alpha 1 and beta 0 by default
	y := []tensor.Value{optest.Tensor([]float32{1, 2.5}, 2, 1, 1, 1), optest.Tensor([]float32{2.5}, 1, 1, 1)}
	for _, opset := range []int{1, 7, 14, 22} {
		optest.WantAll(t, "RNN", opset, linear, y, x, w, r)
	}
	optest.WantAll(t, "RNN", 1, map[string]any{"activations": []string{"Affine"}, "output_sequence": 1}, y, x, w, r)
	optest.Fail(t, "RNN", 7, map[string]any{"layout": 0}, "unknown attribute layout", x, w, r)
	optest.Fail(t, "GRU", 1, map[string]any{"linear_before_reset": 0}, "unknown attribute linear_before_reset", x, w, r)

	// layout 1 with two sequences of different lengths, one of them empty.
	xb := optest.Tensor([]float32{1, 2, 3, 4}, 2, 2, 1)
	optest.WantAll(t, "RNN", 14, map[string]any{"activations": []string{"affine"}, "layout": 1, "direction": "reverse"},
		[]tensor.Value{optest.Tensor([]float32{2, 2, 0, 0}, 2, 2, 1, 1), optest.Tensor([]float32{2, 0}, 2, 1, 1)},
		xb, w, r, nil, optest.Tensor([]int32{2, 0}), optest.Tensor([]float32{0, 7}, 2, 1, 1))

	half := func(v ...float32) *tensor.Tensor {
		h := make([]tensor.Float16, len(v))
		tensor.Float32sToFloat16s(h, v)
		return optest.Tensor(h, len(v), 1, 1)
	}
	optest.WantAll(t, "RNN", 22, linear, []tensor.Value{tensor.Must(half(1, 2.5).Reshape(2, 1, 1, 1)), half(2.5)},
		half(1, 2), half(1), half(0.5))
	optest.WantAll(t, "RNN", 22, linear,
		[]tensor.Value{optest.Tensor([]float64{1, 2.5}, 2, 1, 1, 1), optest.Tensor([]float64{2.5}, 1, 1, 1)},
		optest.Tensor([]float64{1, 2}, 2, 1, 1), optest.Tensor([]float64{1}, 1, 1, 1),
		optest.Tensor([]float64{0.5}, 1, 1, 1))

	// The clip also bounds the input of the last activation, and the forget gate is one minus
	// the coupled input gate.
	one := func(n int, v float32) []float32 {
		s := make([]float32, n)
		for i := range s {
			s[i] = v
		}
		return s
	}
	lstm := map[string]any{"activations": []string{"Affine", "Affine", "Affine"}, "clip": 0.5, "input_forget": 1}
	optest.WantAll(t, "LSTM", 22, lstm, []tensor.Value{optest.Tensor([]float32{0.25}, 1, 1, 1, 1),
		optest.Tensor([]float32{0.25}, 1, 1, 1), optest.Tensor([]float32{2.25}, 1, 1, 1)},
		optest.Tensor([]float32{9}, 1, 1, 1), optest.Tensor(one(4, 1), 1, 4, 1), optest.Tensor(one(4, 0), 1, 4, 1), nil,
		nil, nil, optest.Tensor([]float32{4}, 1, 1, 1))
}

func TestRecurrentZeroSizes(t *testing.T) {
	for _, c := range []struct{ seq, batch, in, hid int }{{0, 2, 1, 1}, {2, 0, 1, 1}, {2, 1, 0, 1}, {2, 1, 1, 0}} {
		for op, gates := range map[string]int{"RNN": 1, "GRU": 3, "LSTM": 4} {
			zeros := func(shape ...int) *tensor.Tensor {
				return tensor.Must(tensor.Zeros(tensor.TypeFloat32, shape...))
			}
			want := []tensor.Value{zeros(c.seq, 1, c.batch, c.hid), zeros(1, c.batch, c.hid)}
			optest.WantAll(t, op, 22, nil, want, zeros(c.seq, c.batch, c.in), zeros(1, gates*c.hid, c.in),
				zeros(1, gates*c.hid, c.hid))
		}
	}
}

func TestRecurrentErrors(t *testing.T) {
	x, w, r := optest.Tensor([]float32{1, 2}, 2, 1, 1), optest.Tensor([]float32{1}, 1, 1, 1),
		optest.Tensor([]float32{0.5}, 1, 1, 1)
	optest.Fail(t, "RNN", 22, map[string]any{"hidden_size": 2}, "hidden_size is 2", x, w, r)
	optest.Fail(t, "RNN", 22, map[string]any{"hidden_size": -1}, "hidden_size must be positive, got -1", x, w, r)
	optest.Fail(t, "RNN", 22, map[string]any{"direction": "bidirectional"}, "want [2 1 1]", x, w, r)
	optest.Fail(t, "RNN", 22, map[string]any{"activations": []string{"Tan"}}, `unknown activation "Tan"`, x, w, r)
	optest.Fail(t, "RNN", 22, map[string]any{"activations": []string{}}, "0 activations", x, w, r)
	optest.Fail(t, "RNN", 22, map[string]any{"clip": -1.0}, "got -1", x, w, r)
	optest.Fail(t, "RNN", 22, nil, "sequence_lens[0] is 3", x, w, r, nil, optest.Tensor([]int32{3}, 1))
	optest.Fail(t, "RNN", 22, nil, "sequence_lens[0] is -1", x, w, r, nil, optest.Tensor([]int32{-1}, 1))
	optest.Fail(t, "RNN", 22, nil, "B has shape [1 1]", x, w, r, optest.Tensor([]float32{1}, 1, 1))
	optest.Fail(t, "RNN", 22, nil, "rank 2", optest.Tensor([]float32{1}, 1, 1), w, r)
	optest.Fail(t, "LSTM", 22, nil, "P has shape", optest.Tensor([]float32{1}, 1, 1, 1),
		optest.Tensor(make([]float32, 4), 1, 4, 1), optest.Tensor(make([]float32, 4), 1, 4, 1),
		nil, nil, nil, nil, optest.Tensor([]float32{1, 2}, 1, 2))
}

// As in ONNX Runtime, the last state of a sequence of no steps is 0, not the initial state.
func TestRecurrentWithoutSteps(t *testing.T) {
	for op, gates := range map[string]int{"RNN": 1, "GRU": 3, "LSTM": 4} {
		x := optest.Tensor([]float32{1, 2, 3, 4}, 2, 2, 1)
		w, r := optest.Tensor(make([]float32, gates), 1, gates, 1), optest.Tensor(make([]float32, gates), 1, gates, 1)
		h := optest.Tensor([]float32{0.5, 0.25}, 1, 2, 1)
		in := []tensor.Value{x, w, r, nil, optest.Tensor([]int32{0, 0}, 2), h}
		want := []tensor.Value{optest.Tensor([]float32{0, 0, 0, 0}, 2, 1, 2, 1),
			optest.Tensor([]float32{0, 0}, 1, 2, 1)}
		if op == "LSTM" {
			in, want = append(in, h), append(want, optest.Tensor([]float32{0, 0}, 1, 2, 1))
		}
		optest.WantAll(t, op, 22, nil, want, in...)
	}
}
