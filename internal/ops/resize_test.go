package ops

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

func TestResize(t *testing.T) {
	x := iota32(1, 1, 2, 2)
	f := func(v ...float32) *tensor.Tensor { return tt(v, len(v)) }
	twice := f(1, 1, 2, 2)
	near := tt([]float32{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4}, 1, 1, 4, 4)
	lin := tt([]float32{1, 1.5, 2, 2, 2, 2.5, 3, 3, 3, 3.5, 4, 4, 3, 3.5, 4, 4}, 1, 1, 4, 4)
	wantOp(t, "Upsample", 1, map[string]any{"height_scale": 2.0, "width_scale": 2.0}, near, x)
	wantOp(t, "Upsample", 1, map[string]any{"height_scale": 2.0, "width_scale": 2.0, "mode": "bilinear"}, lin, x)
	wantOp(t, "Upsample", 7, map[string]any{"scales": []float64{1, 1, 2, 2}}, near, x)
	wantOp(t, "Upsample", 9, map[string]any{"mode": "linear"}, lin, x, twice)
	wantOp(t, "Resize", 10, nil, near, x, twice)
	wantOp(t, "Resize", 10, map[string]any{"mode": "linear"}, lin, x, twice)
	if _, err := runOp(t, "Upsample", 10, nil, x, twice); err == nil {
		t.Error("Upsample of opset 10 is no error")
	}
	// Opset 11 has scales always, empty ones where sizes count.
	empty := tt([]float32{}, 0)
	wantOp(t, "Resize", 11, map[string]any{"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "floor"}, iota32(1, 1, 2, 2), iota32(1, 1, 2, 2), empty, f(1, 1, 1, 1))
	wantOp(t, "Resize", 11, map[string]any{"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, near, x, empty, empty, i64s(1, 1, 4, 4))
	wantOp(t, "Resize", 13, map[string]any{"mode": "linear"}, tt([]int8{1, 2, 2, 3}, 4), tt([]int8{1, 3}, 2), nil, f(2))
	wantOp(t, "Resize", 19, map[string]any{"mode": "linear", "axes": []int{-1}}, tt([]uint8{1, 2, 2, 3}, 1, 4), tt([]uint8{1, 3}, 1, 2), nil, nil, i64s(4))
	wantOp(t, "Resize", 19, map[string]any{"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1}, tt(half16(0.5, 0.5), 2), tt(half16(0.5, 0.5, 0.5), 3), nil, f(0.7))
	wantOp(t, "Resize", 19, map[string]any{"nearest_mode": "ceil"}, tt([]string{"a", "b", "b", "b"}, 4), tt([]string{"a", "b"}, 2), nil, f(2))
	wantOp(t, "Resize", 19, map[string]any{"coordinate_transformation_mode": "align_corners"}, tt([]bool{true, true, false}, 3), tt([]bool{true, false}, 2), nil, nil, i64s(3))
	crop := map[string]any{"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
	wantOp(t, "Resize", 13, crop, tt([]int16{2, 3, 7}, 3), tt([]int16{1, 2, 3}, 3), f(0.5, 1.5), nil, i64s(3))
	crop["mode"] = "linear"
	wantOp(t, "Resize", 13, crop, tt([]float64{1.5, 2.5, 7}, 3), tt([]float64{1, 2, 3}, 3), tt([]float64{0.25, 1.25}, 2), nil, i64s(3))
	nan := float32(math.NaN())
	wantOp(t, "Resize", 13, crop, tt([]float32{7, 7}, 2), tt([]float32{1, 2, 3}, 3), f(nan, 1), nil, i64s(2))
	wantOp(t, "Resize", 18, map[string]any{"mode": "linear", "antialias": 1}, tt([]float32{1.625, 3.375}, 2), iota32(4), nil, f(0.5))
	wantOp(t, "Resize", 18, map[string]any{"keep_aspect_ratio_policy": "not_larger", "mode": "linear"}, tt([]float32{1.5, 3.5}, 1, 2), iota32(1, 4), nil, nil, i64s(1, 2))
	wantOp(t, "Resize", 19, nil, tt([]float32{}, 0, 4), tt([]float32{}, 0, 2), nil, f(3, 2))
	wantOp(t, "Resize", 19, nil, tt([]float32{}, 0), tt([]float32{1}, 1), nil, f(0.5))
	wantOp(t, "Resize", 19, nil, tt([]float32{3}), tt([]float32{3}), nil, empty, tt([]int64{}, 0))

	failOp(t, "Resize", 19, nil, "neither scales nor sizes", x)
	failOp(t, "Resize", 19, nil, "scale is -1", x, nil, f(1, 1, -1, 1))
	failOp(t, "Resize", 19, nil, "scale is NaN", x, nil, f(1, 1, nan, 1))
	failOp(t, "Resize", 19, nil, "3 scales", x, nil, f(1, 1, 1))
	failOp(t, "Resize", 19, nil, "too large", x, nil, f(1, 1, 1e30, 1))
	failOp(t, "Resize", 19, nil, "", x, nil, f(1, 1, 1e6, 1e6))
	failOp(t, "Resize", 19, nil, "out of range", x, nil, nil, i64s(1, 1, -5, 1))
	failOp(t, "Resize", 19, nil, "has no elements", tt([]float32{}, 0), nil, nil, i64s(2))
	failOp(t, "Resize", 19, map[string]any{"axes": []int{0, 0}}, "twice", x, nil, f(1, 1))
	failOp(t, "Resize", 19, map[string]any{"axes": []int{9}}, "out of range", x, nil, f(1))
	failOp(t, "Resize", 19, map[string]any{"mode": "linear"}, "cannot be interpolated", tt([]string{"a"}, 1), nil, f(2))
	failOp(t, "Resize", 19, map[string]any{"coordinate_transformation_mode": "tf_crop_and_resize"}, "roi", x, nil, twice)
}

// TestResizeNearestOfOpset10 checks test_resize_downsample_nearest of ONNX 1.5, and
// quotients that only float makes whole.
func TestResizeNearestOfOpset10(t *testing.T) {
	f := func(v ...float32) *tensor.Tensor { return tt(v, len(v)) }
	wantOp(t, "Resize", 10, nil, tt([]float32{1, 3}, 1, 1, 1, 2), iota32(1, 1, 2, 4), f(1, 1, 0.6, 0.6))
	wantOp(t, "Resize", 10, nil, tt([]float32{1, 3}, 2), iota32(3), f(0.75))
	wantOp(t, "Resize", 10, nil, tt([]float32{1, 1, 2, 2, 3}, 5), iota32(3), f(1.7))
	wantOp(t, "Resize", 10, nil, tt([]float32{1, 3, 4, 6, 7, 9, 10, 11}, 8), iota32(12), f(0.7))
	wantOp(t, "Resize", 10, nil, tt([]float32{1, 1, 2, 3, 4, 5, 6}, 7), iota32(6), f(1.2))
}

func TestResizeShapes(t *testing.T) {
	n := &ir.Value{Type: ir.TensorType(tensor.TypeFloat32, ir.Symbol("N"), ir.Symbol("H"), ir.Known(3))}
	got, err := inferOp(t, "Resize", 19, map[string]any{"axes": []int{1, 2}}, n, nil, constValue(tt([]float32{2, 1.5}, 2)))
	if want := "tensor(float)[N 2*H 4]"; err != nil || got[0].Type.String() != want {
		t.Errorf("got %v, %v, want %s", got, err, want)
	}
}

// Both engines agree on random sizes and modes.
func TestResizesAgree(t *testing.T) {
	x := iota32(2, 5, 7)
	for _, mode := range []string{"nearest", "linear", "cubic"} {
		for _, coord := range []string{"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"} {
			for _, anti := range []int{0, 1} {
				for _, scale := range []float32{0.3, 0.6, 1, 1.7, 3} {
					roi := tt([]float32{-0.1, 0.2, 0.9, 1.2}, 4)
					attrs := map[string]any{"mode": mode, "coordinate_transformation_mode": coord, "antialias": anti, "axes": []int{2, 1}, "exclude_outside": anti}
					if _, err := runOp(t, "Resize", 19, attrs, x, roi, tt([]float32{scale, 2 - scale/2}, 2)); err != nil {
						t.Errorf("%v %g: %v", attrs, scale, err)
					}
				}
			}
		}
	}
}
