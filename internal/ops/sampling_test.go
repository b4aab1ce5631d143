package ops

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/tensor"
	"pgregory.net/rapid"
)

func TestGridSample(t *testing.T) {
	x := iota32(1, 1, 2, 2)
	grid := tt([]float32{-0.5, -0.5, 0, 0, 1, 1, 3, 3}, 1, 1, 4, 2)
	for opset, mode := range map[int]string{16: "bilinear", 20: "linear", 22: "linear"} {
		wantOp(t, "GridSample", opset, map[string]any{"mode": mode}, tt([]float32{1, 2.5, 1, 0}, 1, 1, 1, 4), x, grid)
	}
	wantOp(t, "GridSample", 16, map[string]any{"padding_mode": "border"}, tt([]float32{1, 2.5, 4, 4}, 1, 1, 1, 4), x, grid)
	wantOp(t, "GridSample", 20, map[string]any{"padding_mode": "reflection", "align_corners": 1}, tt([]float32{1.75, 2.5, 4, 1}, 1, 1, 1, 4), x, tt([]float32{-0.5, -0.5, 0, 0, 1, 1, 3, 3}, 1, 1, 4, 2))
	wantOp(t, "GridSample", 22, map[string]any{"mode": "nearest"}, tt([]string{"a", "a", "", ""}, 1, 1, 1, 4), tt([]string{"a", "b", "c", "d"}, 1, 1, 2, 2), tt([]float32{-0.5, -0.5, 0, 0, 1.1, 1.1, 3, 3}, 1, 1, 4, 2))
	wantOp(t, "GridSample", 22, nil, tt([]int32{2, 3}, 1, 1, 2), tt([]int32{1, 4}, 1, 1, 2), tt([]float64{0, 0.25}, 1, 2, 1))
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	bad := tt([]float32{nan, nan, inf, -inf, 1e30, -1e30, nan, 0}, 1, 1, 4, 2)
	for _, mode := range []string{"nearest", "linear", "cubic"} {
		for _, pad := range []string{"zeros", "border", "reflection"} {
			for _, corners := range []int{0, 1} {
				attrs := map[string]any{"mode": mode, "padding_mode": pad, "align_corners": corners}
				for _, g := range []*tensor.Tensor{bad, grid} {
					if _, err := runOp(t, "GridSample", 22, attrs, iota32(1, 2, 3, 1), g); err != nil {
						t.Errorf("%v: %v", attrs, err)
					}
				}
			}
		}
	}
	wantOp(t, "GridSample", 22, nil, tt([]float32{0}, 1, 1, 1, 1), tt([]float32{}, 1, 1, 0, 2), tt([]float32{0, 0}, 1, 1, 1, 2))
	wantOp(t, "GridSample", 22, nil, tt([]float32{}, 0, 1, 1, 1), tt([]float32{}, 0, 1, 2, 2), tt([]float32{}, 0, 1, 1, 2))
	failOp(t, "GridSample", 22, map[string]any{"padding_mode": "border"}, "no element", tt([]float32{}, 1, 1, 0, 2), tt([]float32{0, 0}, 1, 1, 1, 2))
	failOp(t, "GridSample", 22, nil, "cannot be interpolated", tt([]string{"a"}, 1, 1, 1), tt([]float32{0}, 1, 1, 1))
	failOp(t, "GridSample", 22, nil, "rank", x, iota32(1, 2))
	failOp(t, "GridSample", 22, nil, "coordinates", x, iota32(1, 2, 2, 3))
	failOp(t, "GridSample", 22, map[string]any{"mode": "cubic"}, "reads", iota32(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), iota32(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 9))
}

func TestAffineGrid(t *testing.T) {
	theta := tt([]float32{1, 0, 0, 0, 2, 1}, 1, 2, 3)
	wantOp(t, "AffineGrid", 20, nil, tt([]float32{-0.5, 0, 0.5, 0, -0.5, 2, 0.5, 2}, 1, 2, 2, 2), theta, i64s(1, 1, 2, 2))
	wantOp(t, "AffineGrid", 20, map[string]any{"align_corners": 1}, tt([]float32{0, -1, 0, 3}, 1, 2, 1, 2), theta, i64s(1, 1, 2, 1))
	wantOp(t, "AffineGrid", 20, nil, tt(half16(0, 0, 0), 1, 1, 1, 1, 3), tt(half16(1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0), 1, 3, 4), i64s(1, 1, 1, 1, 1))
	failOp(t, "AffineGrid", 20, nil, "size has 3", theta, i64s(1, 1, 2))
	failOp(t, "AffineGrid", 20, nil, "theta has shape", theta, i64s(2, 1, 2, 2))
	failOp(t, "AffineGrid", 20, nil, "", theta, i64s(1, 1, -2, 2))
	failOp(t, "AffineGrid", 20, nil, "", theta, i64s(1, 1, 1<<40, 1<<40))
}

