package ops

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

func TestScatters(t *testing.T) {
	x := moveIota(3, 3)
	idx, up := optest.Tensor([]int64{1, 0, 2}, 1, 3), optest.Tensor([]float32{10, 11, 12}, 1, 3)
	want := optest.Tensor([]float32{0, 11, 2, 10, 4, 5, 6, 7, 12}, 3, 3)
	optest.Want(t, "Scatter", 9, nil, want, x, idx, up)
	optest.Want(t, "ScatterElements", 13, optest.Attrs{"axis": -2}, want, x, idx, up)
	optest.Fail(t, "Scatter", 11, nil, "use ScatterElements instead", x, idx, up)
	dup := optest.Tensor([]int32{1, 1, 1})
	for red, want := range map[string]float32{"none": 4, "add": 11, "mul": 2 * 3 * 4 * 2, "max": 4, "min": 2} {
		optest.Want(t, "ScatterElements", 18, optest.Attrs{"reduction": red}, optest.Tensor([]float32{1, want}),
			optest.Tensor([]float32{1, 2}), dup, optest.Tensor([]float32{2, 3, 4}))
		optest.Want(t, "ScatterElements", 18, optest.Attrs{"reduction": red}, optest.Tensor([]int8{1, int8(want)}),
			optest.Tensor([]int8{1, 2}), dup, optest.Tensor([]int8{2, 3, 4}))
		h := func(v ...float32) *tensor.Tensor {
			s := make([]tensor.BFloat16, len(v))
			for i, f := range v {
				s[i] = tensor.NewBFloat16(f)
			}
			return optest.Tensor(s)
		}
		optest.Want(t, "ScatterElements", 18, optest.Attrs{"reduction": red}, h(1, want), h(1, 2), dup, h(2, 3, 4))
	}
	optest.Want(t, "ScatterElements", 16, optest.Attrs{"reduction": "add"}, optest.Tensor([]bool{true, true}),
		optest.Tensor([]bool{true, false}), dup, optest.Tensor([]bool{true, false, false}))
	optest.Want(t, "ScatterElements", 18, optest.Attrs{"reduction": "add"}, optest.Tensor([]int8{2, -56}),
		optest.Tensor([]int8{2, 100}), dup, optest.Tensor([]int8{100, 127, -127}))
	optest.Want(t, "ScatterElements", 18, optest.Attrs{"reduction": "max"}, optest.Tensor([]uint32{5, 1 << 31}),
		optest.Tensor([]uint32{5, 7}), dup, optest.Tensor([]uint32{1 << 31, 1, 6}))
	optest.Want(t, "ScatterElements", 16, optest.Attrs{"reduction": "mul"}, optest.Tensor([]complex64{2i, 1}),
		optest.Tensor([]complex64{2, 1}), optest.Tensor([]int64{0}, 1), optest.Tensor([]complex64{1i}, 1))
	optest.Want(t, "ScatterElements", 13, nil, optest.Tensor([]string{"a", "z"}), optest.Tensor([]string{"a", "b"}),
		optest.Tensor([]int64{-1}, 1), optest.Tensor([]string{"z"}, 1))
	nan := float32(math.NaN())
	optest.Want(t, "ScatterND", 18, optest.Attrs{"reduction": "max"}, optest.Tensor([]float32{nan, 5}),
		optest.Tensor([]float32{1, 2}), optest.Tensor([]int64{0, 1}, 2, 1), optest.Tensor([]float32{nan, 5}))
	optest.Fail(t, "ScatterElements", 16, optest.Attrs{"reduction": "max"}, "want one of", x, idx, up)
	optest.Fail(t, "ScatterElements", 13, optest.Attrs{"reduction": "add"}, "unknown attribute", x, idx, up)
	optest.Fail(t, "ScatterElements", 18, optest.Attrs{"reduction": "add"}, "not supported",
		optest.Tensor([]string{"a"}, 1), optest.Tensor([]int64{0}, 1), optest.Tensor([]string{"b"}, 1))
	optest.Fail(t, "ScatterElements", 18, nil, "want -3 to 2", x, optest.Tensor([]int64{3, 0, 0}, 1, 3), up)
	optest.Fail(t, "ScatterElements", 18, nil, "updates", x, idx, moveIota(3, 1))
	optest.Want(t, "ScatterND", 11, nil, optest.Tensor([]float32{0, 1, 9, 9, 4, 5}, 3, 2), moveIota(3, 2),
		optest.Tensor([]int64{1}, 1, 1), optest.Tensor([]float32{9, 9}, 1, 2))
	optest.Want(t, "ScatterND", 16, optest.Attrs{"reduction": "mul"}, optest.Tensor([]float32{0, 1, 6, 9, 4, 5}, 3, 2),
		moveIota(3, 2), optest.Tensor([]int64{-2}, 1, 1), optest.Tensor([]float32{3, 3}, 1, 2))
	optest.Fail(t, "ScatterND", 18, nil, "outside", x, optest.Tensor([]int64{0, 5}, 1, 2),
		optest.Tensor([]float32{1}, 1))
	optest.Fail(t, "ScatterND", 18, nil, "coordinates", x, optest.Tensor([]int64{0, 1, 2}, 1, 3),
		optest.Tensor([]float32{1}, 1))
	optest.Fail(t, "ScatterND", 18, nil, "want [1]", x, optest.Tensor([]int64{0, 1}, 1, 2), moveIota(2))
}

