package ops

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
	"pgregory.net/rapid"
)

func TestGridSample(t *testing.T) {
	x := iota32(1, 1, 2, 2)
	grid := optest.Tensor([]float32{-0.5, -0.5, 0, 0, 1, 1, 3, 3}, 1, 1, 4, 2)
	for opset, mode := range map[int]string{16: "bilinear", 20: "linear", 22: "linear"} {
		optest.Want(t, "GridSample", opset, map[string]any{"mode": mode},
			optest.Tensor([]float32{1, 2.5, 1, 0}, 1, 1, 1, 4), x, grid)
	}
	optest.Want(t, "GridSample", 16, map[string]any{"padding_mode": "border"},
		optest.Tensor([]float32{1, 2.5, 4, 4}, 1, 1, 1, 4), x, grid)
	optest.Want(t, "GridSample", 20, map[string]any{"padding_mode": "reflection", "align_corners": 1},
		optest.Tensor([]float32{1.75, 2.5, 4, 1}, 1, 1, 1, 4), x,
		optest.Tensor([]float32{-0.5, -0.5, 0, 0, 1, 1, 3, 3}, 1, 1, 4, 2))
	optest.Want(t, "GridSample", 22, map[string]any{"mode": "nearest"},
		optest.Tensor([]string{"a", "a", "", ""}, 1, 1, 1, 4), optest.Tensor([]string{"a", "b", "c", "d"}, 1, 1, 2, 2),
		optest.Tensor([]float32{-0.5, -0.5, 0, 0, 1.1, 1.1, 3, 3}, 1, 1, 4, 2))
	optest.Want(t, "GridSample", 22, nil, optest.Tensor([]int32{2, 3}, 1, 1, 2), optest.Tensor([]int32{1, 4}, 1, 1, 2),
		optest.Tensor([]float64{0, 0.25}, 1, 2, 1))
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	bad := optest.Tensor([]float32{nan, nan, inf, -inf, 1e30, -1e30, nan, 0}, 1, 1, 4, 2)
	for _, mode := range []string{"nearest", "linear", "cubic"} {
		for _, pad := range []string{"zeros", "border", "reflection"} {
			for _, corners := range []int{0, 1} {
				attrs := map[string]any{"mode": mode, "padding_mode": pad, "align_corners": corners}
				for _, g := range []*tensor.Tensor{bad, grid} {
					if _, err := optest.Run(t, "GridSample", 22, attrs, iota32(1, 2, 3, 1), g); err != nil {
						t.Errorf("%v: %v", attrs, err)
					}
				}
			}
		}
	}
	optest.Want(t, "GridSample", 22, nil, optest.Tensor([]float32{0}, 1, 1, 1, 1),
		optest.Tensor([]float32{}, 1, 1, 0, 2), optest.Tensor([]float32{0, 0}, 1, 1, 1, 2))
	optest.Want(t, "GridSample", 22, nil, optest.Tensor([]float32{}, 0, 1, 1, 1),
		optest.Tensor([]float32{}, 0, 1, 2, 2), optest.Tensor([]float32{}, 0, 1, 1, 2))
	optest.Fail(t, "GridSample", 22, map[string]any{"padding_mode": "border"}, "at least one element",
		optest.Tensor([]float32{}, 1, 1, 0, 2), optest.Tensor([]float32{0, 0}, 1, 1, 1, 2))
	optest.Fail(t, "GridSample", 22, nil, "cannot be interpolated", optest.Tensor([]string{"a"}, 1, 1, 1),
		optest.Tensor([]float32{0}, 1, 1, 1))
	optest.Fail(t, "GridSample", 22, nil, "rank", x, iota32(1, 2))
	optest.Fail(t, "GridSample", 22, nil, "coordinates", x, iota32(1, 2, 2, 3))
	optest.Fail(t, "GridSample", 22, map[string]any{"mode": "cubic"}, "reads", iota32(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
		iota32(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 9))
}

func TestAffineGrid(t *testing.T) {
	theta := optest.Tensor([]float32{1, 0, 0, 0, 2, 1}, 1, 2, 3)
	optest.Want(t, "AffineGrid", 20, nil, optest.Tensor([]float32{-0.5, 0, 0.5, 0, -0.5, 2, 0.5, 2}, 1, 2, 2, 2), theta,
		optest.Int64s(1, 1, 2, 2))
	optest.Want(t, "AffineGrid", 20, map[string]any{"align_corners": 1},
		optest.Tensor([]float32{0, -1, 0, 3}, 1, 2, 1, 2), theta, optest.Int64s(1, 1, 2, 1))
	optest.Want(t, "AffineGrid", 20, nil, optest.Tensor(half16(0, 0, 0), 1, 1, 1, 1, 3),
		optest.Tensor(half16(1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0), 1, 3, 4), optest.Int64s(1, 1, 1, 1, 1))
	optest.Fail(t, "AffineGrid", 20, nil, "size has 3", theta, optest.Int64s(1, 1, 2))
	optest.Fail(t, "AffineGrid", 20, nil, "theta has shape", theta, optest.Int64s(2, 1, 2, 2))
	optest.Fail(t, "AffineGrid", 20, nil, "", theta, optest.Int64s(1, 1, -2, 2))
	optest.Fail(t, "AffineGrid", 20, nil, "", theta, optest.Int64s(1, 1, 1<<40, 1<<40))
}

func TestDeformConv(t *testing.T) {
	x, w := iota32(1, 1, 3, 3), optest.Tensor([]float32{1, 1, 1, 1}, 1, 1, 2, 2)
	zero := optest.Tensor(make([]float32, 32), 1, 8, 2, 2)
	optest.Want(t, "DeformConv", 19, nil, optest.Tensor([]float32{12, 16, 24, 28}, 1, 1, 2, 2), x, w, zero)
	optest.Want(t, "DeformConv", 22, nil, optest.Tensor([]float32{15.5}, 1, 1, 1, 1), iota32(1, 1, 2, 2), w,
		optest.Tensor([]float32{0, 0, 0, 0, 0, 0, .5, 0}, 1, 8, 1, 1), optest.Tensor([]float32{7.5}, 1))
}

func TestDeformConvIn1D(t *testing.T) {
	x, w := optest.Tensor([]float32{2, 4, 8}, 1, 1, 3), optest.Tensor([]float32{2}, 1, 1, 1)
	nan := float32(math.NaN())
	optest.Want(t, "DeformConv", 22, nil, optest.Tensor([]float32{3, 5, 0}, 1, 1, 3), x, w,
		optest.Tensor([]float32{0.5, 0.25, nan}, 1, 1, 3), nil, optest.Tensor([]float32{.5, .5, 1}, 1, 1, 3))
	optest.Fail(t, "DeformConv", 22, nil, "offset has shape", x, w, optest.Tensor([]float32{0}, 1, 1, 1))
	optest.Fail(t, "DeformConv", 22, nil, "mask has shape", x, w, optest.Tensor([]float32{0, 0, 0}, 1, 1, 3), nil,
		optest.Tensor([]float32{0}, 1, 1, 1))
	optest.Fail(t, "DeformConv", 22, map[string]any{"offset_group": 2}, "offset_group 2", x, w,
		optest.Tensor([]float32{0, 0, 0}, 1, 1, 3))
	optest.Fail(t, "DeformConv", 22, map[string]any{"offset_group": 0}, "offset_group is 0", x, w,
		optest.Tensor([]float32{0, 0, 0}, 1, 1, 3))
}

func TestDeformConvsAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		t := optest.Drawn(t, rt)
		n := rapid.IntRange(1, 3).Draw(rt, "axes")
		attrs := drawWindow(rt, n)
		delete(attrs, "auto_pad")
		attrs["group"], attrs["offset_group"] = 2, rapid.SampledFrom([]int{1, 2, 3, 6}).Draw(rt, "offset_group")
		w, err := optest.Build("DeformConv", 22, attrs, 3, 1)
		if err != nil {
			rt.Fatal(err)
		}
		x, k := []int{2, 6}, []int{4, 3}
		for range n {
			x, k = append(x, rapid.IntRange(3, 7).Draw(rt, "size")), append(k, rapid.IntRange(1, 2).Draw(rt, "kernel"))
		}
		g, err := w.Node.Op.(*DeformConv).Resolve(x[2:], k[2:])
		if err != nil {
			rt.Fatal(err)
		}
		ch := attrs["offset_group"].(int) * g.Taps()
		off := drawTensor(rt, "offset", append([]int{2, ch * n}, g.Out...)...)
		for i, v := range tensor.MustData[float32](off) {
			tensor.MustData[float32](off)[i] = 6*v - 3
		}
		mask := drawTensor(rt, "mask", append([]int{2, ch}, g.Out...)...)
		if _, err := optest.Run(t, "DeformConv", 22, attrs, drawTensor(rt, "x", x...), drawTensor(rt, "w", k...), off,
			nil, mask); err != nil {
			rt.Fatal(err)
		}
	})
}

