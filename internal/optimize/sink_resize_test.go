package optimize

import "github.com/onward-ml/onward/onnx"

// small writes constant weights of both signs whose sums stay near one.
func small(name string, dims ...int64) build {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(i*5%13-6) / 64
	}
	return constant(name, data, dims...)
}

// enlargedConv writes a Resize of c, a Conv of x, and a 1×1 Conv of its result; in are the inputs
// of the Resize.
func enlargedConv(in string, attrs onnx.Attrs, more ...build) []build {
	b := append(steps(input("x", 2, 4, 5, 6), small("w", 96, 4, 1, 1), small("v", 3, 96, 1, 1), small("k", 3),
		constant("o", []float32{}, 0), node("Conv", "x w", "c")), more...)
	return append(b, node("Resize", in, "r", attrs), node("Conv", "r v k", "y"))
}

// decoder writes a 1×1 Conv of the channels of three images, of which two are enlarged.
func decoder() []build {
	linear := onnx.Attrs{"mode": "linear"}
	return steps(input("x", 2, 4, 12, 12), small("w", 80, 4, 3, 3), small("u", 90, 4, 5, 5), small("v", 6, 174, 1, 1),
		small("k", 6), constant("n", []int64{2, 80, 12, 12}, 4), constant("o", []float32{}, 0),
		constant("s", []float32{1, 1, 6, 6}, 4),
		node("Conv", "x w", "a0", onnx.Attrs{"strides": []int64{3, 3}}),
		node("Conv", "x u", "b0", onnx.Attrs{"strides": []int64{5, 5}}),
		node("Resize", "a0 o o n", "a", linear), node("Resize", "b0 o s", "b", linear), node("Relu", "x", "z"),
		node("Concat", "a z b", "c", onnx.Attrs{"axis": int64(1)}),
		node("Conv", "c v k", "d"), node("Relu", "d", "y"))
}

func init() { moreCases = append(moreCases, sinkResizeCases) }

func sinkResizeCases() []passCase {
	linear, twice := onnx.Attrs{"mode": "linear"}, constant("s", []float32{1, 1, 2, 2}, 4)
	var r []passCase
	for _, c := range []passCase{
		{name: "images of three sizes", with: "fuse-conv", build: decoder(), want: "Conv Conv Relu Conv Resize Conv Resize Add FusedConv"},
		{name: "images of three sizes before an activation", build: decoder(), want: "Conv Conv Relu Conv Resize Conv Resize Add FusedConv Relu"},
		{name: "an image alone", build: enlargedConv("c o s", linear, twice), want: "Conv Conv Resize"},
		{name: "for sizes", build: enlargedConv("c o o s", nil, constant("s", []int64{2, 96, 10, 12}, 4)), want: "Conv Conv Resize"},
		{name: "for sizes of two axes", build: enlargedConv("c o o s", onnx.Attrs{"axes": []int64{3, 2}}, constant("s", []int64{10, 12}, 2)), want: "Conv Conv Resize"},
		{name: "an activation", with: "fuse-conv", build: append(enlargedConv("c o s", linear, twice), node("Relu", "y", "z")), outputs: "z", want: "Conv Resize FusedConv"},
		{name: "an image that is needed", build: enlargedConv("c o s", linear, twice), outputs: "y r", want: "Conv Resize Conv"},
		{name: "an image of few more pixels", build: enlargedConv("c o s", linear, constant("s", []float32{1, 1, 1, 1.7}, 4)), want: "Conv Resize Conv"},
		{name: "an aspect ratio that is kept", build: enlargedConv("c o o s", onnx.Attrs{"axes": []int64{2, 3}, "keep_aspect_ratio_policy": "not_larger"}, constant("s", []int64{10, 12}, 2)), want: "Conv Resize Conv"},
		{name: "a part of the image", build: enlargedConv("c f s", onnx.Attrs{"coordinate_transformation_mode": "tf_crop_and_resize"}, twice, constant("f", []float32{0, 0, 0, 0, 1, 1, 0.5, 0.5}, 8)), want: "Conv Resize Conv"},
		{name: "channels that are enlarged too", build: steps(input("x", 2, 48, 5, 6), ramp("v", 3, 96, 1, 1), constant("o", []float32{}, 0), constant("s", []float32{1, 2, 2, 2}, 4), node("Resize", "x o s", "r"), node("Conv", "r v", "y")), want: "Resize Conv"},
		{name: "few channels", build: steps(input("x", 2, 8, 5, 6), ramp("v", 8, 8, 1, 1), constant("o", []float32{}, 0), twice, node("Resize", "x o s", "r"), node("Conv", "r v", "y")), want: "Resize Conv"},
		{name: "a larger kernel", build: steps(input("x", 2, 96, 5, 6), ramp("v", 3, 96, 1, 3), constant("o", []float32{}, 0), twice, node("Resize", "x o s", "r"), node("Conv", "r v", "y")), want: "Resize Conv"},
		{name: "groups", build: steps(input("x", 2, 96, 5, 6), ramp("v", 4, 48, 1, 1), constant("o", []float32{}, 0), twice, node("Resize", "x o s", "r"), node("Conv", "r v", "y", onnx.Attrs{"group": int64(2)})), want: "Resize Conv"},
		{name: "an image of unknown size", build: steps(input("x", 2, 96, "h", 6), ramp("v", 3, 96, 1, 1), constant("o", []float32{}, 0), twice, node("Resize", "x o s", "r"), node("Conv", "r v", "y")), want: "Resize Conv"},
	} {
		c.pass = "sink-resize"
		r = append(r, c)
	}
	same := func(more ...build) []build {
		b := steps(input("x", "n", 3, 4, 4), constant("o", []float32{}, 0))
		return append(append(b, more...), node("Neg", "r", "y"))
	}
	for _, c := range []passCase{
		{name: "Resize by scales of one", build: same(constant("s", []float32{1, 1, 1, 1}, 4), node("Resize", "x o s", "r", linear)), want: "Neg"},
		{name: "Resize to the same sizes", build: same(constant("s", []int64{4, 4}, 2), node("Resize", "x o o s", "r", onnx.Attrs{"mode": "cubic", "axes": []int64{2, 3}})), want: "Neg"},
		{name: "Resize by a scale that keeps the sizes", build: same(constant("s", []float32{1, 1, 1, 1.1}, 4), node("Resize", "x o s", "r", linear)), want: "Resize Neg"},
	} {
		c.pass = "identity"
		r = append(r, c)
	}
	return r
}