func TestSelections(t *testing.T) {
	z := float32(math.Copysign(0, -1))
	optest.Want(t, "NonZero", 9, nil, optest.Tensor([]int64{0, 1, 1, 0}, 2, 2),
		optest.Tensor([]float32{z, 2, float32(math.NaN()), 0}, 2, 2))
	optest.Want(t, "NonZero", 13, nil, optest.Tensor([]int64{}, 0, 1), f32(3))
	optest.Want(t, "NonZero", 13, nil, optest.Tensor([]int64{1}, 1, 1), optest.Tensor([]string{"", "a"}))
	optest.Want(t, "NonZero", 13, nil, optest.Tensor([]int64{0}, 1, 1), optest.Tensor([]complex128{1i, 0}))
	optest.Want(t, "NonZero", 13, nil, optest.Tensor([]int64{}, 2, 0), moveIota(0, 3))
	optest.Want(t, "OneHot", 9, nil, optest.Tensor([]int32{0, 5, 0, 0, 0, 5, 0, 0, 0}, 3, 3),
		optest.Tensor([]float32{1, -1, 7}), tensor.Scalar[int64](3), optest.Tensor([]int32{0, 5}))
	optest.Want(t, "OneHot", 11, optest.Attrs{"axis": 0}, optest.Tensor([]string{"y", "n", "n", "n", "n", "y"}, 3, 2),
		optest.Tensor([]uint8{0, 2}), optest.Tensor([]float32{3}, 1), optest.Tensor([]string{"n", "y"}))
	optest.Want(t, "OneHot", 11, nil, moveIota(2, 0), optest.Int64s(0, 1), tensor.Scalar[int32](0),
		optest.Tensor([]float32{0, 1}))
	optest.Fail(t, "OneHot", 11, nil, "depth is -1", optest.Int64s(0), tensor.Scalar[int64](-1),
		optest.Tensor([]float32{0, 1}))
	optest.Fail(t, "OneHot", 11, nil, "memory limit", optest.Int64s(0), tensor.Scalar[int64](1<<50),
		optest.Tensor([]float32{0, 1}))
	optest.Fail(t, "OneHot", 11, optest.Attrs{"axis": 3}, "out of range", optest.Int64s(0), tensor.Scalar[int64](2),
		optest.Tensor([]float32{0, 1}))
	optest.Fail(t, "OneHot", 11, nil, "values", optest.Int64s(0), tensor.Scalar[int64](2),
		optest.Tensor([]float32{0, 1, 2}))
	x := moveIota(3, 2)
	optest.Want(t, "Compress", 9, optest.Attrs{"axis": 0}, optest.Tensor([]float32{2, 3}, 1, 2), x,
		optest.Tensor([]bool{false, true}))
	optest.Want(t, "Compress", 11, optest.Attrs{"axis": -1}, optest.Tensor([]float32{1, 3, 5}, 3, 1), x,
		optest.Tensor([]bool{false, true}))
	optest.Want(t, "Compress", 11, nil, optest.Tensor([]float32{0, 2, 5}), x,
		optest.Tensor([]bool{true, false, true, false, false, true, true}))
	optest.Fail(t, "Compress", 11, optest.Attrs{"axis": 2}, "axis 2", x, optest.Tensor([]bool{true, false}))
}

