package ops

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

func TestDFTForms(t *testing.T) {
	x := optest.Tensor([]float32{1, 2, 3, 4}, 1, 4, 1)
	spectrum := optest.Tensor([]float32{10, 0, -2, 2, -2, 0}, 1, 3, 2)
	one := map[string]any{"onesided": 1}
	optest.Want(t, "DFT", 20, one, spectrum, x)
	optest.Want(t, "DFT", 17, one, spectrum, x)
	optest.Want(t, "DFT", 17, map[string]any{"axis": 0}, optest.Tensor([]float32{1, 0, 2, 0, 3, 0, 4, 0}, 1, 4, 2), x)
	optest.Want(t, "DFT", 20, one, optest.Tensor([]float32{10, 0, -2, 2, -2, 0}, 3, 1, 2),
		tensor.Must(x.Reshape(4, 1, 1)), nil, optest.Tensor([]int64{0}))
	back := map[string]any{"onesided": 1, "inverse": 1}
	optest.Want(t, "DFT", 20, back, x, spectrum)
	optest.Want(t, "DFT", 20, back, optest.Tensor([]float32{2, 0.211325, 0.788675}, 1, 3, 1),
		optest.Tensor([]float32{3, 9, 1.5, 0.5}, 1, 2, 2), optest.Tensor([]int64{3}))
	optest.Want(t, "DFT", 20, nil, optest.Tensor([]float32{3, 0}, 1, 1, 2), optest.Tensor([]float32{3, 4}, 1, 2, 1),
		optest.Tensor([]int64{1}))
	optest.Want(t, "DFT", 20, nil, optest.Tensor([]float32{3, 0, 3, 0}, 1, 2, 2), optest.Tensor([]float32{3}, 1, 1, 1),
		optest.Tensor([]int32{2}))
	optest.Want(t, "DFT", 20, nil, optest.Tensor([]float32{}, 0, 2, 2), optest.Tensor([]float32{}, 0, 2, 1))
	optest.Want(t, "DFT", 20, nil, optest.Tensor([]float32{0, 0, 0, 0}, 1, 2, 2), optest.Tensor([]float32{}, 1, 0, 1),
		optest.Tensor([]int64{2}))
	optest.Fail(t, "DFT", 20, one, "one-sided", spectrum)
	optest.Fail(t, "DFT", 20, nil, "got -1", x, optest.Tensor([]int64{-1}))
	optest.Fail(t, "DFT", 20, nil, "memory limit", x, optest.Tensor([]int64{1 << 40}))
	optest.Fail(t, "DFT", 17, map[string]any{"axis": 2}, "axis 2 is the last dimension", x)
	optest.Fail(t, "DFT", 17, map[string]any{"axis": math.MinInt64}, "out of range", x)
	optest.Fail(t, "STFT", 17, nil, "frame_step is 0", x, optest.Tensor([]int64{0}))
	optest.Fail(t, "STFT", 17, nil, "frame length is -4", x, optest.Tensor([]int64{1}), nil, optest.Tensor([]int64{-4}))
	optest.Want(t, "STFT", 17, nil, optest.Tensor([]float32{}, 1, 0, 4, 2), x, optest.Tensor([]int64{1}), nil,
		optest.Tensor([]int64{6}))
}

// TestSTFTOfMatrix transforms a signal [batch, length], as PyTorch's exporter writes it.
func TestSTFTOfMatrix(t *testing.T) {
	step, size := optest.Tensor([]int64{2}), optest.Tensor([]int64{2})
	for _, shape := range [][]int{{1, 4}, {1, 4, 1}} {
		optest.Want(t, "STFT", 17, nil, optest.Tensor([]float32{3, 0, -1, 0, 7, 0, -1, 0}, 1, 2, 2, 2),
			optest.Tensor([]float32{1, 2, 3, 4}, shape...), step, nil, size)
	}
	optest.Fail(t, "STFT", 17, nil, "signal has rank 1", optest.Tensor([]float32{1, 2, 3, 4}), step, nil, size)
}

