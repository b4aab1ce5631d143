package optimize

import (
	"slices"

	"github.com/onward-ml/onward/onnx"
)

func init() { moreCases = append(moreCases, fuseDynamicCases) }

// fuseDynamicCases has layers, and products whose scales or sums the pass must not take.
func fuseDynamicCases() []passCase {
	product := func(scales string, more ...build) []build {
		return slices.Concat(steps(input("x", 2, 8), constant("w", []int8{1, -2, 3, -4, 5, -6, 7, -8}, 8, 1),
			constant("s", []float32{0.5, 2}, 2), constant("r", []float32{0.5}, 1, 1, 1), constant("t", float32(2)),
			node("DynamicQuantizeLinear", "x", "q qs qz"), node("MatMulInteger", "q w qz", "i"),
			node("Cast", "i", "f", onnx.Attrs{"to": onnx.Float}), node("Mul", scales, "k")), more)
	}
	kept := "DynamicQuantizeLinear MatMulInteger Cast Mul Mul"
	return []passCase{
		{pass: "fuse-dynamic", name: "a feed-forward network", build: dynamicLayers(),
			want: "DynamicQuantizeLinear MatMulIntegerToFloat Gelu DynamicQuantizeLinear MatMulIntegerToFloat Add"},
		{pass: "fuse-dynamic", name: "a scale first", build: product("t qs", node("Mul", "k f", "y")),
			want: "DynamicQuantizeLinear MatMulIntegerToFloat"},
		{pass: "fuse-dynamic", name: "more scales than columns", build: product("qs s", node("Mul", "f k", "y")),
			want: kept},
		{pass: "fuse-dynamic", name: "a scale of a higher rank", build: product("qs r", node("Mul", "f k", "y")),
			want: kept},
		{pass: "fuse-dynamic", name: "a scale per row", build: append(product("rows t", node("Mul", "f k", "y")),
			input("rows", 2, 1)), want: kept},
		{pass: "fuse-dynamic", name: "sums that are an output", outputs: "y f", build: product("qs t",
			node("Mul", "f k", "y")), want: kept},
		{pass: "fuse-dynamic", name: "a bias that changes the shape", build: product("qs t", node("Mul", "f k", "p"),
			node("Add", "p s", "y")), want: "DynamicQuantizeLinear MatMulIntegerToFloat Add"},
	}
}

// dynamicLayers returns two layers of a dynamically quantized feed-forward network, with a
// residual.
func dynamicLayers() []build {
	layer := func(x, w, y, s string) []build {
		return steps(node("DynamicQuantizeLinear", x, "q"+w+" qs"+w+" qz"+w),
			node("MatMulInteger", "q"+w+" "+w+" qz"+w+" z"+w, "i"+w),
			node("Cast", "i"+w, "f"+w, onnx.Attrs{"to": onnx.Float}), node("Mul", "qs"+w+" "+s, "t"+w),
			node("Mul", "f"+w+" t"+w, y))
	}
	bytes := make([]int8, 8*5)
	for i := range bytes {
		bytes[i] = int8(i*37%255 - 127)
	}
	return slices.Concat(steps(input("x", 2, 3, 8), constant("u", bytes, 8, 5), constant("v", bytes, 5, 8),
		constant("zu", int8(-3)), constant("zv", []int8{0, 1, 2, -3, 4, 5, 6, 7}, 8), constant("su", float32(0.02)),
		constant("sv", []float32{1, 2, 3, 4, 5, 6, 7, 8}, 8), constant("b", []float32{1, -2, 3, 4, 5}, 5)),
		layer("x", "u", "p", "su"), steps(node("Add", "b p", "a"), node("Gelu", "a", "g")), layer("g", "v", "r", "sv"),
		steps(node("Add", "r x", "y")))
}
