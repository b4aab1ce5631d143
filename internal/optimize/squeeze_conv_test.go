package optimize

import "github.com/onward-ml/onward/onnx"

// overOneAxis writes an operator on x between an Unsqueeze and a Squeeze.
func overOneAxis(inserted, removed int64, op, in string, attrs onnx.Attrs) []build {
	return steps(input("x", "n", 4, 30), ramp("w", 6, 4, 1, 3), ramp("h", 6, 4, 3, 1), ramp("k", 6),
		constant("a", []int64{inserted}, 1), constant("b", []int64{removed}, 1), node("Unsqueeze", "x a", "u"),
		node(op, in, "c", attrs), node("Squeeze", "c b", "y"))
}

func init() { moreCases = append(moreCases, squeezeConvCases) }

func squeezeConvCases() []passCase {
	same := onnx.Attrs{"auto_pad": "SAME_UPPER", "kernel_shape": []int64{1, 3}, "dilations": []int64{1, 2}}
	kept := "Unsqueeze Conv Squeeze"
	var r []passCase
	for _, c := range []passCase{
		{name: "of one axis", build: overOneAxis(2, -2, "Conv", "u w k", same), want: "Conv"},
		{name: "of the other axis", build: overOneAxis(3, 3, "Conv", "u h", onnx.Attrs{"pads": []int64{1, 0, 2, 0}, "strides": []int64{2, 1}}), want: "Conv"},
		{name: "with a bias afterwards", with: "fold-into-conv", build: append(overOneAxis(2, 2, "Conv", "u w", nil), ramp("o", 1, 6, 1), node("Add", "y o", "z")), outputs: "z", want: "Conv"},
		{name: "of a transposed image", build: steps(input("x", "n", 1, 30, 4), ramp("w", 6, 4, 1, 3), constant("b", []int64{2}, 1), node("Transpose", "x", "u", onnx.Attrs{"perm": []int64{0, 3, 1, 2}}), node("Conv", "u w", "c"), node("Squeeze", "c b", "y")), want: "Transpose Squeeze Conv"},
		{name: "with zeros around the axis", build: overOneAxis(2, 2, "Conv", "u h", onnx.Attrs{"pads": []int64{1, 0, 1, 0}}), want: kept},
		{name: "with steps along the axis", build: overOneAxis(2, 2, "Conv", "u w", onnx.Attrs{"strides": []int64{2, 1}}), want: kept},
		{name: "of a result that is needed", build: overOneAxis(2, 2, "Conv", "u w", nil), outputs: "y c", want: kept},
	} {
		c.pass = "squeeze-conv"
		r = append(r, c)
	}
	return r
}
