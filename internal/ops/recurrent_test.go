package ops

import (
	"testing"

	"github.com/onward-ml/onward/tensor"
)

func TestRecurrentForms(t *testing.T) {
	x, w, r := tt([]float32{1, 2}, 2, 1, 1), tt([]float32{1}, 1, 1, 1), tt([]float32{0.5}, 1, 1, 1)
	linear := map[string]any{"activations": []string{"Affine"}} // alpha 1 and beta 0 by default
	y := []tensor.Value{tt([]float32{1, 2.5}, 2, 1, 1, 1), tt([]float32{2.5}, 1, 1, 1)}
	for _, opset := range []int{1, 7, 14, 22} {
		wantOps(t, "RNN", opset, linear, y, x, w, r)
	}
	wantOps(t, "RNN", 1, map[string]any{"activations": []string{"Affine"}, "output_sequence": 1}, y, x, w, r)
	failOp(t, "RNN", 7, map[string]any{"layout": 0}, "unknown attribute layout", x, w, r)
	failOp(t, "GRU", 1, map[string]any{"linear_before_reset": 0}, "unknown attribute linear_before_reset", x, w, r)

	// layout 1 with two sequences of different lengths, one of them empty.
	xb := tt([]float32{1, 2, 3, 4}, 2, 2, 1)
	wantOps(t, "RNN", 14, map[string]any{"activations": []string{"affine"}, "layout": 1, "direction": "reverse"},
		[]tensor.Value{tt([]float32{2, 2, 0, 0}, 2, 2, 1, 1), tt([]float32{2, 7}, 2, 1, 1)},
		xb, w, r, nil, tt([]int32{2, 0}), tt([]float32{0, 7}, 2, 1, 1))

	half := func(v ...float32) *tensor.Tensor {
		h := make([]tensor.Float16, len(v))
		tensor.Float32sToFloat16s(h, v)
		return tt(h, len(v), 1, 1)
	}
	wantOps(t, "RNN", 22, linear, []tensor.Value{tensor.Must(half(1, 2.5).Reshape(2, 1, 1, 1)), half(2.5)}, half(1, 2), half(1), half(0.5))
	wantOps(t, "RNN", 22, linear, []tensor.Value{tt([]float64{1, 2.5}, 2, 1, 1, 1), tt([]float64{2.5}, 1, 1, 1)},
		tt([]float64{1, 2}, 2, 1, 1), tt([]float64{1}, 1, 1, 1), tt([]float64{0.5}, 1, 1, 1))

	// The clip also bounds the input of the last activation, and coupled gates
	// forget what they take in.
	one := func(n int, v float32) []float32 {
		s := make([]float32, n)
		for i := range s {
			s[i] = v
		}
		return s
	}
	lstm := map[string]any{"activations": []string{"Affine", "Affine", "Affine"}, "clip": 0.5, "input_forget": 1}
	wantOps(t, "LSTM", 22, lstm, []tensor.Value{tt([]float32{0.25}, 1, 1, 1, 1), tt([]float32{0.25}, 1, 1, 1), tt([]float32{2.25}, 1, 1, 1)},
		tt([]float32{9}, 1, 1, 1), tt(one(4, 1), 1, 4, 1), tt(one(4, 0), 1, 4, 1), nil, nil, nil, tt([]float32{4}, 1, 1, 1))
}

func TestRecurrentZeroSizes(t *testing.T) {
	for _, c := range []struct{ seq, batch, in, hid int }{{0, 2, 1, 1}, {2, 0, 1, 1}, {2, 1, 0, 1}, {2, 1, 1, 0}} {
		for op, gates := range map[string]int{"RNN": 1, "GRU": 3, "LSTM": 4} {
			zeros := func(shape ...int) *tensor.Tensor { return tensor.Must(tensor.Zeros(tensor.TypeFloat32, shape...)) }
			want := []tensor.Value{zeros(c.seq, 1, c.batch, c.hid), zeros(1, c.batch, c.hid)}
			wantOps(t, op, 22, nil, want, zeros(c.seq, c.batch, c.in), zeros(1, gates*c.hid, c.in), zeros(1, gates*c.hid, c.hid))
		}
	}
}

func TestRecurrentErrors(t *testing.T) {
	x, w, r := tt([]float32{1, 2}, 2, 1, 1), tt([]float32{1}, 1, 1, 1), tt([]float32{0.5}, 1, 1, 1)
	failOp(t, "RNN", 22, map[string]any{"hidden_size": 2}, "hidden_size is 2", x, w, r)
	failOp(t, "RNN", 22, map[string]any{"direction": "bidirectional"}, "want [2 1 1]", x, w, r)
	failOp(t, "RNN", 22, map[string]any{"activations": []string{"Tan"}}, `unknown activation "Tan"`, x, w, r)
	failOp(t, "RNN", 22, map[string]any{"activations": []string{}}, "0 activations", x, w, r)
	failOp(t, "RNN", 22, map[string]any{"clip": -1.0}, "clip is -1", x, w, r)
	failOp(t, "RNN", 22, nil, "sequence_lens[0] is 3", x, w, r, nil, tt([]int32{3}, 1))
	failOp(t, "RNN", 22, nil, "sequence_lens[0] is -1", x, w, r, nil, tt([]int32{-1}, 1))
	failOp(t, "RNN", 22, nil, "B has shape [1 1]", x, w, r, tt([]float32{1}, 1, 1))
	failOp(t, "RNN", 22, nil, "rank 2", tt([]float32{1}, 1, 1), w, r)
	failOp(t, "LSTM", 22, nil, "P has shape", tt([]float32{1}, 1, 1, 1), tt(make([]float32, 4), 1, 4, 1), tt(make([]float32, 4), 1, 4, 1),
		nil, nil, nil, nil, tt([]float32{1, 2}, 1, 2))
}