func TestUnique(t *testing.T) {
	nan := math.NaN()
	optest.WantAll(t, "Unique", 11, nil, []tensor.Value{optest.Tensor([]float64{-1, 0, 2, nan}),
		optest.Int64s(3, 1, 0, 4), optest.Int64s(2, 1, 1, 0, 3, 3), optest.Int64s(1, 2, 1, 2)},
		optest.Tensor([]float64{2, 0, math.Copysign(0, -1), -1, nan, nan}))
	optest.WantAll(t, "Unique", 11, optest.Attrs{"sorted": 0},
		[]tensor.Value{optest.Tensor([]string{"b", "a"}), optest.Int64s(0, 1), optest.Int64s(0, 1, 0),
			optest.Int64s(2, 1)}, optest.Tensor([]string{"b", "a", "b"}))
	optest.WantAll(t, "Unique", 11, optest.Attrs{"axis": 1},
		[]tensor.Value{optest.Tensor([]int8{-1, 3, 0, 2}, 2, 2), optest.Int64s(1, 0), optest.Int64s(1, 0, 1),
			optest.Int64s(1, 2)}, optest.Tensor([]int8{3, -1, 3, 2, 0, 2}, 2, 3))
	optest.WantAll(t, "Unique", 11, nil, []tensor.Value{optest.Tensor([]complex64{1, 1 + 1i}), optest.Int64s(1, 0)},
		optest.Tensor([]complex64{1 + 1i, 1}))
	optest.WantAll(t, "Unique", 11, nil, []tensor.Value{moveIota(0), optest.Int64s(), optest.Int64s(), optest.Int64s()},
		moveIota(0))
	optest.WantAll(t, "Unique", 11, optest.Attrs{"axis": 0},
		[]tensor.Value{moveIota(1, 0), optest.Int64s(0), optest.Int64s(0, 0), optest.Int64s(2)}, moveIota(2, 0))
	optest.Fail(t, "Unique", 11, optest.Attrs{"axis": 1}, "out of range", moveIota(2))
}