func TestDeformConv(t *testing.T) {
	x, w := iota32(1, 1, 3, 3), tt([]float32{1, 1, 1, 1}, 1, 1, 2, 2)
	zero := tt(make([]float32, 32), 1, 8, 2, 2)
	wantOp(t, "DeformConv", 19, nil, tt([]float32{12, 16, 24, 28}, 1, 1, 2, 2), x, w, zero)
	wantOp(t, "DeformConv", 22, nil, tt([]float32{15.5}, 1, 1, 1, 1), iota32(1, 1, 2, 2), w, tt([]float32{0, 0, 0, 0, 0, 0, .5, 0}, 1, 8, 1, 1), tt([]float32{7.5}, 1))
}

func TestDeformConvIn1D(t *testing.T) {
	x, w := tt([]float32{2, 4, 8}, 1, 1, 3), tt([]float32{2}, 1, 1, 1)
	nan := float32(math.NaN())
	wantOp(t, "DeformConv", 22, nil, tt([]float32{3, 5, 0}, 1, 1, 3), x, w, tt([]float32{0.5, 0.25, nan}, 1, 1, 3), nil, tt([]float32{.5, .5, 1}, 1, 1, 3))
	failOp(t, "DeformConv", 22, nil, "offset has shape", x, w, tt([]float32{0}, 1, 1, 1))
	failOp(t, "DeformConv", 22, nil, "mask has shape", x, w, tt([]float32{0, 0, 0}, 1, 1, 3), nil, tt([]float32{0}, 1, 1, 1))
	failOp(t, "DeformConv", 22, map[string]any{"offset_group": 2}, "offset_group 2", x, w, tt([]float32{0, 0, 0}, 1, 1, 3))
	failOp(t, "DeformConv", 22, map[string]any{"offset_group": 0}, "offset_group is 0", x, w, tt([]float32{0, 0, 0}, 1, 1, 3))
}

func TestDeformConvsAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(rt, "axes")
		attrs := drawWindow(rt, n)
		delete(attrs, "auto_pad")
		attrs["group"], attrs["offset_group"] = 2, rapid.SampledFrom([]int{1, 2, 3, 6}).Draw(rt, "offset_group")
		w, err := buildOp("DeformConv", 22, attrs, 3, 1)
		if err != nil {
			rt.Fatal(err)
		}
		x, k := []int{2, 6}, []int{4, 3}
		for range n {
			x, k = append(x, rapid.IntRange(3, 7).Draw(rt, "size")), append(k, rapid.IntRange(1, 2).Draw(rt, "kernel"))
		}
		g, err := w.node.Op.(*DeformConv).resolve(x[2:], k[2:])
		if err != nil {
			rt.Fatal(err)
		}
		ch := attrs["offset_group"].(int) * g.taps()
		off := drawTensor(rt, "offset", append([]int{2, ch * n}, g.out...)...)
		for i, v := range tensor.Of[float32](off) {
			tensor.Of[float32](off)[i] = 6*v - 3
		}
		mask := drawTensor(rt, "mask", append([]int{2, ch}, g.out...)...)
		if _, err := runOp(t, "DeformConv", 22, attrs, drawTensor(rt, "x", x...), drawTensor(rt, "w", k...), off, nil, mask); err != nil {
			rt.Fatal(err)
		}
		if t.Failed() {
			rt.Fatalf("%v of %v by %v", attrs, x, k)
		}
	})
}

func TestMaxUnpool(t *testing.T) {
	k := map[string]any{"kernel_shape": []int{2}, "strides": []int{2}}
	x, at := tt([]float32{5, 6}, 1, 1, 2), tt([]int64{1, 2}, 1, 1, 2)
	for _, opset := range []int{9, 11, 22} {
		wantOp(t, "MaxUnpool", opset, k, tt([]float32{0, 5, 6, 0}, 1, 1, 4), x, at)
	}
	wantOp(t, "MaxUnpool", 22, k, tt([]float32{0, 5, 6, 0, 0}, 1, 1, 5), x, at, i64s(1, 1, 5))
	wantOp(t, "MaxUnpool", 22, k, tt([]float64{}, 1, 0, 4), tt([]float64{}, 1, 0, 2), tt([]int64{}, 1, 0, 2))
	failOp(t, "MaxUnpool", 22, k, "index 4 is out of range", x, tt([]int64{1, 4}, 1, 1, 2))
	failOp(t, "MaxUnpool", 22, k, "index -1 is out of range", x, tt([]int64{1, -1}, 1, 1, 2))
	failOp(t, "MaxUnpool", 22, k, "smaller", x, at, i64s(1, 1, 3))
	failOp(t, "MaxUnpool", 22, k, "the same", x, i64s(1, 2))
	failOp(t, "MaxUnpool", 22, map[string]any{"kernel_shape": []int{2}, "pads": []int{2, 2}}, "no size before", x, at)
	failOp(t, "MaxUnpool", 22, map[string]any{"kernel_shape": []int{2, 2}}, "rank", x, at)
}

