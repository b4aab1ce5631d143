package export_test

import (
	"context"
	"testing"

	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/internal/export"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/optimize"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Optimization keeps unused outputs that the operator requires, or whose number is part of its
// meaning.
func TestOptimizedModelKeepsRequiredOutputs(t *testing.T) {
	for _, c := range []struct {
		name  string
		opset int64
		make  func(b *onnx.ModelBuilder)
		want  string
	}{
		{"Split into equal parts", 13, func(b *onnx.ModelBuilder) {
			b.Node("Split", []string{"x"}, []string{"y", "p"}, onnx.Attrs{"axis": 1})
		}, "y,p=Split(x) axis=1"},
		{"Split with num_outputs", 18, func(b *onnx.ModelBuilder) {
			b.Node("Split", []string{"x"}, []string{"p", "y", "q"}, onnx.Attrs{"axis": 1, "num_outputs": 3})
		}, "p,y,q=Split(x) axis=1 num_outputs=3"},
		{"Split with sizes", 18, func(b *onnx.ModelBuilder) {
			b.Initializer("sizes", []int64{1, 2, 1}, 3)
			b.Node("Split", []string{"x", "sizes"}, []string{"y", "p", "q"}, onnx.Attrs{"axis": 1})
		}, "y,p,q=Split(x,sizes) axis=1"},
		{"values of TopK", 18, func(b *onnx.ModelBuilder) {
			b.Initializer("k", []int64{2}, 1)
			b.Node("TopK", []string{"x", "k"}, []string{"y", "i"})
		}, "y,i=TopK(x,k)"},
		{"scale of DynamicQuantizeLinear", 18, func(b *onnx.ModelBuilder) {
			b.Node("DynamicQuantizeLinear", []string{"x"}, []string{"q", "y", "z"})
		}, "q,y,z=DynamicQuantizeLinear(x)"},
		{"BatchNormalization of training by outputs", 9, func(b *onnx.ModelBuilder) {
			for i, p := range []string{"s", "b", "m", "v"} {
				b.Initializer(p, []float32{1, 2, 3, float32(i)}, 4)
			}
			b.Node("BatchNormalization", []string{"x", "s", "b", "m", "v"}, []string{"y", "rm", "rv", "sm", "sv"})
		}, "y,rm,rv,sm,sv=BatchNormalization(x,s,b,m,v)"},
		{"MaxPool without indices", 18, func(b *onnx.ModelBuilder) {
			b.Initializer("axes", []int64{0}, 1)
			b.Node("Unsqueeze", []string{"x", "axes"}, []string{"u"})
			b.Node("MaxPool", []string{"u"}, []string{"y", "i"}, onnx.Attrs{"kernel_shape": []int64{2}})
		}, "u=Unsqueeze(x,axes); y=MaxPool(u) kernel_shape=[2]"},
		{"last state of LSTM", 18, func(b *onnx.ModelBuilder) {
			b.Initializer("axes", []int64{0}, 1)
			b.Node("Unsqueeze", []string{"x", "axes"}, []string{"u"})
			b.Initializer("w", make([]float32, 12*4), 1, 12, 4).Initializer("r", make([]float32, 12*3), 1, 12, 3)
			b.Node("LSTM", []string{"u", "w", "r"}, []string{"a", "y", "c"}, onnx.Attrs{"hidden_size": 3})
		}, "u=Unsqueeze(x,axes); a,y=LSTM(u,w,r) hidden_size=3"},
	} {
		b := builder(c.opset)
		c.make(b)
		m := finish(b, "y")
		g := convert(t, m)
		eval := func(g *ir.Graph, n *ir.Node, in []tensor.Value, limit int64) ([]tensor.Value, error) {
			return exec.Eval(context.Background(), g, n, in, limit)
		}
		if err := optimize.Run(t.Context(), g,
			&optimize.Options{Level: optimize.Extended, Opset: int(c.opset), Eval: eval}); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		r, err := export.Model(g, m)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := text(r.Graph); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