func TestWindowsAndMelEdges(t *testing.T) {
	optest.Want(t, "HannWindow", 17, nil, optest.Tensor([]float32{}, 0), optest.Tensor([]int64{0}))
	optest.Want(t, "HannWindow", 17, map[string]any{"periodic": 0}, optest.Tensor([]float32{1}, 1),
		optest.Tensor([]int64{1}))
	optest.Want(t, "HannWindow", 17, map[string]any{"output_datatype": tensor.TypeFloat64},
		optest.Tensor([]float64{0, 0.5, 1, 0.5}), optest.Tensor([]int32{4}))
	optest.Want(t, "HannWindow", 17, map[string]any{"output_datatype": tensor.TypeInt8},
		optest.Tensor([]int8{0, 0, 1, 0}), optest.Tensor([]int32{4}))
	optest.Fail(t, "HannWindow", 17, nil, "got -1", optest.Tensor([]int64{-1}))
	optest.Fail(t, "HannWindow", 17, map[string]any{"output_datatype": 8}, "output is string",
		optest.Tensor([]int64{2}))
	mel := func(upper float32) []tensor.Value {
		return []tensor.Value{optest.Tensor([]int64{4}), optest.Tensor([]int64{16}), optest.Tensor([]int64{8192}),
			optest.Tensor([]float32{0}), optest.Tensor([]float32{upper})}
	}
	optest.Fail(t, "MelWeightMatrix", 17, nil, "out of range of the 9 bins", mel(99999)...)
	optest.Fail(t, "MelWeightMatrix", 17, nil, "out of range of the 9 bins", mel(float32(math.NaN()))...)
}

func TestNonMaxSuppressionEdges(t *testing.T) {
	boxes, scores := optest.Tensor([]float32{0, 0, 1, 1, 1, 1, 0, 0, 5, 5, 6, 6}, 1, 3, 4),
		optest.Tensor([]float32{0.5, 0.5, float32(math.NaN())}, 1, 1, 3)
	max2 := optest.Tensor([]int64{2})
	optest.Want(t, "NonMaxSuppression", 11, nil, optest.Tensor([]int64{}, 0, 3), boxes, scores)
	optest.Want(t, "NonMaxSuppression", 11, nil, optest.Tensor([]int64{0, 0, 0}, 1, 3), boxes, scores, max2,
		optest.Tensor([]float32{0.5}))
	optest.Want(t, "NonMaxSuppression", 10, nil, optest.Tensor([]int64{0, 0, 0, 0, 0, 1}, 2, 3), boxes, scores, max2,
		optest.Tensor([]float32{1}))
	optest.Want(t, "NonMaxSuppression", 11, nil, optest.Tensor([]int64{}, 0, 3), boxes, scores, max2, nil,
		optest.Tensor([]float32{0.5}))
	optest.Fail(t, "NonMaxSuppression", 11, nil, "iou_threshold is 2", boxes, scores, max2, optest.Tensor([]float32{2}))
	optest.Fail(t, "NonMaxSuppression", 11, map[string]any{"center_point_box": 2},
		"center_point_box is 2", boxes, scores)
	optest.Fail(t, "NonMaxSuppression", 11, nil, "have shapes", boxes, optest.Tensor([]float32{1}, 1, 1, 1), max2)
}

func TestLossEdges(t *testing.T) {
	x, ok := optest.Tensor([]float32{-1, -2}, 1, 2), optest.Tensor([]int64{1}, 1)
	for _, opset := range []int{12, 13, 22} {
		optest.Want(t, "NegativeLogLikelihoodLoss", opset, nil, optest.Tensor([]float32{2}), x, ok)
	}
	optest.Want(t, "SoftmaxCrossEntropyLoss", 12, map[string]any{"reduction": "sum"},
		optest.Tensor([]float32{1.3132616}), x, ok)
	all := map[string]any{"ignore_index": 7}
	optest.Want(t, "NegativeLogLikelihoodLoss", 13, all, optest.Tensor([]float32{float32(math.NaN())}), x,
		optest.Tensor([]int64{7}, 1))
	optest.Fail(t, "NegativeLogLikelihoodLoss", 13, nil, "target[0] is 2, want 0 to 1", x, optest.Tensor([]int64{2}, 1))
	optest.Fail(t, "SoftmaxCrossEntropyLoss", 13, nil, "target[0] is -1", x, optest.Tensor([]int32{-1}, 1))
	optest.Fail(t, "SoftmaxCrossEntropyLoss", 13, nil, "weight has shape [3]", x, ok, optest.Tensor([]float32{1, 2, 3}))
	optest.Want(t, "SoftmaxCrossEntropyLoss", 13, map[string]any{"reduction": "none"}, optest.Tensor([]float32{}, 0, 2),
		optest.Tensor([]float32{}, 0, 3, 2), optest.Tensor([]int64{}, 0, 2))
}
