package ops

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// TestSuppressionOrder checks the order of boxes that do not overlap: by score, then by index. The
// zeros are equal.
func TestSuppressionOrder(t *testing.T) {
	scores := []float32{0, -1, 3, float32(math.Copysign(0, -1)), float32(math.Inf(1)), 3, float32(math.NaN()), -2, float32(math.Inf(-1)), 1e-45}
	boxes := make([]float32, 0, 4*len(scores))
	for i := range scores {
		y := float32(2 * i)
		boxes = append(boxes, y, 0, y+1, 1)
	}
	want := []int64{}
	for _, i := range []int64{4, 2, 5, 9, 0, 3, 1, 7, 8} {
		want = append(want, 0, 0, i)
	}
	for limit := range len(scores) + 1 {
		n := min(limit, len(want)/3)
		optest.Want(t, "NonMaxSuppression", 11, nil, optest.Tensor(want[:3*n], n, 3),
			optest.Tensor(boxes, 1, len(scores), 4), optest.Tensor(scores, 1, 1, len(scores)), optest.Tensor([]int64{int64(limit)}))
	}
}

// TestUniqueSortsByKeys checks the order of numbers that differ in several bytes of their sort keys.
func TestUniqueSortsByKeys(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		x, y           *tensor.Tensor
		inverse, count []int64
	}{
		{optest.Tensor([]int64{70000, -1, 3, -1, math.MinInt64, 70000, 259}), optest.Tensor([]int64{math.MinInt64, -1, 3, 259, 70000}),
			[]int64{4, 1, 2, 1, 0, 4, 3}, []int64{1, 2, 1, 1, 2}},
		{optest.Tensor([]float64{nan, 2.5, -1e300, 0, math.Inf(-1), nan, math.Copysign(0, -1)}), optest.Tensor([]float64{math.Inf(-1), -1e300, 0, 2.5, nan}),
			[]int64{4, 3, 1, 2, 0, 4, 2}, []int64{1, 1, 2, 1, 2}},
	} {
		got, err := optest.Run(t, "Unique", 11, nil, c.x)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []*tensor.Tensor{0: c.y, 2: optest.Tensor(c.inverse), 3: optest.Tensor(c.count)} {
			if want != nil && !optest.Same(got[i], want, 0) {
				t.Errorf("output %d is %s, want %s", i, optest.Show(got[i]), optest.Show(want))
			}
		}
	}
}

// TestUnpoolToLargerShape moves maxima into an output that is larger than the pooled one.
func TestUnpoolToLargerShape(t *testing.T) {
	attrs := map[string]any{"kernel_shape": []int{2, 2}, "strides": []int{2, 2}}
	index, shape := optest.Tensor([]int64{5, 7}, 1, 1, 1, 2), optest.Tensor([]int64{1, 1, 3, 5})
	want := []float32{0, 0, 0, 0, 0, 0, 8, 0, 9, 0, 0, 0, 0, 0, 0}
	optest.Want(t, "MaxUnpool", 11, attrs, optest.Tensor(want, 1, 1, 3, 5), optest.Tensor([]float32{8, 9}, 1, 1, 1, 2), index, shape)
	optest.Want(t, "MaxUnpool", 11, attrs, optest.Tensor([]float64{0, 0, 0, 0, 0, 8, 0, 9}, 1, 1, 2, 4), optest.Tensor([]float64{8, 9}, 1, 1, 1, 2), index)
	optest.Fail(t, "MaxUnpool", 11, attrs, "index 8 is out of range [0, 8)", optest.Tensor([]float32{8, 9}, 1, 1, 1, 2), optest.Tensor([]int64{5, 8}, 1, 1, 1, 2))
}

