package ops

import (
	"fmt"
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// TestSuppressionOrder checks the order of boxes that do not overlap: by score, then by index. The
// zeros are equal.
func TestSuppressionOrder(t *testing.T) {
	scores := []float32{0, -1, 3, float32(math.Copysign(0, -1)), float32(math.Inf(1)), 3, float32(math.NaN()), -2,
		float32(math.Inf(-1)), 1e-45}
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
			optest.Tensor(boxes, 1, len(scores), 4), optest.Tensor(scores, 1, 1, len(scores)),
			optest.Tensor([]int64{int64(limit)}))
	}
}

// TestUniqueSortsByKeys checks the order of numbers that differ in several bytes of their sort
// keys.
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
	optest.Want(t, "MaxUnpool", 11, attrs, optest.Tensor(want, 1, 1, 3, 5), optest.Tensor([]float32{8, 9}, 1, 1, 1, 2),
		index, shape)
	optest.Want(t, "MaxUnpool", 11, attrs, optest.Tensor([]float64{0, 0, 0, 0, 0, 8, 0, 9}, 1, 1, 2, 4),
		optest.Tensor([]float64{8, 9}, 1, 1, 1, 2), index)
	optest.Fail(t, "MaxUnpool", 11, attrs, "index 8 is out of range [0, 8)", optest.Tensor([]float32{8, 9}, 1, 1, 1, 2),
		optest.Tensor([]int64{5, 8}, 1, 1, 1, 2))
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
		if _, err := optest.Run(t, "Col2Im", 18, c.attrs, optest.Tensor(x, 2, 12, c.blocks),
			optest.Tensor([]int64{5, 8}), optest.Tensor([]int64{2, 3})); err != nil {
			t.Errorf("%v: %v", c.attrs, err)
		}
	}
}

