package optimize

import "github.com/onward-ml/onward/onnx"

// sliced writes a slice of v along an axis.
func sliced(v, out string, axis, from, to int64) build {
	return func(b *onnx.ModelBuilder) {
		for _, s := range steps(constant(out+"0", []int64{from}, 1), constant(out+"1", []int64{to}, 1),
			constant(out+"2", []int64{axis}, 1), node("Slice", v+" "+out+"0 "+out+"1 "+out+"2", out)) {
			s(b)
		}
	}
}

// spectrum writes the power of two halves of the channels of a convolution of x, n×1×l.
func spectrum(x build, halves ...build) []build {
	b := steps(x, ramp("w", 6, 1, 70), ramp("k", 6), node("Conv", "x w k", "c", onnx.Attrs{"strides": []int64{20}}))
	return append(append(b, halves...), node("Mul", "p p", "i"), node("Mul", "q q", "j"), node("Add", "i j", "y"))
}

func init() { moreCases = append(moreCases, sliceConvCases) }

func sliceConvCases() []passCase {
	const all = int64(1) << 40
	x, split := input("x", "n", 1, 150), "Conv Conv Mul Mul Add"
	halves := steps(sliced("c", "p", 1, 0, 3), sliced("c", "q", 1, 3, all))
	causal := func(attrs onnx.Attrs, axis, from, to int64) []build {
		return steps(input("x", "n", 4, 30), ramp("w", 4, 4, 3), node("Conv", "x w", "c", attrs),
			sliced("c", "y", axis, from, to))
	}
	pads := onnx.Attrs{"pads": []int64{2, 2}}
	var r []passCase
	for _, c := range []passCase{
		{name: "two halves", build: spectrum(x, halves...), want: split},
		{name: "an unknown length", build: spectrum(input("x", "n", 1, "l"), halves...), want: split},
		{name: "halves of the later positions", build: spectrum(x, sliced("c", "d", 1, 0, 3), sliced("d", "p", 2, 1, all), sliced("c", "e", -2, -3, all), sliced("e", "q", 2, 1, 5)), want: "Slice " + split},
		{name: "halves that overlap", build: spectrum(x, sliced("c", "p", 1, 0, 4), sliced("c", "q", 1, 2, 6)), want: "Conv Slice Slice Mul Mul Add"},
		{name: "a convolution that is needed", build: spectrum(x, halves...), outputs: "y c", want: "Conv Slice Slice Mul Mul Add"},
		{name: "few products", build: causal(nil, 1, 0, 2), want: "Conv Slice"},
		{name: "the start of a causal convolution", build: causal(pads, 2, 0, -2), want: "Conv"},
		{name: "more than the padding", build: causal(pads, 2, 0, -3), want: "Conv Slice"},
		{name: "without the padding before", build: causal(pads, 2, 2, all), want: "Conv"},
		{name: "without more than the padding before", build: causal(pads, 2, 3, 30), want: "Slice Conv"},
		{name: "with strides", build: causal(onnx.Attrs{"pads": []int64{3, 4}, "strides": []int64{2}}, 2, 1, -2), want: "Conv"},
		{name: "images", build: causal(nil, 0, 0, 1), want: "Conv Slice"},
	} {
		c.pass = "slice-conv"
		r = append(r, c)
	}
	return r
}