// TestCol2ImAgrees compares blocks with strides, dilations and pads beyond the image.
func TestCol2ImAgrees(t *testing.T) {
	for _, c := range []struct {
		attrs  map[string]any
		blocks int
	}{
		{map[string]any{}, 4 * 6},
		{map[string]any{"pads": []int{1, 2, 1, 2}}, 6 * 10},
		{map[string]any{"pads": []int{1, 2, 1, 2}, "strides": []int{2, 3}}, 3 * 4},
		{map[string]any{"dilations": []int{2, 3}, "pads": []int{0, 1, 0, 1}}, 3 * 4},
	} {
		x := make([]float32, 2*2*6*c.blocks)
		for i := range x {
			x[i] = float32(i%13) - 6
		}
		if _, err := optest.Run(t, "Col2Im", 18, c.attrs, optest.Tensor(x, 2, 12, c.blocks), optest.Tensor([]int64{5, 8}), optest.Tensor([]int64{2, 3})); err != nil {
			t.Errorf("%v: %v", c.attrs, err)
		}
	}
}

// TestSignsAndInfinities checks the branchless loops at zeros, infinities and NaN.
func TestSignsAndInfinities(t *testing.T) {
	inf, nan, zero := math.Inf(1), math.NaN(), math.Copysign(0, -1)
	x := []float64{0, zero, 3, -3, inf, -inf, nan, 5e-324, -5e-324}
	optest.Want(t, "Sign", 13, nil, optest.Tensor([]float64{0, zero, 1, -1, 1, -1, nan, 1, -1}), optest.Tensor(x))
	optest.Want(t, "Sign", 13, nil, optest.Tensor([]int16{1, -1, 0, 1, -1}), optest.Tensor([]int16{math.MaxInt16, math.MinInt16, 0, 1, -1}))
	long := make([]float32, 1100) // more than one block
	for i := range long {
		long[i] = float32(x[i*i%len(x)])
	}
	for _, attrs := range []map[string]any{{}, {"detect_negative": 0}, {"detect_positive": 0}, {"detect_negative": 0, "detect_positive": 0}} {
		want := make([]bool, len(long))
		for i, v := range long {
			want[i] = attrs["detect_positive"] == nil && v > math.MaxFloat32 || attrs["detect_negative"] == nil && v < -math.MaxFloat32
		}
		optest.Want(t, "IsInf", 20, attrs, optest.Tensor(want), optest.Tensor(long))
	}
}

// TestBatchNormalizationOfRows normalizes rows of channels of one element.
func TestBatchNormalizationOfRows(t *testing.T) {
	const n, ch = 3, 20
	x, p := make([]float32, n*ch), make([]float32, ch)
	for i := range x {
		x[i] = float32(i*7%19) - 9
	}
	for i := range p {
		p[i] = float32(i)/8 + 0.5
	}
	param := optest.Tensor(p, ch)
	if _, err := optest.RunN(t, 1, "BatchNormalization", 15, nil, optest.Tensor(x, n, ch), param, param, param, param); err != nil {
		t.Error(err)
	}
}

// TestSoftmaxOfDoubles checks rows with infinities and NaN, and the loss that reads the logarithm.
func TestSoftmaxOfDoubles(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	x := []float64{1, 2, 3, -inf, 1000, 0, nan, 1, 2, -1, -2, -3}
	for _, shape := range [][]int{{4, 3}, {2, 6}, {12, 1}} {
		if _, err := optest.Run(t, "Softmax", 13, nil, optest.Tensor(x, shape...)); err != nil {
			t.Error(err)
		}
	}
	scores := make([]float32, 2*5*7)
	for i := range scores {
		scores[i] = float32(i*11%23) - 9
	}
	labels := []int64{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3}
	for _, reduction := range []string{"none", "sum", "mean"} {
		attrs := map[string]any{"reduction": reduction, "ignore_index": 3}
		for _, in := range [][2]*tensor.Tensor{
			{optest.Tensor(scores, 2, 5, 7), optest.Tensor(labels, 2, 7)},
			{optest.Tensor(scores, 14, 5), optest.Tensor(labels, 14)},
		} {
			if _, err := optest.RunN(t, 2, "SoftmaxCrossEntropyLoss", 13, attrs, in[0], in[1]); err != nil {
				t.Error(err)
			}
		}
	}
}
