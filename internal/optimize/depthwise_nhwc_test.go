package optimize

import (
	"maps"

	"github.com/onward-ml/onward/onnx"
)

// nhwc is a depthwise convolution of images or tokens of some channels between Transposes. before
// and after are the nodes from x to i, and from c to t.
func nhwc(channels int64, x build, before, after []build, attrs onnx.Attrs, more ...build) []build {
	conv := onnx.Attrs{"group": channels, "pads": []int64{1, 1, 1, 1}}
	if attrs["auto_pad"] != nil {
		delete(conv, "pads")
	}
	maps.Copy(conv, attrs)
	r := append(steps(x, ramp("w", channels, 1, 3, 3), ramp("b", channels)), before...)
	r = append(append(r, node("Conv", "i w b", "c", conv)), after...)
	return append(r, more...)
}

func init() { moreCases = append(moreCases, depthwiseNHWCCases) }

var (
	tokensIn = steps(constant("s", []int64{0, 20, 4, -1}, 4), constant("r", []int64{0, 20, -1}, 3),
		node("Transpose", "x", "p", onnx.Attrs{"perm": []int64{0, 2, 1}}), node("Reshape", "p s", "i"))
	tokensOut = steps(node("Reshape", "c r", "f"), node("Transpose", "f", "t", onnx.Attrs{"perm": []int64{0, 2, 1}}))
	imagesIn  = steps(node("Transpose", "x", "i", onnx.Attrs{"perm": []int64{0, 3, 1, 2}}))
	imagesOut = steps(node("Transpose", "c", "t", onnx.Attrs{"perm": []int64{0, 2, 3, 1}}))
)

func depthwiseNHWCCases() []passCase {
	images, tokens := input("x", "n", "h", "v", 20), input("x", "n", "l", 20)
	relu, gelu := node("Relu", "t", "y"), node("Gelu", "t", "y")
	var r []passCase
	for _, c := range []passCase{
		{name: "images", build: nhwc(20, images, imagesIn, imagesOut, nil, gelu), want: "DepthwiseNHWC"},
		{name: "tokens", build: nhwc(20, tokens, tokensIn, tokensOut, nil, gelu), want: "DepthwiseNHWC"},
		{name: "equal padding", build: nhwc(20, images, imagesIn, imagesOut, onnx.Attrs{"auto_pad": "SAME_LOWER"}, gelu), want: "DepthwiseNHWC"},
		{name: "a wide kernel", build: nhwc(20, images, imagesIn, imagesOut, onnx.Attrs{"dilations": []int64{1, 3}, "pads": []int64{0, 4, 2, 2}}, relu), want: "DepthwiseNHWC"},
		{name: "two functions", build: nhwc(20, images, imagesIn, imagesOut, nil, node("Gelu", "t", "u"), node("Tanh", "u", "y")), want: "DepthwiseNHWC Tanh"},
		{name: "a result that is needed", build: nhwc(20, images, imagesIn, imagesOut, nil, gelu), outputs: "y t", want: "DepthwiseNHWC Gelu"},
		{name: "a convolution that is needed", build: nhwc(20, images, imagesIn, imagesOut, nil, relu), outputs: "y c", want: "Transpose Conv Transpose Relu"},
		{name: "an input that is needed", build: nhwc(20, images, imagesIn, imagesOut, nil, gelu), outputs: "y i", want: "Transpose DepthwiseNHWC"},
		{name: "a sum of two shapes", build: nhwc(20, images, imagesIn, imagesOut, nil, ramp("k", 1, 4, 1, 1, 1), node("Add", "t k", "y")), want: "DepthwiseNHWC Add"},
		{name: "a stride", build: nhwc(20, images, imagesIn, imagesOut, onnx.Attrs{"strides": []int64{1, 2}}, relu), want: "Transpose Conv Transpose Relu"},
		{name: "smaller results", build: nhwc(20, images, imagesIn, imagesOut, onnx.Attrs{"pads": []int64{1, 0, 1, 1}}, relu), want: "Transpose Conv Transpose Relu"},
		{name: "wide padding", build: nhwc(20, images, imagesIn, imagesOut, onnx.Attrs{"dilations": []int64{33, 1}, "pads": []int64{33, 1, 33, 1}}, relu), want: "Transpose Conv Transpose Relu"},
		{name: "another order", build: nhwc(20, images, imagesIn, steps(node("Transpose", "c", "t", onnx.Attrs{"perm": []int64{0, 3, 2, 1}})), nil, relu), want: "Transpose Conv Transpose Relu"},
		{name: "few channels", build: nhwc(8, input("x", "n", "h", "v", 8), imagesIn, imagesOut, nil, relu), want: "Transpose Conv Transpose Relu"},
		{name: "tokens of another batch", build: nhwc(20, input("x", "n", 12, 20), steps(constant("s", []int64{-1, 20, 2, 3}, 4), constant("r", []int64{-1, 20, 12}, 3), node("Transpose", "x", "p", onnx.Attrs{"perm": []int64{0, 2, 1}}), node("Reshape", "p s", "i")), tokensOut, nil, relu), want: "Transpose Reshape Conv Reshape Transpose Relu"},
	} {
		c.pass = "depthwise-nhwc"
		r = append(r, c)
	}
	return r
}
