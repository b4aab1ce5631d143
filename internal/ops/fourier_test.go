package ops

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/tensor"
)

func TestFourierPlanEqualsTheDefinition(t *testing.T) {
	lengths := []int{509, 1000, 1021, 1024, 1155, 2 * 521}
	for n := 1; n <= 130; n++ {
		lengths = append(lengths, n)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range lengths {
		p := newFourierPlan(n)
		src, dst, back := make([]complex128, n), make([]complex128, n), make([]complex128, n)
		for i := range src {
			src[i] = complex(r.NormFloat64(), r.NormFloat64())
		}
		scratch := make([]complex128, p.scratchLen())
		p.forward(dst, src, scratch)
		for k := 0; k < n; k += 1 + n/17 {
			want := complex128(0)
			for j, x := range src {
				want += x * cmplx.Rect(1, -2*math.Pi*float64(j*k%n)/float64(n))
			}
			if cmplx.Abs(dst[k]-want) > 1e-11*float64(n) {
				t.Fatalf("length %d: frequency %d is %v, want %v", n, k, dst[k], want)
			}
		}
		p.inverse(back, dst, scratch)
		for i, x := range src {
			if cmplx.Abs(back[i]-x) > 1e-11 {
				t.Fatalf("length %d: element %d comes back as %v, want %v", n, i, back[i], x)
			}
		}
	}
}

func TestDFTForms(t *testing.T) {
	x := tt([]float32{1, 2, 3, 4}, 1, 4, 1)
	spectrum := tt([]float32{10, 0, -2, 2, -2, 0}, 1, 3, 2)
	one := map[string]any{"onesided": 1}
	wantOp(t, "DFT", 20, one, spectrum, x)
	wantOp(t, "DFT", 17, one, spectrum, x)
	wantOp(t, "DFT", 17, map[string]any{"axis": 0}, tt([]float32{1, 0, 2, 0, 3, 0, 4, 0}, 1, 4, 2), x)
	wantOp(t, "DFT", 20, one, tt([]float32{10, 0, -2, 2, -2, 0}, 3, 1, 2), tensor.Must(x.Reshape(4, 1, 1)), nil, tt([]int64{0}))
	back := map[string]any{"onesided": 1, "inverse": 1}
	wantOp(t, "DFT", 20, back, x, spectrum)
	wantOp(t, "DFT", 20, back, tt([]float32{2, 0.211325, 0.788675}, 1, 3, 1), tt([]float32{3, 9, 1.5, 0.5}, 1, 2, 2), tt([]int64{3}))
	wantOp(t, "DFT", 20, nil, tt([]float32{3, 0}, 1, 1, 2), tt([]float32{3, 4}, 1, 2, 1), tt([]int64{1}))
	wantOp(t, "DFT", 20, nil, tt([]float32{3, 0, 3, 0}, 1, 2, 2), tt([]float32{3}, 1, 1, 1), tt([]int32{2}))
	wantOp(t, "DFT", 20, nil, tt([]float32{}, 0, 2, 2), tt([]float32{}, 0, 2, 1))
	wantOp(t, "DFT", 20, nil, tt([]float32{0, 0, 0, 0}, 1, 2, 2), tt([]float32{}, 1, 0, 1), tt([]int64{2}))
	failOp(t, "DFT", 20, one, "wants a real signal", spectrum)
	failOp(t, "DFT", 20, nil, "dft_length is -1", x, tt([]int64{-1}))
	failOp(t, "DFT", 20, nil, "memory limit", x, tt([]int64{1 << 40}))
	failOp(t, "DFT", 17, map[string]any{"axis": 2}, "axis 2 is the last dimension", x)
	failOp(t, "DFT", 17, map[string]any{"axis": math.MinInt64}, "out of range", x)
	failOp(t, "STFT", 17, nil, "frame_step is 0", x, tt([]int64{0}))
	failOp(t, "STFT", 17, nil, "length of the frames is -4", x, tt([]int64{1}), nil, tt([]int64{-4}))
	wantOp(t, "STFT", 17, nil, tt([]float32{}, 1, 0, 4, 2), x, tt([]int64{1}), nil, tt([]int64{6}))
}

func TestWindowsAndMelEdges(t *testing.T) {
	wantOp(t, "HannWindow", 17, nil, tt([]float32{}, 0), tt([]int64{0}))
	wantOp(t, "HannWindow", 17, map[string]any{"periodic": 0}, tt([]float32{1}, 1), tt([]int64{1}))
	wantOp(t, "HannWindow", 17, map[string]any{"output_datatype": tensor.TypeFloat64}, tt([]float64{0, 0.5, 1, 0.5}), tt([]int32{4}))
	wantOp(t, "HannWindow", 17, map[string]any{"output_datatype": tensor.TypeInt8}, tt([]int8{0, 0, 1, 0}), tt([]int32{4}))
	failOp(t, "HannWindow", 17, nil, "size is -1", tt([]int64{-1}))
	failOp(t, "HannWindow", 17, map[string]any{"output_datatype": 8}, "output is string", tt([]int64{2}))
	mel := func(upper float32) []tensor.Value {
		return []tensor.Value{tt([]int64{4}), tt([]int64{16}), tt([]int64{8192}), tt([]float32{0}), tt([]float32{upper})}
	}
	failOp(t, "MelWeightMatrix", 17, nil, "leave the 9 bins", mel(99999)...)
	failOp(t, "MelWeightMatrix", 17, nil, "leave the 9 bins", mel(float32(math.NaN()))...)
}

func TestNonMaxSuppressionEdges(t *testing.T) {
	boxes, scores := tt([]float32{0, 0, 1, 1, 1, 1, 0, 0, 5, 5, 6, 6}, 1, 3, 4), tt([]float32{0.5, 0.5, float32(math.NaN())}, 1, 1, 3)
	max2 := tt([]int64{2})
	wantOp(t, "NonMaxSuppression", 11, nil, tt([]int64{}, 0, 3), boxes, scores)
	wantOp(t, "NonMaxSuppression", 11, nil, tt([]int64{0, 0, 0}, 1, 3), boxes, scores, max2, tt([]float32{0.5}))
	wantOp(t, "NonMaxSuppression", 10, nil, tt([]int64{0, 0, 0, 0, 0, 1}, 2, 3), boxes, scores, max2, tt([]float32{1}))
	wantOp(t, "NonMaxSuppression", 11, nil, tt([]int64{}, 0, 3), boxes, scores, max2, nil, tt([]float32{0.5}))
	failOp(t, "NonMaxSuppression", 11, nil, "iou_threshold is 2", boxes, scores, max2, tt([]float32{2}))
	failOp(t, "NonMaxSuppression", 11, map[string]any{"center_point_box": 2}, "center_point_box is 2", boxes, scores)
	failOp(t, "NonMaxSuppression", 11, nil, "have shapes", boxes, tt([]float32{1}, 1, 1, 1), max2)
}

func TestLossEdges(t *testing.T) {
	x, ok := tt([]float32{-1, -2}, 1, 2), tt([]int64{1}, 1)
	for _, opset := range []int{12, 13, 22} {
		wantOp(t, "NegativeLogLikelihoodLoss", opset, nil, tt([]float32{2}), x, ok)
	}
	wantOp(t, "SoftmaxCrossEntropyLoss", 12, map[string]any{"reduction": "sum"}, tt([]float32{1.3132616}), x, ok)
	all := map[string]any{"ignore_index": 7}
	wantOp(t, "NegativeLogLikelihoodLoss", 13, all, tt([]float32{float32(math.NaN())}), x, tt([]int64{7}, 1))
	failOp(t, "NegativeLogLikelihoodLoss", 13, nil, "target[0] is 2, want 0 to 1", x, tt([]int64{2}, 1))
	failOp(t, "SoftmaxCrossEntropyLoss", 13, nil, "target[0] is -1", x, tt([]int32{-1}, 1))
	failOp(t, "SoftmaxCrossEntropyLoss", 13, nil, "weight has shape [3]", x, ok, tt([]float32{1, 2, 3}))
	wantOp(t, "SoftmaxCrossEntropyLoss", 13, map[string]any{"reduction": "none"}, tt([]float32{}, 0, 2), tt([]float32{}, 0, 3, 2), tt([]int64{}, 0, 2))
}
