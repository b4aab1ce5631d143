package optimize

import "github.com/onward-ml/onward/onnx"

// embedding writes tokens of the patches of x, n×3×h×w, by a kernel of 8×9.
func embedding(x build, attrs onnx.Attrs) []build {
	return steps(x, ramp("w", 8, 3, 8, 9), ramp("b", 8), constant("r", []int64{0, 8, -1}, 3),
		node("Conv", "x w b", "c", attrs), node("Reshape", "c r", "f"),
		node("Transpose", "f", "y", onnx.Attrs{"perm": []int64{0, 2, 1}}))
}

func init() { moreCases = append(moreCases, multiplyPatchesCases) }

func multiplyPatchesCases() []passCase {
	const done, kept = "Reshape Transpose Reshape Linear", "Conv Reshape Transpose"
	stride := onnx.Attrs{"strides": []int64{8, 9}}
	image := input("x", "n", 3, 16, 27)
	var r []passCase
	for _, c := range []passCase{
		{name: "patches of 8×9", build: embedding(image, stride), want: done},
		{name: "an image beyond the last patch", build: embedding(input("x", "n", 3, 17, 27), stride), want: kept},
		{name: "an unknown size", build: embedding(input("x", "n", 3, 16, "w"), stride), want: kept},
		{name: "overlapping windows", build: embedding(image, onnx.Attrs{"strides": []int64{1, 9}}), want: kept},
		{name: "padding", build: embedding(image, onnx.Attrs{"strides": []int64{8, 9}, "pads": []int64{0, 0, 8, 0}}), want: kept},
		{name: "dilated windows", build: embedding(input("x", "n", 3, 32, 27), onnx.Attrs{"strides": []int64{8, 9}, "dilations": []int64{2, 1}}), want: kept},
		{name: "small patches", build: steps(input("x", "n", 3, 8, 8), ramp("w", 8, 3, 4, 4), constant("r", []int64{0, 8, -1}, 3), node("Conv", "x w", "c", onnx.Attrs{"strides": []int64{4, 4}}), node("Reshape", "c r", "f"), node("Transpose", "f", "y", onnx.Attrs{"perm": []int64{0, 2, 1}})), want: kept},
		{name: "a shape of the convolution's", build: steps(image, ramp("w", 8, 3, 8, 9), constant("i", []int64{0, 1}, 2), constant("l", []int64{-1}, 1), node("Conv", "x w", "c", stride), node("Shape", "c", "s"), node("Gather", "s i", "g"), node("Concat", "g l", "r", onnx.Attrs{"axis": int64(0)}), node("Reshape", "c r", "f"), node("Transpose", "f", "y", onnx.Attrs{"perm": []int64{0, 2, 1}})), want: done},
		{name: "a convolution that is needed", build: embedding(image, stride), outputs: "y c", want: kept},
	} {
		c.pass = "multiply-patches"
		r = append(r, c)
	}
	return r
}
