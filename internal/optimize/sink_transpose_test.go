package optimize

import "github.com/onward-ml/onward/onnx"

func init() { moreCases = append(moreCases, sinkTransposeCases) }

// lastChannels writes nodes that compute h from t, between two Transposes of x to y.
func lastChannels(x build, nodes ...build) []build {
	b := steps(x, node("Transpose", "x", "t", onnx.Attrs{"perm": []int64{0, 2, 3, 1}}))
	return append(append(b, nodes...), node("Transpose", "h", "y", onnx.Attrs{"perm": []int64{0, 3, 1, 2}}))
}

// excited scales channels by a function of their means, after a function and padding.
func excited(x build) []build {
	return lastChannels(x, constant("k", []float32{3, -1, 0.25, 2}, 4), constant("a", []int64{1, -2}, 2),
		constant("p", []int64{0, 1, 0, 0, 0, 0, 2, 1}, 8), node("Relu", "t", "r"), node("Mul", "k r", "m"),
		node("Pad", "m p", "d"), node("ReduceMean", "d a", "s"), node("Tanh", "s", "e"), node("Mul", "d e", "h"))
}

func sinkTransposeCases() []passCase {
	image := input("x", "n", 4, 6, 5)
	var r []passCase
	for _, c := range []passCase{
		{name: "means of padded images", build: excited(image), want: "Relu Mul Pad ReduceMean Tanh Mul"},
		{name: "nothing between", build: lastChannels(image, node("Relu", "t", "h")), want: "Relu"},
		{name: "a value that is needed", build: lastChannels(image, node("Relu", "t", "h")), outputs: "y h", want: "Relu Transpose"},
		{name: "another order afterwards", build: steps(image, node("Transpose", "x", "t", onnx.Attrs{"perm": []int64{0, 2, 3, 1}}), node("Relu", "t", "h"), node("Transpose", "h", "y", onnx.Attrs{"perm": []int64{0, 2, 1, 3}})), want: "Relu Transpose"},
		{name: "an input as an output", build: lastChannels(image, node("Identity", "t", "h")), outputs: "y", want: "Identity"},
		{name: "a sum of two images", build: lastChannels(image, node("Relu", "x", "b"), node("Transpose", "b", "u", onnx.Attrs{"perm": []int64{0, 2, 3, 1}}), node("Add", "t u", "h")), want: "Relu Add"},
		{name: "a sum with another permutation", build: lastChannels(image, node("Transpose", "x", "u", onnx.Attrs{"perm": []int64{0, 3, 2, 1}}), node("Transpose", "u", "v", onnx.Attrs{"perm": []int64{0, 2, 1, 3}}), node("Add", "t v", "h")), want: "Transpose Transpose Transpose Add Transpose"},
		{name: "constants of two dimensions", build: lastChannels(image, ramp("k", 5, 4), node("Add", "t k", "h")), want: "Transpose Add Transpose"},
		{name: "means without their dimensions", build: lastChannels(image, constant("a", []int64{1}, 1), node("ReduceMean", "t a", "m", onnx.Attrs{"keepdims": int64(0)}), node("Add", "t m", "h")), want: "Transpose ReduceMean Add Transpose"},
		{name: "a product of rows", build: lastChannels(image, ramp("k", 4, 4), node("MatMul", "t k", "h")), want: "Transpose MatMul Transpose"},
		{name: "an attribute that will be saved", opset: 17, build: lastChannels(image, node("ReduceMean", "t", "s", onnx.Attrs{"axes": []int64{1, 2}}), node("Mul", "t s", "h")), want: "Transpose ReduceMean Mul Transpose"},
		{name: "heads", build: steps(image, node("Transpose", "x", "t", onnx.Attrs{"perm": []int64{0, 2, 1, 3}}), node("Relu", "t", "h"), node("Transpose", "h", "y", onnx.Attrs{"perm": []int64{0, 2, 1, 3}})), want: "Transpose Relu Transpose"},
	} {
		c.pass = "sink-transpose"
		r = append(r, c)
	}
	return r
}
