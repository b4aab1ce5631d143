package ops

import (
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

func TestTrainers(t *testing.T) {
	rate, count := optest.Tensor([]float64{0.5}), optest.Tensor([]int64{0})
	// One tensor of float and one of double. The first update uses the whole gradient.
	optest.WantAll(t, "ai.onnx.preview.training.Momentum", 1,
		map[string]any{"alpha": 0.5, "beta": 0.25, "mode": "standard", "norm_coefficient": 0.0},
		vals(optest.Tensor([]float32{0, 1}), optest.Tensor([]float64{2}, 1), optest.Tensor([]float32{2, 2}),
			optest.Tensor([]float64{4}, 1)),
		rate, count, optest.Tensor([]float32{1, 2}), optest.Tensor([]float64{4}, 1), optest.Tensor([]float32{1, 1}),
		optest.Tensor([]float64{2}, 1), optest.Tensor([]float32{2, 2}), optest.Tensor([]float64{4}, 1))
	optest.WantAll(t, "ai.onnx.preview.training.Adam", 1, nil,
		vals(optest.Tensor([]float32{1}, 1), optest.Tensor([]float32{1.9}, 1), optest.Tensor([]float32{0.999}, 1)),
		rate, count, optest.Tensor([]float32{1.9506024}, 1), optest.Tensor([]float32{1}, 1),
		optest.Tensor([]float32{2}, 1), optest.Tensor([]float32{0.999}, 1))
	optest.Fail(t, "ai.onnx.preview.training.Adagrad", 1, nil, "4 inputs, want 2 and then 3", rate, count,
		optest.Tensor([]float32{1}, 1), optest.Tensor([]float32{1}, 1))
	optest.Fail(t, "ai.onnx.preview.training.Adagrad", 1, nil, "input 3 has shape [2]", rate, count,
		optest.Tensor([]float32{1}, 1), optest.Tensor([]float32{1, 2}), optest.Tensor([]float32{1}, 1))
	optest.Fail(t, "ai.onnx.preview.training.Adagrad", 1, nil, "input 2 is tensor(int64)", rate, count,
		optest.Tensor([]int64{1}, 1), optest.Tensor([]int64{1}, 1), optest.Tensor([]int64{1}, 1))
	optest.Fail(t, "ai.onnx.preview.training.Momentum", 1, nil, "required attribute alpha", rate, count,
		optest.Tensor([]float32{1}, 1), optest.Tensor([]float32{1}, 1), optest.Tensor([]float32{1}, 1))
}

func vals(v ...tensor.Value) []tensor.Value { return v }