func TestRegionPools(t *testing.T) {
	x := iota32(1, 2, 4, 4)
	roi := tt([]float32{0, 0, 0, 3, 3, 0, 2, 2, 3, 3}, 2, 5)
	two := map[string]any{"pooled_shape": []int{2, 2}}
	for _, opset := range []int{1, 22} {
		wantOp(t, "MaxRoiPool", opset, two, tt([]float32{6, 8, 14, 16, 22, 24, 30, 32, 11, 12, 15, 16, 27, 28, 31, 32}, 2, 2, 2, 2), x, roi)
	}
	wantOp(t, "MaxRoiPool", 22, map[string]any{"pooled_shape": []int{1, 1}, "spatial_scale": 0.5}, tt([]float32{11, 27}, 1, 2, 1, 1), x, tt([]float32{0, 0, 0, 4, 4}, 1, 5))
	wantOp(t, "MaxRoiPool", 22, two, tt([]float32{}, 0, 2, 2, 2), x, tt([]float32{}, 0, 5))
	nan := float32(math.NaN())
	wantOp(t, "MaxRoiPool", 22, map[string]any{"pooled_shape": []int{1, 1}}, tt([]float32{0, 0}, 1, 2, 1, 1), x, tt([]float32{0, 1e30, nan, 1e30, nan}, 1, 5))
	failOp(t, "MaxRoiPool", 22, two, "is in image 1", x, tt([]float32{1, 0, 0, 1, 1}, 1, 5))
	failOp(t, "MaxRoiPool", 22, map[string]any{"pooled_shape": []int{2}}, "pooled_shape has 1", x, roi)
	failOp(t, "MaxRoiPool", 22, nil, "pooled_shape is missing", x, roi)

	r, img := tt([]float32{0.5, 0.5, 2.5, 2.5}, 1, 4), i64s(0)
	wantOp(t, "RoiAlign", 10, nil, tt([]float32{8.5, 24.5}, 1, 2, 1, 1), x, r, img)
	wantOp(t, "RoiAlign", 16, nil, tt([]float32{6, 22}, 1, 2, 1, 1), x, r, img)
	wantOp(t, "RoiAlign", 22, map[string]any{"coordinate_transformation_mode": "output_half_pixel", "mode": "max", "sampling_ratio": 1}, tt([]float32{11 * .25, 27 * .25}, 1, 2, 1, 1), x, r, img)
	wantOp(t, "RoiAlign", 22, nil, tt(half16(0), 1, 1, 1, 1), tt(half16(1, 2, 3, 4), 1, 1, 2, 2), tt(half16(50, 50, 60, 60), 1, 4), img)
	wantOp(t, "RoiAlign", 22, nil, tt([]float32{}, 0, 2, 1, 1), x, tt([]float32{}, 0, 4), tt([]int64{}, 0))
	failOp(t, "RoiAlign", 22, nil, "batch_indices holds 1", x, r, i64s(1))
	failOp(t, "RoiAlign", 22, nil, "samples", x, tt([]float32{0, 0, 1e30, 1}, 1, 4), img)
	failOp(t, "RoiAlign", 22, nil, "samples", x, tt([]float32{0, 0, nan, 1}, 1, 4), img)
	failOp(t, "RoiAlign", 22, map[string]any{"sampling_ratio": 1 << 40}, "sampling_ratio is", x, r, img)
	failOp(t, "RoiAlign", 22, map[string]any{"output_height": 0}, "output size is 0×1", x, r, img)
}

func TestDet(t *testing.T) {
	for _, opset := range []int{11, 22} {
		wantOp(t, "Det", opset, nil, tt([]float32{-2, 1}, 2), tt([]float32{1, 2, 3, 4, 1, 0, 0, 1}, 2, 2, 2))
	}
	wantOp(t, "Det", 22, nil, tt([]float64{-1}), tt([]float64{0, 1, 0, 1, 0, 0, 0, 0, 1}, 3, 3))
	wantOp(t, "Det", 22, nil, tt(half16(0)), tt(half16(1, 2, 2, 4), 2, 2))
	wantOp(t, "Det", 22, nil, tt([]float32{1}, 1), tt([]float32{}, 1, 0, 0))
	failOp(t, "Det", 22, nil, "square", iota32(2, 3))
	failOp(t, "Det", 22, nil, "rank", iota32(2))
}
