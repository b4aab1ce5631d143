package optimize

import (
	"slices"

	"github.com/onward-ml/onward/onnx"
)

// branches of an image of 2×4×5×6
var (
	branchImage = input("x", 2, 4, 5, 6)
	branchNorm  = steps(constant("s", []float32{2, -3, 0.5, 4}, 4), constant("b", []float32{1, -2, 3, 5}, 4),
		constant("m", []float32{0.5, 1, -1, 2}, 4), constant("v", []float32{1, 2, 3, 4}, 4))
	branchLarge = steps(ramp("w3", 4, 4, 3, 3), constant("b3", []float32{1, 2, 3, 4}, 4),
		node("Conv", "x w3 b3", "c", onnx.Attrs{"pads": []int64{1, 1, 1, 1}}))
	branchSmall  = steps(ramp("w1", 4, 4, 1, 1), node("Conv", "x w1", "d"))
	branchOfEach = append(slices.Concat(branchNorm, branchLarge, branchSmall),
		node("BatchNormalization", "x s b m v", "n"))
)

// repVGG writes a sum of a 3×3 and a 1×1 convolution and a BatchNormalization.
func repVGG() []build {
	return append(append([]build{branchImage}, branchOfEach...), node("Add", "d c", "e"), node("Add", "n e", "f"),
		node("Relu", "f", "y"))
}

// mixer writes x + k·(depthwise convolutions of x − BatchNormalization(x)), as FastViT does.
func mixer() []build {
	depthwise := onnx.Attrs{"group": int64(4), "pads": []int64{1, 2, 1, 0}}
	return append(append([]build{branchImage}, branchNorm...), ramp("w3", 4, 1, 3, 3), ramp("w1", 4, 1, 1, 1),
		constant("zero", float32(0)), constant("k", []float32{3, -1, 0.25, 2}, 4, 1, 1),
		node("Conv", "x w3", "c", depthwise), node("Add", "zero c", "c0"),
		node("Conv", "x w1", "d", onnx.Attrs{"group": int64(4)}), node("Add", "c0 d", "e"),
		node("BatchNormalization", "x s b m v", "n"), node("Sub", "e n", "f"), node("Mul", "f k", "g"),
		node("Add", "x g", "y"))
}

// offMiddle writes a 1×1 convolution and one whose last tap along the first axis
// reads the same pixels.
func offMiddle() []build {
	return append(append([]build{branchImage}, branchSmall...), ramp("w3", 4, 4, 3, 3),
		node("Conv", "x w3", "c", onnx.Attrs{"pads": []int64{2, 1, 0, 1}}), node("Sub", "d c", "y"))
}

func init() { moreCases = append(moreCases, mergeConvsCases) }

func mergeConvsCases() []passCase {
	plain := append([]build{branchImage}, branchLarge...)
	var r []passCase
	for _, c := range []passCase{
		{name: "three branches", build: repVGG(), want: "Conv Relu"},
		{name: "the smaller kernel first", build: append(append([]build{branchImage}, slices.Concat(branchSmall, branchLarge)...), node("Add", "d c", "y")), want: "Conv"},
		{name: "a difference", build: append(append([]build{branchImage}, slices.Concat(branchSmall, branchLarge)...), node("Sub", "d c", "y")), want: "Conv"},
		{name: "a kernel off its middle", build: offMiddle(), want: "Conv"},
		{name: "dilated taps", build: append(append([]build{branchImage}, branchSmall...), ramp("w3", 4, 4, 3, 3), node("Conv", "x w3", "c", onnx.Attrs{"pads": []int64{2, 2, 2, 2}, "dilations": []int64{2, 2}}), node("Add", "c d", "y")), want: "Conv Conv Add"},
		{name: "equal dilated kernels", build: steps(branchImage, ramp("w", 4, 4, 2, 2), ramp("v", 4, 4, 2, 2), node("Conv", "x w", "c", onnx.Attrs{"dilations": []int64{2, 1}}), node("Conv", "x v", "d", onnx.Attrs{"dilations": []int64{2, 1}}), node("Add", "c d", "y")), want: "Conv"},
		{name: "another image", build: append(slices.Clone(plain), input("z", 2, 4, 5, 6), ramp("w1", 4, 4, 1, 1), node("Conv", "z w1", "d"), node("Add", "c d", "y")), want: "Conv Conv Add"},
		{name: "another number of groups", build: append(slices.Clone(plain), ramp("w1", 4, 2, 1, 1), node("Conv", "x w1", "d", onnx.Attrs{"group": int64(2)}), node("Add", "c d", "y")), want: "Conv Conv Add"},
		{name: "one channel for all", build: append(slices.Clone(plain), ramp("w1", 1, 4, 1, 1), node("Conv", "x w1", "d"), node("Add", "c d", "y")), want: "Conv Conv Add"},
		{name: "another stride", build: steps(input("x", 2, 4, 1, 1), ramp("w", 4, 4, 1, 1), ramp("v", 4, 4, 1, 1), node("Conv", "x w", "c", onnx.Attrs{"strides": []int64{2, 2}}), node("Conv", "x v", "d"), node("Add", "c d", "y")), want: "Conv Conv Add"},
		{name: "weights that are an input", build: append(append([]build{branchImage}, branchSmall...), input("w", 4, 4, 1, 1), node("Conv", "x w", "c"), node("Add", "c d", "y")), want: "Conv Conv Add"},
		{name: "the image itself", build: append(slices.Clone(plain), node("Add", "c x", "y")), want: "Conv Add"},
		{name: "a branch that is needed", build: append(append(slices.Clone(plain), branchSmall...), node("Add", "c d", "y")), outputs: "y d", want: "Conv Conv Add"},
	} {
		c.pass, c.with = "merge-convs", "affine"
		r = append(r, c)
	}
	return r
}
