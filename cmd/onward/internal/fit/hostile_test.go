package fit

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/onnx"
)

// Models with extreme shapes and attributes return an error or inputs, in bounded memory.
func TestHostileModels(t *testing.T) {
	const huge = int64(1) << 40
	for name, build := range map[string]func(b *onnx.ModelBuilder){
		"long shape": func(b *onnx.ModelBuilder) {
			b.Input("s", onnx.Int64, huge)
			b.Node("Reshape", []string{"x", "s"}, []string{"y"})
		},
		"long pads": func(b *onnx.ModelBuilder) {
			b.Input("s", onnx.Int64, huge)
			b.Node("Pad", []string{"x", "s"}, []string{"y"})
		},
		"long axes": func(b *onnx.ModelBuilder) {
			b.Input("s", onnx.Int64, huge)
			b.Node("Unsqueeze", []string{"x", "s"}, []string{"y"})
		},
		"long tuples": func(b *onnx.ModelBuilder) {
			b.Input("s", onnx.Int64, 1, huge)
			b.Node("GatherND", []string{"x", "s"}, []string{"y"})
		},
		"no strides": func(b *onnx.ModelBuilder) {
			b.Input("s", onnx.Int64, 2).Input("c", onnx.Float, 1, 4, 4)
			b.Initializer("k", []int64{2, 2}, 2)
			b.Node("Col2Im", []string{"c", "s", "k"}, []string{"y"}, onnx.Attrs{"strides": []int64{0, 0}})
		},
		"empty bounds": func(b *onnx.ModelBuilder) {
			b.Input("s", onnx.Int64, 3)
			b.Initializer("seven", []int64{7}).Initializer("one", []int64{1}).Initializer("t", make([]float32, 4), 4)
			b.Node("Mul", []string{"s", "seven"}, []string{"m"})
			b.Node("Add", []string{"m", "one"}, []string{"i"})
			b.Node("Gather", []string{"t", "i"}, []string{"y"})
		},
		"factor without a number": func(b *onnx.ModelBuilder) {
			b.Input("s", onnx.Float, 3)
			b.Initializer("nan", []float32{float32(math.NaN())}).Initializer("t", make([]float32, 4), 4)
			b.Node("Mul", []string{"s", "nan"}, []string{"m"})
			b.Node("Cast", []string{"m"}, []string{"i"}, onnx.Attrs{"to": int64(onnx.Int64)})
			b.Node("Gather", []string{"t", "i"}, []string{"y"})
		},
		"empty table": func(b *onnx.ModelBuilder) {
			b.Input("s", onnx.Int64, 3).Input("t", onnx.Float, 0, 2)
			b.Node("Gather", []string{"t", "s"}, []string{"y"})
		},
		"huge dimension": func(b *onnx.ModelBuilder) {
			b.Input("s", onnx.Float, huge, huge)
			b.Node("Neg", []string{"s"}, []string{"y"})
		},
	} {
		b := onnx.NewModel(name).Opset("", 18)
		b.Input("x", onnx.Float, 2, 3).Output("y", onnx.Float, nil)
		build(b)
		m, err := b.Model()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, feed, err := draw(t, m, Options{}, 1)
		if err == nil && feed["s"] == nil {
			t.Errorf("%s: no value and no error", name)
		}
	}
}
