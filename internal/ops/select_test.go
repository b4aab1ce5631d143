package ops

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/tensor"
)

func TestScatters(t *testing.T) {
	x := moveIota(3, 3)
	idx, up := tt([]int64{1, 0, 2}, 1, 3), tt([]float32{10, 11, 12}, 1, 3)
	want := tt([]float32{0, 11, 2, 10, 4, 5, 6, 7, 12}, 3, 3)
	wantOp(t, "Scatter", 9, nil, want, x, idx, up)
	wantOp(t, "ScatterElements", 13, attrs{"axis": -2}, want, x, idx, up)
	failOp(t, "Scatter", 11, nil, "ScatterElements replaces it", x, idx, up)
	dup := tt([]int32{1, 1, 1})
	for red, want := range map[string]float32{"none": 4, "add": 11, "mul": 2 * 3 * 4 * 2, "max": 4, "min": 2} {
		wantOp(t, "ScatterElements", 18, attrs{"reduction": red}, tt([]float32{1, want}), tt([]float32{1, 2}), dup, tt([]float32{2, 3, 4}))
		wantOp(t, "ScatterElements", 18, attrs{"reduction": red}, tt([]int8{1, int8(want)}), tt([]int8{1, 2}), dup, tt([]int8{2, 3, 4}))
		h := func(v ...float32) *tensor.Tensor {
			s := make([]tensor.BFloat16, len(v))
			for i, f := range v {
				s[i] = tensor.NewBFloat16(f)
			}
			return tt(s)
		}
		wantOp(t, "ScatterElements", 18, attrs{"reduction": red}, h(1, want), h(1, 2), dup, h(2, 3, 4))
	}
	wantOp(t, "ScatterElements", 16, attrs{"reduction": "add"}, tt([]bool{true, true}), tt([]bool{true, false}), dup, tt([]bool{true, false, false}))
	wantOp(t, "ScatterElements", 16, attrs{"reduction": "mul"}, tt([]complex64{2i, 1}), tt([]complex64{2, 1}), tt([]int64{0}, 1), tt([]complex64{1i}, 1))
	wantOp(t, "ScatterElements", 13, nil, tt([]string{"a", "z"}), tt([]string{"a", "b"}), tt([]int64{-1}, 1), tt([]string{"z"}, 1))
	nan := float32(math.NaN())
	wantOp(t, "ScatterND", 18, attrs{"reduction": "max"}, tt([]float32{nan, 5}), tt([]float32{1, 2}), tt([]int64{0, 1}, 2, 1), tt([]float32{nan, 5}))
	failOp(t, "ScatterElements", 16, attrs{"reduction": "max"}, "want one of", x, idx, up)
	failOp(t, "ScatterElements", 13, attrs{"reduction": "add"}, "unknown attribute", x, idx, up)
	failOp(t, "ScatterElements", 18, attrs{"reduction": "add"}, "not defined", tt([]string{"a"}, 1), tt([]int64{0}, 1), tt([]string{"b"}, 1))
	failOp(t, "ScatterElements", 18, nil, "outside", x, tt([]int64{3, 0, 0}, 1, 3), up)
	failOp(t, "ScatterElements", 18, nil, "updates", x, idx, moveIota(3, 1))
	wantOp(t, "ScatterND", 11, nil, tt([]float32{0, 1, 9, 9, 4, 5}, 3, 2), moveIota(3, 2), tt([]int64{1}, 1, 1), tt([]float32{9, 9}, 1, 2))
	wantOp(t, "ScatterND", 16, attrs{"reduction": "mul"}, tt([]float32{0, 1, 6, 9, 4, 5}, 3, 2), moveIota(3, 2), tt([]int64{-2}, 1, 1), tt([]float32{3, 3}, 1, 2))
	failOp(t, "ScatterND", 18, nil, "outside", x, tt([]int64{0, 5}, 1, 2), tt([]float32{1}, 1))
	failOp(t, "ScatterND", 18, nil, "coordinates", x, tt([]int64{0, 1, 2}, 1, 3), tt([]float32{1}, 1))
	failOp(t, "ScatterND", 18, nil, "want [1]", x, tt([]int64{0, 1}, 1, 2), moveIota(2))
}