func TestMaxUnpool(t *testing.T) {
	k := map[string]any{"kernel_shape": []int{2}, "strides": []int{2}}
	x, at := optest.Tensor([]float32{5, 6}, 1, 1, 2), optest.Tensor([]int64{1, 2}, 1, 1, 2)
	for _, opset := range []int{9, 11, 22} {
		optest.Want(t, "MaxUnpool", opset, k, optest.Tensor([]float32{0, 5, 6, 0}, 1, 1, 4), x, at)
	}
	optest.Want(t, "MaxUnpool", 22, k, optest.Tensor([]float32{0, 5, 6, 0, 0}, 1, 1, 5), x, at, optest.Int64s(1, 1, 5))
	optest.Want(t, "MaxUnpool", 22, k, optest.Tensor([]float64{}, 1, 0, 4), optest.Tensor([]float64{}, 1, 0, 2),
		optest.Tensor([]int64{}, 1, 0, 2))
	optest.Fail(t, "MaxUnpool", 22, k, "index 4 is out of range", x, optest.Tensor([]int64{1, 4}, 1, 1, 2))
	optest.Fail(t, "MaxUnpool", 22, k, "index -1 is out of range", x, optest.Tensor([]int64{1, -1}, 1, 1, 2))
	optest.Fail(t, "MaxUnpool", 22, k, "smaller", x, at, optest.Int64s(1, 1, 3))
	optest.Fail(t, "MaxUnpool", 22, k, "the same", x, optest.Int64s(1, 2))
	optest.Fail(t, "MaxUnpool", 22, map[string]any{"kernel_shape": []int{2}, "pads": []int{2, 2}},
		"does not result", x, at)
	optest.Fail(t, "MaxUnpool", 22, map[string]any{"kernel_shape": []int{2, 2}}, "rank", x, at)
}