// TestSignsAndInfinities checks the branchless loops at zeros, infinities and NaN.
func TestSignsAndInfinities(t *testing.T) {
	inf, nan, zero := math.Inf(1), math.NaN(), math.Copysign(0, -1)
	x := []float64{0, zero, 3, -3, inf, -inf, nan, 5e-324, -5e-324}
	optest.Want(t, "Sign", 13, nil, optest.Tensor([]float64{0, zero, 1, -1, 1, -1, nan, 1, -1}), optest.Tensor(x))
	optest.Want(t, "Sign", 13, nil, optest.Tensor([]int16{1, -1, 0, 1, -1}),
		optest.Tensor([]int16{math.MaxInt16, math.MinInt16, 0, 1, -1}))
	long := make([]float32, 1100) // more than one block
	for i := range long {
		long[i] = float32(x[i*i%len(x)])
	}
	for _, attrs := range []map[string]any{{}, {"detect_negative": 0}, {"detect_positive": 0},
		{"detect_negative": 0, "detect_positive": 0}} {
		want := make([]bool, len(long))
		for i, v := range long {
			want[i] = attrs["detect_positive"] == nil && v > math.MaxFloat32 || attrs["detect_negative"] == nil &&
				v < -math.MaxFloat32
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
	if _, err := optest.RunN(t, 1, "BatchNormalization", 15, nil, optest.Tensor(x, n, ch), param, param,
		param, param); err != nil {
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

// TestShortsOfQuantization compares 16-bit quantization at ties, limits, NaN and infinities.
func TestShortsOfQuantization(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	x := []float32{0, 0.25, 0.75, -0.25, 1e9, -1e9, inf, -inf, nan, 16383.25, -16384.25, 100}
	long := make([]float32, 0, 600)
	for len(long) < 600 {
		long = append(long, x...)
	}
	scale := optest.Tensor([]float32{0.5})
	for _, zero := range []*tensor.Tensor{optest.Tensor([]int16{-3}), optest.Tensor([]uint16{40000})} {
		got, err := optest.Run(t, "QuantizeLinear", 21, nil, optest.Tensor(long), scale, zero)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := optest.Run(t, "DequantizeLinear", 21, nil, got[0], scale, zero); err != nil {
			t.Error(err)
		}
	}
	optest.Want(t, "QuantizeLinear", 21, nil, optest.Tensor([]uint16{0, 65535, 0, 65535, 2}),
		optest.Tensor([]float32{nan, inf, -inf, 1e9, 0.75}), scale, optest.Tensor([]uint16{0}))
	// The quotients are 2.5006 and 2.5049; as numbers of half precision they are 2.5, which rounds
	// to 2.
	for _, tc := range []struct {
		d        tensor.DType
		x, scale float64
	}{{tensor.TypeFloat16, 1, 0.39990234375}, {tensor.TypeBFloat16, 1.0078125, 0.40234375}} {
		for _, want := range []tensor.Value{optest.Tensor([]uint8{7, 7}), optest.Tensor([]int16{7, 7})} {
			zero := tensor.Value(optest.Tensor([]uint8{5}))
			if want.(*tensor.Tensor).DType() == tensor.TypeInt16 {
				zero = optest.Tensor([]int16{5})
			}
			optest.Want(t, "QuantizeLinear", 21, nil, want, halfTest(tc.d, []float64{tc.x, tc.x}),
				halfTest(tc.d, []float64{tc.scale}), zero)
		}
	}
	optest.Want(t, "QuantizeLinear", 21, nil, optest.Tensor([]int16{-32768, 32767, -32768, 0}),
		optest.Tensor([]float32{nan, inf, -inf, 0.25}), scale, optest.Tensor([]int16{0}))
}

// TestDivisionOfInt32 divides the numbers at which a rounded quotient would show.
func TestDivisionOfInt32(t *testing.T) {
	special := []int32{math.MinInt32, math.MinInt32 + 1, -65537, -46341, -2, -1, 1, 2, 3, 46340, 65535, 65536, 1 << 30,
		math.MaxInt32 - 1, math.MaxInt32}
	var a, b, want []int32
	for _, x := range special {
		for _, y := range special {
			a, b, want = append(a, x), append(b, y), append(want, x/y)
		}
	}
	optest.Want(t, "Div", 14, nil, optest.Tensor(want), optest.Tensor(a), optest.Tensor(b))
	optest.Want(t, "Div", 14, nil, optest.Tensor([]int32{math.MinInt32, -7}), optest.Tensor([]int32{math.MinInt32, 7}),
		optest.Tensor([]int32{-1}))
}

// TestNonZeroOfSparseRows checks coordinates with rows without elements and with one column.
func TestNonZeroOfSparseRows(t *testing.T) {
	x := make([]float32, 2*3*4)
	x[1], x[2], x[11], x[23] = 1, 2, 3, 4
	optest.Want(t, "NonZero", 13, nil, optest.Tensor([]int64{0, 0, 0, 1, 0, 0, 2, 2, 1, 2, 3, 3}, 3, 4),
		optest.Tensor(x, 2, 3, 4))
	optest.Want(t, "NonZero", 13, nil, optest.Tensor([]int64{0, 2, 4, 0, 0, 0}, 2, 3),
		optest.Tensor([]bool{true, false, true, false, true}, 5, 1))
}

// TestLpNormalizationOfColumns normalizes lines that are not dense, one of zeros.
func TestLpNormalizationOfColumns(t *testing.T) {
	x, wide := make([]float32, 2*3*150), make([]float64, 2*3*150)
	for i := range x {
		if i%150 != 7 {
			x[i] = float32(i%17) - 8
		}
		wide[i] = float64(x[i])
	}
	for _, p := range []int{1, 2} {
		for _, v := range []*tensor.Tensor{optest.Tensor(x, 2, 3, 150), optest.Tensor(wide, 2, 3, 150)} {
			if _, err := optest.Run(t, "LpNormalization", 22, map[string]any{"axis": 1, "p": p}, v); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestResizeOrderOfAxes shrinks and enlarges axes in every combination.
func TestResizeOrderOfAxes(t *testing.T) {
	x := make([]float32, 20*30)
	for i := range x {
		x[i] = float32(i*i%97) / 8
	}
	for _, sizes := range [][]int64{{1, 1, 7, 11}, {1, 1, 19, 3}, {1, 1, 40, 10}, {1, 1, 5, 60}, {1, 1, 41, 61}} {
		if _, err := optest.Run(t, "Resize", 19, map[string]any{"mode": "linear"}, optest.Tensor(x, 1, 1, 20, 30),
			(*tensor.Tensor)(nil), (*tensor.Tensor)(nil), optest.Tensor(sizes)); err != nil {
			t.Error(err)
		}
	}
}

// TestThresholdAtNaN checks the elements that do not compare greater.
func TestThresholdAtNaN(t *testing.T) {
	nan := float32(math.NaN())
	optest.Want(t, "ThresholdedRelu", 22, map[string]any{"alpha": 1.5},
		optest.Tensor([]float32{0, 0, 0, 2, float32(math.Inf(1)), 0}),
		optest.Tensor([]float32{nan, 1.5, -3, 2, float32(math.Inf(1)), float32(math.Inf(-1))}))
}

// TestRegionsAgree aligns regions with several samples per part, some outside of the input, next to
// infinite elements, in few and in many channels.
func TestRegionsAgree(t *testing.T) {
	rois := optest.Tensor([]float32{1, 1, 7, 6, -5, -5, 3, 4, 2.5, 3, 30, 40, 4, 4, 4, 4}, 4, 4)
	images := optest.Tensor([]int64{0, 1, 1, 0})
	for _, channels := range []int{3, roiRowsFrom + 1} {
		x := make([]float32, 2*channels*7*9)
		for i := range x {
			x[i] = float32(i*i%23) - 11
		}
		x[0] = float32(math.Inf(1))
		for _, attrs := range []map[string]any{{}, {"sampling_ratio": 2}, {"sampling_ratio": 5}, {"mode": "max"},
			{"coordinate_transformation_mode": "output_half_pixel", "spatial_scale": 0.5}} {
			for _, width := range []int{2, 5} {
				attrs["output_height"], attrs["output_width"] = 3, width
				if _, err := optest.Run(t, "RoiAlign", 16, attrs, optest.Tensor(x, 2, channels, 7, 9), rois,
					images); err != nil {
					t.Errorf("%d channels, %v: %v", channels, attrs, err)
				}
			}
		}
	}
}

// TestGridsAgree samples planes inside, at the borders and outside, in all modes.
func TestGridsAgree(t *testing.T) {
	x := make([]float32, 2*3*5*6)
	for i := range x {
		x[i] = float32(i*i%29) - 14
	}
	grid := []float32{}
	for _, v := range []float32{-3, -1.2, -1, -0.83, -0.5, 0, 0.3, 0.8, 1, 1.1, 2.7, float32(math.NaN())} {
		for _, u := range []float32{-1.5, -1, -0.7, 0, 0.1, 0.99, 1, 4} {
			grid = append(grid, u, v)
		}
	}
	grid = append(grid, grid...)
	for _, mode := range []string{"linear", "nearest", "cubic"} {
		for _, padding := range []string{"zeros", "border", "reflection"} {
			for align := range 2 {
				attrs := map[string]any{"mode": mode, "padding_mode": padding, "align_corners": align}
				if _, err := optest.Run(t, "GridSample", 20, attrs, optest.Tensor(x, 2, 3, 5, 6),
					optest.Tensor(grid, 2, 12, 8, 2)); err != nil {
					t.Errorf("%v: %v", attrs, err)
				}
			}
		}
	}
}

// TestGatherElementsOfRows gathers along every axis with negative indices, and refuses others.
func TestGatherElementsOfRows(t *testing.T) {
	x, index := make([]float32, 3*5*40), make([]int64, 3*5*33)
	for i := range x {
		x[i] = float32(i)
	}
	for axis, n := range []int{3, 5, 40} {
		for i := range index {
			index[i] = int64(i*7%(2*n) - n)
		}
		for _, shape := range [][]int{{3, 5, 33}, {3, 3, 33}} {
			in := optest.Tensor(index[:shape[0]*shape[1]*33], shape...)
			if _, err := optest.Run(t, "GatherElements", 13, map[string]any{"axis": axis}, optest.Tensor(x, 3, 5, 40),
				in); err != nil {
				t.Error(err)
			}
		}
	}
	index[44] = 40
	optest.Fail(t, "GatherElements", 13, map[string]any{"axis": 2}, "element 44 is 40, want -40 to 39",
		optest.Tensor(x, 3, 5, 40), optest.Tensor(index, 3, 5, 33))
	for i := range 17 { // indices are checked in groups
		few := make([]int64, 17)
		few[i] = -41
		optest.Fail(t, "GatherElements", 13, map[string]any{"axis": 2},
			fmt.Sprintf("element %d is -41, want -40 to 39", i), optest.Tensor(x, 3, 5, 40),
			optest.Tensor(few, 1, 1, 17))
	}
	optest.Fail(t, "GatherElements", 13, map[string]any{"axis": 2}, "exceed data", optest.Tensor(x, 3, 5, 40),
		optest.Tensor(index, 5, 3, 33))
}

// TestMeanVarianceOfConstants normalizes constant and large numbers, whose means are not exact in
// float32.
func TestMeanVarianceOfConstants(t *testing.T) {
	x := make([]float32, 2*3*37)
	for i := range x {
		switch i / 37 % 3 {
		case 0:
			x[i] = 1234.567
		case 1:
			x[i] = 1e6 + float32(i%5)
		default:
			x[i] = float32(i%7) * 1e37
		}
	}
	for _, axes := range [][]int{{2}, {0, 2}} {
		if _, err := optest.Run(t, "MeanVarianceNormalization", 13, map[string]any{"axes": axes},
			optest.Tensor(x, 2, 3, 37)); err != nil {
			t.Error(err)
		}
	}
}

// TestGemmWithScaledRow adds rows, columns and scalars with a factor.
func TestGemmWithScaledRow(t *testing.T) {
	const m, n, k = 7, 33, 5
	a, b, c := make([]float32, m*k), make([]float32, k*n), make([]float32, m*n)
	for _, v := range [][]float32{a, b, c} {
		for i := range v {
			v[i] = float32(i*37%19) - 9
		}
	}
	for _, add := range []*tensor.Tensor{optest.Tensor(c[:n], n), optest.Tensor(c[:m], m, 1), optest.Tensor(c[:1], 1),
		optest.Tensor(c, m, n), (*tensor.Tensor)(nil)} {
		if _, err := optest.Run(t, "Gemm", 13, map[string]any{"alpha": 0.5, "beta": -2.5}, optest.Tensor(a, m, k),
			optest.Tensor(b, k, n), add); err != nil {
			t.Error(err)
		}
	}
}