func TestSelections(t *testing.T) {
	z := float32(math.Copysign(0, -1))
	wantOp(t, "NonZero", 9, nil, tt([]int64{0, 1, 1, 0}, 2, 2), tt([]float32{z, 2, float32(math.NaN()), 0}, 2, 2))
	wantOp(t, "NonZero", 13, nil, tt([]int64{}, 0, 1), f32(3))
	wantOp(t, "NonZero", 13, nil, tt([]int64{1}, 1, 1), tt([]string{"", "a"}))
	wantOp(t, "NonZero", 13, nil, tt([]int64{0}, 1, 1), tt([]complex128{1i, 0}))
	wantOp(t, "NonZero", 13, nil, tt([]int64{}, 2, 0), moveIota(0, 3))
	wantOp(t, "OneHot", 9, nil, tt([]int32{0, 5, 0, 0, 0, 5, 0, 0, 0}, 3, 3), tt([]float32{1, -1, 7}), tensor.Scalar[int64](3), tt([]int32{0, 5}))
	wantOp(t, "OneHot", 11, attrs{"axis": 0}, tt([]string{"y", "n", "n", "n", "n", "y"}, 3, 2), tt([]uint8{0, 2}), tt([]float32{3}, 1), tt([]string{"n", "y"}))
	wantOp(t, "OneHot", 11, nil, moveIota(2, 0), i64s(0, 1), tensor.Scalar[int32](0), tt([]float32{0, 1}))
	failOp(t, "OneHot", 11, nil, "depth is -1", i64s(0), tensor.Scalar[int64](-1), tt([]float32{0, 1}))
	failOp(t, "OneHot", 11, nil, "memory limit", i64s(0), tensor.Scalar[int64](1<<50), tt([]float32{0, 1}))
	failOp(t, "OneHot", 11, attrs{"axis": 3}, "out of range", i64s(0), tensor.Scalar[int64](2), tt([]float32{0, 1}))
	failOp(t, "OneHot", 11, nil, "values", i64s(0), tensor.Scalar[int64](2), tt([]float32{0, 1, 2}))
	x := moveIota(3, 2)
	wantOp(t, "Compress", 9, attrs{"axis": 0}, tt([]float32{2, 3}, 1, 2), x, tt([]bool{false, true}))
	wantOp(t, "Compress", 11, attrs{"axis": -1}, tt([]float32{1, 3, 5}, 3, 1), x, tt([]bool{false, true}))
	wantOp(t, "Compress", 11, nil, tt([]float32{0, 2, 5}), x, tt([]bool{true, false, true, false, false, true, true}))
	failOp(t, "Compress", 11, attrs{"axis": 2}, "axis 2", x, tt([]bool{true, false}))
}

func TestUnique(t *testing.T) {
	nan := math.NaN()
	wantOps(t, "Unique", 11, nil, []tensor.Value{tt([]float64{-1, 0, 2, nan}), i64s(3, 1, 0, 4), i64s(2, 1, 1, 0, 3, 3), i64s(1, 2, 1, 2)},
		tt([]float64{2, 0, math.Copysign(0, -1), -1, nan, nan}))
	wantOps(t, "Unique", 11, attrs{"sorted": 0}, []tensor.Value{tt([]string{"b", "a"}), i64s(0, 1), i64s(0, 1, 0), i64s(2, 1)}, tt([]string{"b", "a", "b"}))
	wantOps(t, "Unique", 11, attrs{"axis": 1}, []tensor.Value{tt([]int8{-1, 3, 0, 2}, 2, 2), i64s(1, 0), i64s(1, 0, 1), i64s(1, 2)}, tt([]int8{3, -1, 3, 2, 0, 2}, 2, 3))
	wantOps(t, "Unique", 11, nil, []tensor.Value{tt([]complex64{1, 1 + 1i}), i64s(1, 0)}, tt([]complex64{1 + 1i, 1}))
	wantOps(t, "Unique", 11, nil, []tensor.Value{moveIota(0), i64s(), i64s(), i64s()}, moveIota(0))
	wantOps(t, "Unique", 11, attrs{"axis": 0}, []tensor.Value{moveIota(1, 0), i64s(0), i64s(0, 0), i64s(2)}, moveIota(2, 0))
	failOp(t, "Unique", 11, attrs{"axis": 1}, "out of range", moveIota(2))
}

