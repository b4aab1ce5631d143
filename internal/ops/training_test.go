package ops

import (
	"testing"

	"github.com/onward-ml/onward/tensor"
)

func TestTrainers(t *testing.T) {
	rate, count := tt([]float64{0.5}), tt([]int64{0})
	// One tensor of float and one of double; the first update counts the whole gradient.
	wantOps(t, "ai.onnx.preview.training.Momentum", 1, map[string]any{"alpha": 0.5, "beta": 0.25, "mode": "standard", "norm_coefficient": 0.0},
		vals(tt([]float32{0, 1}), tt([]float64{2}, 1), tt([]float32{2, 2}), tt([]float64{4}, 1)),
		rate, count, tt([]float32{1, 2}), tt([]float64{4}, 1), tt([]float32{1, 1}), tt([]float64{2}, 1), tt([]float32{2, 2}), tt([]float64{4}, 1))
	wantOps(t, "ai.onnx.preview.training.Adam", 1, nil, vals(tt([]float32{1}, 1), tt([]float32{1.9}, 1), tt([]float32{0.999}, 1)),
		rate, count, tt([]float32{1.9506024}, 1), tt([]float32{1}, 1), tt([]float32{2}, 1), tt([]float32{0.999}, 1))
	failOp(t, "ai.onnx.preview.training.Adagrad", 1, nil, "4 inputs, want 2 and then 3", rate, count, tt([]float32{1}, 1), tt([]float32{1}, 1))
	failOp(t, "ai.onnx.preview.training.Adagrad", 1, nil, "input 3 has shape [2]", rate, count, tt([]float32{1}, 1), tt([]float32{1, 2}), tt([]float32{1}, 1))
	failOp(t, "ai.onnx.preview.training.Adagrad", 1, nil, "input 2 is tensor(int64)", rate, count, tt([]int64{1}, 1), tt([]int64{1}, 1), tt([]int64{1}, 1))
	failOp(t, "ai.onnx.preview.training.Momentum", 1, nil, "required attribute alpha", rate, count, tt([]float32{1}, 1), tt([]float32{1}, 1), tt([]float32{1}, 1))
}

func vals(v ...tensor.Value) []tensor.Value { return v }
