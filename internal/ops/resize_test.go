package ops

import (
	"math"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

func TestResize(t *testing.T) {
	x := iota32(1, 1, 2, 2)
	f := func(v ...float32) *tensor.Tensor { return optest.Tensor(v, len(v)) }
	twice := f(1, 1, 2, 2)
	near := optest.Tensor([]float32{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4}, 1, 1, 4, 4)
	lin := optest.Tensor([]float32{1, 1.5, 2, 2, 2, 2.5, 3, 3, 3, 3.5, 4, 4, 3, 3.5, 4, 4}, 1, 1, 4, 4)
	optest.Want(t, "Upsample", 1, map[string]any{"height_scale": 2.0, "width_scale": 2.0}, near, x)
	optest.Want(t, "Upsample", 1, map[string]any{"height_scale": 2.0, "width_scale": 2.0, "mode": "bilinear"}, lin, x)
	optest.Want(t, "Upsample", 7, map[string]any{"scales": []float64{1, 1, 2, 2}}, near, x)
	optest.Want(t, "Upsample", 9, map[string]any{"mode": "linear"}, lin, x, twice)
	optest.Want(t, "Resize", 10, nil, near, x, twice)
	optest.Want(t, "Resize", 10, map[string]any{"mode": "linear"}, lin, x, twice)
	if _, err := optest.Run(t, "Upsample", 10, nil, x, twice); err == nil {
		t.Error("Upsample in opset 10: no error")
	}
	// In opset 11 scales are required. They are empty if sizes are given.
	empty := optest.Tensor([]float32{}, 0)
	optest.Want(t, "Resize", 11, map[string]any{"coordinate_transformation_mode": "tf_half_pixel_for_nn",
		"nearest_mode": "floor"}, iota32(1, 1, 2, 2), iota32(1, 1, 2, 2), empty, f(1, 1, 1, 1))
	optest.Want(t, "Resize", 11, map[string]any{"coordinate_transformation_mode": "asymmetric",
		"nearest_mode": "floor"}, near, x, empty, empty, optest.Int64s(1, 1, 4, 4))
	optest.Want(t, "Resize", 13, map[string]any{"mode": "linear"}, optest.Tensor([]int8{1, 2, 2, 3}, 4),
		optest.Tensor([]int8{1, 3}, 2), nil, f(2))
	optest.Want(t, "Resize", 19, map[string]any{"mode": "linear", "axes": []int{-1}},
		optest.Tensor([]uint8{1, 2, 2, 3}, 1, 4), optest.Tensor([]uint8{1, 3}, 1, 2), nil, nil, optest.Int64s(4))
	optest.Want(t, "Resize", 19, map[string]any{"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1},
		optest.Tensor(half16(0.5, 0.5), 2), optest.Tensor(half16(0.5, 0.5, 0.5), 3), nil, f(0.7))
	optest.Want(t, "Resize", 19, map[string]any{"nearest_mode": "ceil"}, optest.Tensor([]string{"a", "b", "b", "b"}, 4),
		optest.Tensor([]string{"a", "b"}, 2), nil, f(2))
	optest.Want(t, "Resize", 19, map[string]any{"coordinate_transformation_mode": "align_corners"},
		optest.Tensor([]bool{true, true, false}, 3), optest.Tensor([]bool{true, false}, 2), nil, nil, optest.Int64s(3))
	crop := map[string]any{"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
	optest.Want(t, "Resize", 13, crop, optest.Tensor([]int16{2, 3, 7}, 3), optest.Tensor([]int16{1, 2, 3}, 3),
		f(0.5, 1.5), nil, optest.Int64s(3))
	crop["mode"] = "linear"
	optest.Want(t, "Resize", 13, crop, optest.Tensor([]float64{1.5, 2.5, 7}, 3), optest.Tensor([]float64{1, 2, 3}, 3),
		optest.Tensor([]float64{0.25, 1.25}, 2), nil, optest.Int64s(3))
	optest.Want(t, "Resize", 13, crop, optest.Tensor([]float64{1, 2, 3}, 3), optest.Tensor([]float64{1, 2, 3}, 3),
		nil, nil, optest.Int64s(3))
	nan := float32(math.NaN())
	optest.Want(t, "Resize", 13, crop, optest.Tensor([]float32{7, 7}, 2), optest.Tensor([]float32{1, 2, 3}, 3),
		f(nan, 1), nil, optest.Int64s(2))
	optest.Want(t, "Resize", 18, map[string]any{"mode": "linear", "antialias": 1},
		optest.Tensor([]float32{1.625, 3.375}, 2), iota32(4), nil, f(0.5))
	optest.Want(t, "Resize", 18, map[string]any{"keep_aspect_ratio_policy": "not_larger", "mode": "linear"},
		optest.Tensor([]float32{1.5, 3.5}, 1, 2), iota32(1, 4), nil, nil, optest.Int64s(1, 2))
	optest.Want(t, "Resize", 19, nil, optest.Tensor([]float32{}, 0, 4), optest.Tensor([]float32{}, 0, 2), nil, f(3, 2))
	optest.Want(t, "Resize", 19, nil, optest.Tensor([]float32{}, 0), optest.Tensor([]float32{1}, 1), nil, f(0.5))
	optest.Want(t, "Resize", 19, nil, optest.Tensor([]float32{3}), optest.Tensor([]float32{3}), nil, empty,
		optest.Tensor([]int64{}, 0))

	optest.Fail(t, "Resize", 19, nil, "both scales and sizes are absent", x)
	optest.Fail(t, "Resize", 19, nil, "scale is -1", x, nil, f(1, 1, -1, 1))
	optest.Fail(t, "Resize", 19, nil, "scale is NaN", x, nil, f(1, 1, nan, 1))
	optest.Fail(t, "Resize", 19, nil, "3 scales", x, nil, f(1, 1, 1))
	optest.Fail(t, "Resize", 19, nil, "exceeds the limit", x, nil, f(1, 1, 1e30, 1))
	optest.Fail(t, "Resize", 19, nil, "", x, nil, f(1, 1, 1e6, 1e6))
	optest.Fail(t, "Resize", 19, nil, "want 0 to", x, nil, nil, optest.Int64s(1, 1, -5, 1))
	optest.Fail(t, "Resize", 19, nil, "is empty", optest.Tensor([]float32{}, 0), nil, nil, optest.Int64s(2))
	optest.Fail(t, "Resize", 19, map[string]any{"axes": []int{0, 0}}, "twice", x, nil, f(1, 1))
	optest.Fail(t, "Resize", 19, map[string]any{"axes": []int{9}}, "out of range", x, nil, f(1))
	optest.Fail(t, "Resize", 19, map[string]any{"mode": "linear"}, "cannot be interpolated",
		optest.Tensor([]string{"a"}, 1), nil, f(2))
	optest.Fail(t, "Resize", 19, map[string]any{"coordinate_transformation_mode": "tf_crop_and_resize"},
		"roi has 1 elements", x, optest.Tensor([]float32{1}, 1), twice)
}

// TestResizeNearestOfOpset10 checks test_resize_downsample_nearest of ONNX 1.5, and quotients
// that are integers only in float.
func TestResizeNearestOfOpset10(t *testing.T) {
	f := func(v ...float32) *tensor.Tensor { return optest.Tensor(v, len(v)) }
	optest.Want(t, "Resize", 10, nil, optest.Tensor([]float32{1, 3}, 1, 1, 1, 2), iota32(1, 1, 2, 4), f(1, 1, 0.6, 0.6))
	optest.Want(t, "Resize", 10, nil, optest.Tensor([]float32{1, 3}, 2), iota32(3), f(0.75))
	optest.Want(t, "Resize", 10, nil, optest.Tensor([]float32{1, 1, 2, 2, 3}, 5), iota32(3), f(1.7))
	optest.Want(t, "Resize", 10, nil, optest.Tensor([]float32{1, 3, 4, 6, 7, 9, 10, 11}, 8), iota32(12), f(0.7))
	optest.Want(t, "Resize", 10, nil, optest.Tensor([]float32{1, 1, 2, 3, 4, 5, 6}, 7), iota32(6), f(1.2))
}

func TestResizeShapes(t *testing.T) {
	n := &ir.Value{Type: ir.TensorType(tensor.TypeFloat32, ir.Symbol("N"), ir.Symbol("H"), ir.Known(3))}
	got, err := optest.Infer(t, "Resize", 19, map[string]any{"axes": []int{1, 2}}, n, nil,
		constValue(optest.Tensor([]float32{2, 1.5}, 2)))
	if want := "tensor(float)[N 2*H 4]"; err != nil || got[0].Type.String() != want {
		t.Errorf("got %v, %v, want %s", got, err, want)
	}
}

// This test checks that both engines agree on random sizes and modes.
func TestResizesAgree(t *testing.T) {
	x := iota32(2, 5, 7)
	for _, mode := range []string{"nearest", "linear", "cubic"} {
		for _, coord := range []string{"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
			"asymmetric", "tf_crop_and_resize"} {
			for _, anti := range []int{0, 1} {
				for _, scale := range []float32{0.3, 0.6, 1, 1.7, 3} {
					roi := optest.Tensor([]float32{-0.1, 0.2, 0.9, 1.2}, 4)
					attrs := map[string]any{"mode": mode, "coordinate_transformation_mode": coord, "antialias": anti,
						"axes": []int{2, 1}, "exclude_outside": anti}
					if _, err := optest.Run(t, "Resize", 19, attrs, x, roi,
						optest.Tensor([]float32{scale, 2 - scale/2}, 2)); err != nil {
						t.Errorf("%v %g: %v", attrs, scale, err)
					}
				}
			}
		}
	}
}

// TestResizeOfIntegersInGroups resizes more images of integers than are computed at once.
func TestResizeOfIntegersInGroups(t *testing.T) {
	const images, in, out = 77, 6, 40
	pixels := make([]uint8, images*in*in)
	for i := range pixels {
		pixels[i] = uint8(i * i)
	}
	resized := func(n int, pixels []uint8) []uint8 {
		y, err := optest.Run(t, "Resize", 13, map[string]any{"mode": "linear"}, optest.Tensor(pixels, 1, n, in, in),
			nil, nil, optest.Int64s(1, int64(n), out, out))
		if err != nil {
			t.Fatal(err)
		}
		return tensor.MustData[uint8](y[0].(*tensor.Tensor))
	}
	all := resized(images, pixels)
	for i := range images {
		if want := resized(1, pixels[i*in*in:][:in*in]); !slices.Equal(all[i*out*out:][:out*out], want) {
			t.Errorf("image %d of %d differs from the one that is resized alone", i, images)
		}
	}
}
