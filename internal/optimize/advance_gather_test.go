package optimize

import "github.com/onward-ml/onward/onnx"

// encoderLayer writes an encoder layer over x, 2×5×8, with two heads and a mask, and selects two
// tokens as y: 2×1×2×8.
func encoderLayer() []build {
	heads := onnx.Attrs{"perm": []int64{0, 2, 1, 3}}
	return steps(input("x", 2, 5, 8), ramp("g", 8), ramp("w", 8, 8), ramp("w1", 8, 12), ramp("w2", 12, 8),
		ramp("b", 12), ramp("mask", 5, 5), constant("k", float32(0.05)),
		constant("split", []int64{0, 0, 2, 4}, 4), constant("join", []int64{2, 5, 8}, 3),
		constant("i", []int64{3, -5}, 1, 2),
		node("LayerNormalization", "x g", "n"), node("Mul", "n k", "h"),
		node("MatMul", "h w", "q1"), node("Reshape", "q1 split", "q2"), node("Transpose", "q2", "q", heads),
		node("MatMul", "x w", "k1"), node("Reshape", "k1 split", "k2"),
		node("Transpose", "k2", "keys", onnx.Attrs{"perm": []int64{0, 2, 3, 1}}),
		node("Neg", "x", "z"), node("MatMul", "z w", "v1"), node("Reshape", "v1 split", "v2"),
		node("Transpose", "v2", "v", heads),
		node("MatMul", "q keys", "s"), node("Mul", "s k", "t"), node("Add", "t mask", "m"), node("Softmax", "m", "p"),
		node("MatMul", "p v", "a1"),
		node("Transpose", "a1", "a2", heads), node("Reshape", "a2 join", "a"),
		node("MatMul", "a w", "o1"), node("Mul", "o1 k", "o2"), node("Add", "o2 x", "o"),
		node("LayerNormalization", "o g", "l"),
		node("MatMul", "l w1", "f1"), node("Add", "f1 b", "f2"), node("Gelu", "f2", "f3"),
		node("MatMul", "f3 w2", "f4"), node("Add", "f4 o", "f"),
		node("Gather", "f i", "y", onnx.Attrs{"axis": int64(1)}))
}

// encoderLayerAdvanced lists its operators when only keys and values are computed for all tokens.
const encoderLayerAdvanced = "Gather Gather LayerNormalization Mul Linear Reshape Linear Reshape Neg Linear Reshape " +
	"Attention Reshape Linear Mul Add LayerNormalization Linear Linear Gather"

func init() { moreCases = append(moreCases, advanceGatherCases) }

func advanceGatherCases() []passCase {
	row := func(axis int64) build { return node("Gather", "p i", "y", onnx.Attrs{"axis": axis}) }
	x, w, product := input("x", 2, 5, 8), ramp("w", 8, 8), node("MatMul", "x w", "p")
	one, two, three := constant("i", int64(1)), constant("i", []int64{0, 4}, 2), constant("i", []int64{0, 1, 2}, 3)
	var r []passCase
	for _, c := range []passCase{
		{name: "a row of a product", build: steps(x, w, product, one, row(1)), want: "Gather Linear Gather"},
		{name: "two rows, counted from the last axis", build: steps(x, w, product, two, row(-2)), want: "Gather Linear Gather"},
		{name: "a row of an unknown number", build: steps(input("x", 2, "n", 8), w, product, one, row(1)), want: "Gather Linear Gather"},
		{name: "two rows of an unknown number", build: steps(input("x", 2, "n", 8), w, product, two, row(1)), want: "Linear Gather"},
		{name: "most rows", build: steps(x, w, product, three, row(1)), want: "Linear Gather"},
		{name: "a column", build: steps(x, w, product, one, row(2)), want: "Linear Gather"},
		{name: "a row that is an input", build: steps(x, w, product, func(b *onnx.ModelBuilder) { b.Input("i", onnx.Int64) }, row(1)), want: "Linear Gather"},
		{name: "a result that is needed", build: steps(x, w, product, one, row(1)), outputs: "y p", want: "Linear Gather"},
		{name: "two readers", build: steps(x, w, product, one, node("Gather", "p i", "q", onnx.Attrs{"axis": int64(1)}), node("ReduceMax", "p", "m"), node("Add", "q m", "y")), want: "Linear Gather ReduceMax Add"},
		{name: "a function without a product", build: steps(x, node("Tanh", "x", "p"), one, row(1)), want: "Tanh Gather"},
		{name: "a sum with a row for all", build: steps(x, w, node("MatMul", "x w", "m"), input("z", 1, 8), node("Add", "m z", "p"), one, row(1)), want: "Gather Linear Add Gather"},
		{name: "a sum with rows of the same number", build: steps(x, w, node("MatMul", "x w", "m"), ramp("z", 5, 8), node("Add", "m z", "p"), one, row(1)), want: "Gather Gather Linear Add Gather"},
		{name: "a sum with rows of an unknown number", build: steps(x, w, node("MatMul", "x w", "m"), input("z", "n", 8), node("Add", "m z", "p"), one, row(1)), want: "Linear Add Gather"},
		{name: "rows in another order", build: steps(x, w, node("MatMul", "x w", "m"), node("Transpose", "m", "p", onnx.Attrs{"perm": []int64{1, 0, 2}}), one, row(0)), want: "Gather Linear Transpose Gather"},
		{name: "rows of two axes in one", build: steps(x, w, node("MatMul", "x w", "m"), constant("s", []int64{10, 8}, 2), node("Reshape", "m s", "p"), one, row(0)), want: "Linear Reshape Gather"},
		{name: "a normalization of rows", build: steps(x, w, ramp("g", 8), node("MatMul", "x w", "m"), node("LayerNormalization", "m g", "p"), one, row(1)), want: "Gather Linear LayerNormalization Gather"},
		{name: "a normalization of matrices", build: steps(x, w, ramp("g", 5, 8), node("MatMul", "x w", "m"), node("LayerNormalization", "m g", "p", onnx.Attrs{"axis": int64(1)}), one, row(1)), want: "Linear LayerNormalization Gather"},
		{name: "statistics that are needed", opset: 17, build: steps(x, w, ramp("g", 8), node("MatMul", "x w", "m"), node("LayerNormalization", "m g", "p q"), one, row(1)), outputs: "y q", want: "Linear LayerNormalization Gather"},
	} {
		c.pass, c.with = "advance-gather", "fuse-linear"
		r = append(r, c)
	}
	return r
}