func TestRearrangements(t *testing.T) {
	wantOp(t, "ReverseSequence", 10, nil, tt([]float32{2, 1, 0, 3}, 2, 2), moveIota(2, 2), i64s(2, 1))
	wantOp(t, "ReverseSequence", 10, attrs{"batch_axis": 0, "time_axis": 1}, tt([]float32{1, 0, 2, 3}, 2, 2), moveIota(2, 2), i64s(2, 0))
	failOp(t, "ReverseSequence", 10, attrs{"batch_axis": 0}, "want 0 and 1", moveIota(2, 2), i64s(2, 1))
	failOp(t, "ReverseSequence", 10, nil, "position 1", moveIota(2, 2), i64s(2, 3))
	failOp(t, "ReverseSequence", 10, nil, "2 elements", moveIota(2, 3), i64s(2, 1))
	wantOp(t, "DepthToSpace", 1, attrs{"blocksize": 2}, tt([]float32{0, 1, 2, 3}, 1, 1, 2, 2), moveIota(1, 4, 1, 1))
	wantOp(t, "DepthToSpace", 13, attrs{"blocksize": 2}, tt([]float32{0, 2, 4, 6, 1, 3, 5, 7}, 1, 2, 2, 2), moveIota(1, 8, 1, 1))
	wantOp(t, "DepthToSpace", 11, attrs{"blocksize": 2, "mode": "CRD"}, moveIota(1, 2, 2, 2), moveIota(1, 8, 1, 1))
	wantOp(t, "SpaceToDepth", 1, attrs{"blocksize": 2}, moveIota(1, 4, 1, 1), moveIota(1, 1, 2, 2))
	wantOp(t, "SpaceToDepth", 13, attrs{"blocksize": 3}, moveIota(0, 9, 1, 2), moveIota(0, 1, 3, 6))
	for _, b := range []int{0, -1, 1 << 62} {
		failOp(t, "DepthToSpace", 13, attrs{"blocksize": b}, "blocksize", moveIota(1, 4, 1, 1))
		failOp(t, "SpaceToDepth", 13, attrs{"blocksize": b}, "blocksize", moveIota(1, 4, 1, 1))
	}
	failOp(t, "DepthToSpace", 13, attrs{"blocksize": 3}, "multiple", moveIota(1, 4, 1, 1))
	failOp(t, "SpaceToDepth", 13, attrs{"blocksize": 3}, "multiple", moveIota(1, 4, 1, 1))
	failOp(t, "SpaceToDepth", 13, attrs{"blocksize": 1}, "rank", moveIota(4))
	wantOp(t, "Trilu", 14, nil, tt([]float32{0, 1, 0, 3}, 2, 2), moveIota(2, 2))
	wantOp(t, "Trilu", 14, attrs{"upper": 0}, tt([]string{"", "", "c", ""}, 2, 2), tt([]string{"a", "b", "c", "d"}, 2, 2), tensor.Scalar[int64](-1))
	wantOp(t, "Trilu", 14, nil, moveIota(2, 2), moveIota(2, 2), tensor.Scalar[int64](-1<<63))
	wantOp(t, "Trilu", 14, attrs{"upper": 0}, moveIota(2, 3), moveIota(2, 3), tensor.Scalar[int64](1<<63-1))
	failOp(t, "Trilu", 14, nil, "rank 1", moveIota(2))
	wantOp(t, "CenterCropPad", 18, nil, tt([]float32{0, 1, 0, 0}), tt([]float32{1}, 1), i64s(4))
	wantOp(t, "CenterCropPad", 18, attrs{"axes": []int{-1}}, tt([]float32{1, 5}, 2, 1), moveIota(2, 4), tt([]int32{1}, 1))
	failOp(t, "CenterCropPad", 18, nil, "rank 2", moveIota(2, 4), i64s(1))
	failOp(t, "CenterCropPad", 18, nil, "is -1", moveIota(2), i64s(-1))
	failOp(t, "CenterCropPad", 18, nil, "memory limit", moveIota(2), i64s(1<<40))
	wantOp(t, "TensorScatter", 24, attrs{"mode": "circular"}, tt([]float32{8, 1, 7, 9, 6, 5}, 2, 3, 1), moveIota(2, 3, 1), tt([]float32{7, 8, 9, 6}, 2, 2, 1), i64s(2, 0))
	failOp(t, "TensorScatter", 24, nil, "do not fit", moveIota(2, 3, 1), moveIota(2, 2, 1), i64s(2, 0))
	failOp(t, "TensorScatter", 24, nil, "position 0", moveIota(1, 3, 1), moveIota(1, 2, 1), i64s(-1))
	failOp(t, "TensorScatter", 24, attrs{"axis": 0}, "batch", moveIota(2, 3), moveIota(2, 2))
	cols := moveIota(1, 4, 4)
	wantOp(t, "Col2Im", 18, nil, tt([]float32{0, 5, 5, 10, 30, 20, 10, 25, 15}, 1, 1, 3, 3), cols, i64s(3, 3), i64s(2, 2))
	failOp(t, "Col2Im", 18, attrs{"strides": []int{0, 1}}, "strides", cols, i64s(3, 3), i64s(2, 2))
	failOp(t, "Col2Im", 18, nil, "blocks", cols, i64s(4, 3), i64s(2, 2))
	failOp(t, "Col2Im", 18, nil, "does not fit", cols, i64s(1, 1), i64s(2, 2))
	failOp(t, "Col2Im", 18, nil, "out of range", cols, i64s(3, 3), i64s(0, 2))
}