func TestRegionPools(t *testing.T) {
	x := iota32(1, 2, 4, 4)
	roi := optest.Tensor([]float32{0, 0, 0, 3, 3, 0, 2, 2, 3, 3}, 2, 5)
	two := map[string]any{"pooled_shape": []int{2, 2}}
	for _, opset := range []int{1, 22} {
		optest.Want(t, "MaxRoiPool", opset, two,
			optest.Tensor([]float32{6, 8, 14, 16, 22, 24, 30, 32, 11, 12, 15, 16, 27, 28, 31, 32}, 2, 2, 2, 2), x, roi)
	}
	optest.Want(t, "MaxRoiPool", 22, map[string]any{"pooled_shape": []int{1, 1}, "spatial_scale": 0.5},
		optest.Tensor([]float32{11, 27}, 1, 2, 1, 1), x, optest.Tensor([]float32{0, 0, 0, 4, 4}, 1, 5))
	optest.Want(t, "MaxRoiPool", 22, two, optest.Tensor([]float32{}, 0, 2, 2, 2), x, optest.Tensor([]float32{}, 0, 5))
	nan := float32(math.NaN())
	optest.Want(t, "MaxRoiPool", 22, map[string]any{"pooled_shape": []int{1, 1}},
		optest.Tensor([]float32{0, 0}, 1, 2, 1, 1), x, optest.Tensor([]float32{0, 1e30, nan, 1e30, nan}, 1, 5))
	optest.Fail(t, "MaxRoiPool", 22, two, "is in image 1", x, optest.Tensor([]float32{1, 0, 0, 1, 1}, 1, 5))
	optest.Fail(t, "MaxRoiPool", 22, map[string]any{"pooled_shape": []int{2}}, "pooled_shape has 1", x, roi)
	optest.Fail(t, "MaxRoiPool", 22, nil, "pooled_shape is missing", x, roi)

	r, img := optest.Tensor([]float32{0.5, 0.5, 2.5, 2.5}, 1, 4), optest.Int64s(0)
	optest.Want(t, "RoiAlign", 10, nil, optest.Tensor([]float32{8.5, 24.5}, 1, 2, 1, 1), x, r, img)
	optest.Want(t, "RoiAlign", 16, nil, optest.Tensor([]float32{6, 22}, 1, 2, 1, 1), x, r, img)
	optest.Want(t, "RoiAlign", 22, map[string]any{"coordinate_transformation_mode": "output_half_pixel", "mode": "max",
		"sampling_ratio": 1}, optest.Tensor([]float32{11 * .25, 27 * .25}, 1, 2, 1, 1), x, r, img)
	optest.Want(t, "RoiAlign", 22, nil, optest.Tensor(half16(0), 1, 1, 1, 1),
		optest.Tensor(half16(1, 2, 3, 4), 1, 1, 2, 2), optest.Tensor(half16(50, 50, 60, 60), 1, 4), img)
	optest.Want(t, "RoiAlign", 22, nil, optest.Tensor([]float32{}, 0, 2, 1, 1), x, optest.Tensor([]float32{}, 0, 4),
		optest.Tensor([]int64{}, 0))
	optest.Fail(t, "RoiAlign", 22, nil, "batch_indices has the element 1", x, r, optest.Int64s(1))
	optest.Fail(t, "RoiAlign", 22, nil, "samples", x, optest.Tensor([]float32{0, 0, 1e30, 1}, 1, 4), img)
	optest.Fail(t, "RoiAlign", 22, nil, "samples", x, optest.Tensor([]float32{0, 0, nan, 1}, 1, 4), img)
	optest.Fail(t, "RoiAlign", 22, map[string]any{"sampling_ratio": 1 << 40}, "sampling_ratio is", x, r, img)
	optest.Fail(t, "RoiAlign", 22, map[string]any{"output_height": 0}, "output size is 0×1", x, r, img)
}