func TestRearrangements(t *testing.T) {
	optest.Want(t, "ReverseSequence", 10, nil, optest.Tensor([]float32{2, 1, 0, 3}, 2, 2), moveIota(2, 2),
		optest.Int64s(2, 1))
	optest.Want(t, "ReverseSequence", 10, optest.Attrs{"batch_axis": 0, "time_axis": 1},
		optest.Tensor([]float32{1, 0, 2, 3}, 2, 2), moveIota(2, 2), optest.Int64s(2, 0))
	optest.Fail(t, "ReverseSequence", 10, optest.Attrs{"batch_axis": 0}, "want 0 and 1", moveIota(2, 2),
		optest.Int64s(2, 1))
	optest.Fail(t, "ReverseSequence", 10, nil, "position 1", moveIota(2, 2), optest.Int64s(2, 3))
	optest.Fail(t, "ReverseSequence", 10, nil, "2 elements", moveIota(2, 3), optest.Int64s(2, 1))
	optest.Want(t, "DepthToSpace", 1, optest.Attrs{"blocksize": 2}, optest.Tensor([]float32{0, 1, 2, 3}, 1, 1, 2, 2),
		moveIota(1, 4, 1, 1))
	optest.Want(t, "DepthToSpace", 13, optest.Attrs{"blocksize": 2},
		optest.Tensor([]float32{0, 2, 4, 6, 1, 3, 5, 7}, 1, 2, 2, 2), moveIota(1, 8, 1, 1))
	optest.Want(t, "DepthToSpace", 11, optest.Attrs{"blocksize": 2, "mode": "CRD"}, moveIota(1, 2, 2, 2),
		moveIota(1, 8, 1, 1))
	optest.Want(t, "SpaceToDepth", 1, optest.Attrs{"blocksize": 2}, moveIota(1, 4, 1, 1), moveIota(1, 1, 2, 2))
	optest.Want(t, "SpaceToDepth", 13, optest.Attrs{"blocksize": 3}, moveIota(0, 9, 1, 2), moveIota(0, 1, 3, 6))
	for _, b := range []int{0, -1, 1 << 62} {
		optest.Fail(t, "DepthToSpace", 13, optest.Attrs{"blocksize": b}, "blocksize", moveIota(1, 4, 1, 1))
		optest.Fail(t, "SpaceToDepth", 13, optest.Attrs{"blocksize": b}, "blocksize", moveIota(1, 4, 1, 1))
	}
	optest.Fail(t, "DepthToSpace", 13, optest.Attrs{"blocksize": 3}, "multiple", moveIota(1, 4, 1, 1))
	optest.Fail(t, "SpaceToDepth", 13, optest.Attrs{"blocksize": 3}, "multiple", moveIota(1, 4, 1, 1))
	optest.Fail(t, "SpaceToDepth", 13, optest.Attrs{"blocksize": 1}, "rank", moveIota(4))
	optest.Want(t, "Trilu", 14, nil, optest.Tensor([]float32{0, 1, 0, 3}, 2, 2), moveIota(2, 2))
	optest.Want(t, "Trilu", 14, optest.Attrs{"upper": 0}, optest.Tensor([]string{"", "", "c", ""}, 2, 2),
		optest.Tensor([]string{"a", "b", "c", "d"}, 2, 2), tensor.Scalar[int64](-1))
	optest.Want(t, "Trilu", 14, nil, moveIota(2, 2), moveIota(2, 2), tensor.Scalar[int64](-1<<63))
	optest.Want(t, "Trilu", 14, optest.Attrs{"upper": 0}, moveIota(2, 3), moveIota(2, 3), tensor.Scalar[int64](1<<63-1))
	for _, shape := range [][]int{{9, 5, 3}, {4, 7, 8}, {2, 5, 40, 1}, {5, 3, 60}, {2, 30, 4}, {3, 9, 20}} {
		// many matrices are masked
		for _, k := range []int64{-12, -2, 0, 1, 99} {
			for _, upper := range []int{0, 1} {
				n := kit.Product(shape)
				wide, bools := make([]complex128, n), make([]bool, n)
				for i := range n {
					wide[i], bools[i] = complex(float64(i), -1), i%3 > 0
				}
				for _, x := range []*tensor.Tensor{moveIota(shape...), optest.Tensor(wide, shape...),
					optest.Tensor(bools, shape...)} {
					if _, err := optest.Run(t, "Trilu", 14, optest.Attrs{"upper": upper}, x,
						tensor.Scalar(k)); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
	optest.Fail(t, "Trilu", 14, nil, "rank 1", moveIota(2))
	optest.Want(t, "CenterCropPad", 18, nil, optest.Tensor([]float32{0, 1, 0, 0}), optest.Tensor([]float32{1}, 1),
		optest.Int64s(4))
	optest.Want(t, "CenterCropPad", 18, optest.Attrs{"axes": []int{-1}}, optest.Tensor([]float32{1, 5}, 2, 1),
		moveIota(2, 4), optest.Tensor([]int32{1}, 1))
	optest.Fail(t, "CenterCropPad", 18, nil, "rank 2", moveIota(2, 4), optest.Int64s(1))
	optest.Fail(t, "CenterCropPad", 18, nil, "is -1", moveIota(2), optest.Int64s(-1))
	optest.Fail(t, "CenterCropPad", 18, nil, "memory limit", moveIota(2), optest.Int64s(1<<40))
	optest.Want(t, "TensorScatter", 24, optest.Attrs{"mode": "circular"},
		optest.Tensor([]float32{8, 1, 7, 9, 6, 5}, 2, 3, 1), moveIota(2, 3, 1),
		optest.Tensor([]float32{7, 8, 9, 6}, 2, 2, 1), optest.Int64s(2, 0))
	optest.Fail(t, "TensorScatter", 24, nil, "exceed a cache", moveIota(2, 3, 1), moveIota(2, 2, 1),
		optest.Int64s(2, 0))
	optest.Fail(t, "TensorScatter", 24, nil, "position 0", moveIota(1, 3, 1), moveIota(1, 2, 1), optest.Int64s(-1))
	optest.Fail(t, "TensorScatter", 24, optest.Attrs{"axis": 0}, "batch", moveIota(2, 3), moveIota(2, 2))
	cols := moveIota(1, 4, 4)
	optest.Want(t, "Col2Im", 18, nil, optest.Tensor([]float32{0, 5, 5, 10, 30, 20, 10, 25, 15}, 1, 1, 3, 3), cols,
		optest.Int64s(3, 3), optest.Int64s(2, 2))
	flags := func(v ...bool) *tensor.Tensor { return optest.Tensor(v, 1, len(v)/3, 3) }
	optest.Want(t, "Col2Im", 18, nil,
		optest.Tensor([]bool{true, true, true, false, false, false, true, false}, 1, 1, 2, 4),
		flags(true, false, false, true, true, false, false, false, false, false, true, false), optest.Int64s(2, 4),
		optest.Int64s(2, 2))
	optest.Fail(t, "Col2Im", 18, optest.Attrs{"strides": []int{0, 1}}, "strides", cols, optest.Int64s(3, 3),
		optest.Int64s(2, 2))
	optest.Fail(t, "Col2Im", 18, nil, "blocks", cols, optest.Int64s(4, 3), optest.Int64s(2, 2))
	optest.Fail(t, "Col2Im", 18, nil, "exceeds dimension 0", cols, optest.Int64s(1, 1), optest.Int64s(2, 2))
	optest.Fail(t, "Col2Im", 18, nil, "want 0 and 1 to", cols, optest.Int64s(3, 3), optest.Int64s(0, 2))
}

// TestScatterElementsOfRows compares indices that are equal within each row with single elements.
func TestScatterElementsOfRows(t *testing.T) {
	const rows, updates = 4, 7
	reduced := map[string]func(a, b float32) float32{"none": func(a, b float32) float32 { return b },
		"add": func(a, b float32) float32 { return a + b }, "mul": func(a, b float32) float32 { return a * b },
		"max": func(a, b float32) float32 { return max(a, b) }, "min": func(a, b float32) float32 { return min(a, b) }}
	for _, block := range []int{2, 6, 34} {
		for red, reduce := range reduced {
			for _, other := range []int{-1, 0, block - 1} { // element of the last row with another index
				x, want, up := make([]float32, rows*block), make([]float32, rows*block), make([]float32, updates*block)
				wide, narrow := make([]int64, len(up)), make([]int32, len(up))
				for i := range x {
					x[i] = float32(i%5) - 1
				}
				copy(want, x)
				for i := range up {
					up[i] = float32(i%7) - 3
					at := i / block * 3 % rows
					if i == (updates-1)*block+other && other >= 0 {
						at = 1
					}
					want[at*block+i%block] = reduce(want[at*block+i%block], up[i])
					if i/block%2 > 0 {
						at -= rows
					}
					wide[i], narrow[i] = int64(at), int32(at)
				}
				y, u, attrs := optest.Tensor(want, rows, block/2, 2), optest.Tensor(up, updates, block/2, 2),
					optest.Attrs{"reduction": red}
				in := optest.Tensor(x, rows, block/2, 2)
				optest.Want(t, "ScatterElements", 18, attrs, y, in, optest.Tensor(wide, updates, block/2, 2), u)
				optest.Want(t, "ScatterElements", 18, attrs, y, in, optest.Tensor(narrow, updates, block/2, 2), u)
			}
		}
	}
	optest.Fail(t, "ScatterElements", 18, nil, "element 2 is 3, want -3 to 2", moveIota(3, 2),
		optest.Tensor([]int64{0, 0, 3, 3}, 2, 2), moveIota(2, 2))
	optest.Want(t, "ScatterElements", 18, nil, optest.Tensor([]float32{0, 1, 9, 3, 8, 5}, 3, 2), moveIota(3, 2),
		optest.Tensor([]int64{1, 2}, 2, 1), optest.Tensor([]float32{9, 8}, 2, 1))
	optest.Want(t, "ScatterElements", 18, nil, optest.Tensor([]string{"c", "d", "a", "b"}, 2, 2),
		optest.Tensor([]string{"x", "y", "z", "w"}, 2, 2), optest.Tensor([]int64{1, 1, 0, 0}, 2, 2),
		optest.Tensor([]string{"a", "b", "c", "d"}, 2, 2))
}
