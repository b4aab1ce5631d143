package optimize

import (
	"context"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/onnx"
)

// TestFindBatch checks which graphs can be divided along the first axis of x.
func TestFindBatch(t *testing.T) {
	ints := func(name string, v ...int64) build { return constant(name, v, int64(len(v))) }
	shapes := steps(node("Shape", "x", "s"), constant("zero", []int64{0}, 1), node("Gather", "s zero", "n"))
	for _, c := range []struct {
		name  string
		build []build
		dims  []any // of x
		want  bool
	}{
		{name: "rows", build: steps(ramp("w", 8, 3), node("MatMul", "x w", "y")), want: true},
		{name: "columns", build: steps(ramp("w", 3, 4), node("MatMul", "w x", "y")), dims: []any{4, 8}},
		{name: "both matrices", build: steps(node("Transpose", "x", "t", onnx.Attrs{"perm": []int64{0, 2, 1}}),
			node("MatMul", "x t", "y")), dims: []any{"n", 4, 8}, want: true},
		{name: "rows by rows", build: steps(node("Transpose", "x", "t", onnx.Attrs{"perm": []int64{1, 0}}),
			node("MatMul", "x t", "y"))},
		{name: "known size", build: steps(node("Relu", "x", "y")), dims: []any{4, 8}, want: true},
		{name: "one", build: steps(node("Relu", "x", "y")), dims: []any{1, 8}},
		{name: "scalar", build: steps(node("ReduceSum", "x", "y"))},
		{name: "sum of the batch", build: steps(ints("a", 0), node("ReduceSum", "x a", "y"))},
		{name: "sum of columns", build: steps(ints("a", -1), node("ReduceSum", "x a", "y", onnx.Attrs{"keepdims": int64(0)})),
			want: true},
		{name: "softmax of the batch", build: steps(node("Softmax", "x", "y", onnx.Attrs{"axis": int64(0)}))},
		{name: "softmax", build: steps(node("Softmax", "x", "y")), want: true},
		{name: "as long as the batch", build: steps(ramp("w", 8, 8), node("Add", "x w", "y")), dims: []any{8, 8}},
		{name: "row", build: steps(ramp("w", 1, 8), node("Add", "x w", "y")), want: true},
		{name: "first of the batch", build: steps(ints("a", 0), node("Gather", "x a", "y"))},
		{name: "last of the batch", build: steps(ints("a", 0), ints("b", -1), ints("m", -1<<62), node("Slice", "x b m a b", "y"))},
		{name: "reversed", build: steps(ints("a", 1), ints("b", -1), ints("m", -1<<62), node("Slice", "x b m a b", "y")), want: true},
		{name: "transposed", build: steps(node("Transpose", "x", "y"))},
		{name: "transposed twice", build: steps(node("Transpose", "x", "t"), node("Transpose", "t", "y")), want: true},
		{name: "heads", build: steps(ints("s", 0, 2, 4), node("Reshape", "x s", "h"),
			node("Transpose", "h", "y", onnx.Attrs{"perm": []int64{0, 2, 1}})), want: true},
		{name: "merged with the batch", build: steps(ints("s", -1, 4), node("Reshape", "x s", "y")), want: true},
		{name: "merged behind another axis", build: steps(ints("s", 4, -1), node("Reshape", "x s", "y")), dims: []any{2, 4}},
		{name: "sequence first", build: steps(node("Transpose", "x", "t", onnx.Attrs{"perm": []int64{1, 0, 2}}),
			ints("s", 5, -1, 4), node("Reshape", "t s", "h"), ints("back", 5, -1, 8), node("Reshape", "h back", "b"),
			node("Transpose", "b", "y", onnx.Attrs{"perm": []int64{1, 0, 2}})), dims: []any{"n", 5, 8}, want: true},
		{name: "divided by the batch", build: append(slices.Clone(shapes), node("Cast", "n", "f", onnx.Attrs{"to": int64(1)}),
			node("Div", "x f", "y"))},
		{name: "size of the batch", build: append(slices.Clone(shapes), node("Identity", "n", "size"), node("Relu", "x", "y"),
			func(b *onnx.ModelBuilder) { b.Output("size", onnx.Int64, 1) })},
		{name: "shape of the batch", build: append(slices.Clone(shapes), ints("rest", 2, 4),
			node("Concat", "n rest", "to", onnx.Attrs{"axis": int64(0)}), node("Reshape", "x to", "y")), want: true},
		{name: "expanded token", build: append(slices.Clone(shapes), ints("rest", 8), ramp("token", 1, 8),
			node("Concat", "n rest", "to", onnx.Attrs{"axis": int64(0)}), node("Expand", "token to", "e"),
			node("Concat", "e x", "y", onnx.Attrs{"axis": int64(1)})), want: true},
		{name: "concatenated batches", build: steps(node("Concat", "x x", "y", onnx.Attrs{"axis": int64(0)}))},
		{name: "convolution", build: steps(ramp("w", 4, 3, 3, 3), node("Conv", "x w", "y")), dims: []any{"n", 3, "h", "w"},
			want: true},
		{name: "volume without a batch", build: steps(ramp("w", 4, 8, 1), node("Unsqueeze", "x a", "u"), ints("a", 0),
			node("Conv", "u w", "y")), dims: []any{8, 8}},
		{name: "padded batch", build: steps(ints("p", 1, 0, 0, 0), node("Pad", "x p", "y"))},
		{name: "padded rows", build: steps(ints("p", 0, 1, 0, 1), node("Pad", "x p", "y")), want: true},
		{name: "normalized batch", build: steps(ramp("w", 4, 8), node("LayerNormalization", "x w", "y",
			onnx.Attrs{"axis": int64(0)})), dims: []any{4, 8}},
		{name: "normalized rows", build: steps(ramp("w", 8), node("LayerNormalization", "x w", "y")), want: true},
		{name: "quantized dynamically", build: steps(node("DynamicQuantizeLinear", "x", "y s z"))},
		{name: "quantized to half bytes", build: steps(constant("s", []float32{0.5}), node("QuantizeLinear", "x s", "y",
			onnx.Attrs{"output_dtype": int64(onnx.Int4)}))},
		{name: "random", build: steps(node("RandomNormalLike", "x", "r"), node("Add", "x r", "y"))},
		{name: "embedding", build: steps(ramp("w", 9, 3), node("Cast", "x", "i", onnx.Attrs{"to": int64(7)}),
			node("Gather", "w i", "y")), want: true},
	} {
		b := onnx.NewModel("batch").Opset("", 21)
		if c.dims == nil {
			c.dims = []any{"n", 8}
		}
		b.Input("x", onnx.Float, c.dims...)
		for _, fn := range c.build {
			fn(b)
		}
		b.Output("y", 0)
		g, err := frontend.Convert(b.Must(), frontend.Options{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := FindBatch(context.Background(), g, true, onlyPass("")); (got != nil) != c.want {
			t.Errorf("%s: divided: %v, want %v", c.name, got, c.want)
		}
	}
}