func TestDet(t *testing.T) {
	for _, opset := range []int{11, 22} {
		optest.Want(t, "Det", opset, nil, optest.Tensor([]float32{-2, 1}, 2),
			optest.Tensor([]float32{1, 2, 3, 4, 1, 0, 0, 1}, 2, 2, 2))
	}
	optest.Want(t, "Det", 22, nil, optest.Tensor([]float64{-1}),
		optest.Tensor([]float64{0, 1, 0, 1, 0, 0, 0, 0, 1}, 3, 3))
	optest.Want(t, "Det", 22, nil, optest.Tensor(half16(0)), optest.Tensor(half16(1, 2, 2, 4), 2, 2))
	optest.Want(t, "Det", 22, nil, optest.Tensor([]float32{1}, 1), optest.Tensor([]float32{}, 1, 0, 0))
	optest.Fail(t, "Det", 22, nil, "square", iota32(2, 3))
	optest.Fail(t, "Det", 22, nil, "rank", iota32(2))
}

// An attribute that Build rejects is the error of the node, not the attributes that it has not read
// by then.
func TestRejectedAttributeBeforeUnread(t *testing.T) {
	_, err := optest.Build("MaxRoiPool", 22, map[string]any{"pooled_shape": []int{2}, "spatial_scale": 0.5}, 2, 1)
	if want := "build: attribute pooled_shape has 1 elements, want 2"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
