package passes

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestWeightsOfConstantNodesStay opens a model twice whose weights come from a Constant node and
// could be scaled and packed where they lie: they are the caller's.
func TestWeightsOfConstantNodesStay(t *testing.T) {
	ramp := func(n int) []float32 {
		d := make([]float32, n)
		for i := range d {
			d[i] = float32(i%7)/4 - 0.7
		}
		return d
	}
	const c, size = 32, 6
	b := onnx.NewModel("net").Opset("", 15)
	b.Input("x", onnx.Float, 1, c, size, size).Output("y", onnx.Float, 1, 64)
	b.Node("Constant", nil, []string{"w"}, onnx.Attrs{"value": tensor.Must(tensor.New(ramp(c*c), c, c, 1, 1))})
	b.Node("Constant", nil, []string{"v"}, onnx.Attrs{"value": tensor.Must(tensor.New(ramp(64*c), 64, c))})
	b.Initializer("scale", ramp(c)).Initializer("one", func() []float32 {
		d := make([]float32, c)
		for i := range d {
			d[i] = 1
		}
		return d
	}())
	b.Node("Conv", []string{"x", "w"}, []string{"a"})
	b.Node("BatchNormalization", []string{"a", "scale", "scale", "scale", "one"}, []string{"n"})
	b.Node("GlobalAveragePool", []string{"n"}, []string{"p"})
	b.Node("Flatten", []string{"p"}, []string{"f"})
	b.Node("Gemm", []string{"f", "v"}, []string{"y"}, onnx.Attrs{"transB": 1})
	m := b.Must()
	feed := onward.Values{"x": tensor.Must(tensor.New(ramp(c*size*size), 1, c, size, size))}
	var want tensor.Value
	for _, p := range []string{"reference", "cpu", "cpu", "reference"} {
		s, err := onward.OpenModel(t.Context(), m, enginetest.On(p))
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.Run(context.Background(), feed, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = out["y"]
		}
		if err := tensor.AllClose(out["y"], want, 1e-3, 1e-4); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// TestWeightsThatABranchUsesStay opens a file whose weights could be scaled where they lie, but
// that a branch of an If uses them too.
func TestWeightsThatABranchUsesStay(t *testing.T) {
	const c = 32
	w, x := make([]float32, c*c), make([]float32, c*16)
	for i := range w {
		w[i] = float32(i%7)/4 - 0.7
	}
	for i := range x {
		x[i] = float32(i%5) - 2
	}
	branch := onnx.NewGraph("branch").Output("b", onnx.Float, 1, c, 4, 4)
	branch.Node("Conv", []string{"x", "w"}, []string{"b"})
	g, err := branch.Graph()
	if err != nil {
		t.Fatal(err)
	}
	b := onnx.NewModel("net").Opset("", 15)
	b.Input("x", onnx.Float, 1, c, 4, 4).Input("choose", onnx.Bool, 1).Output("y", onnx.Float, 1, c, 4, 4).
		Output("z", onnx.Float, 1, c, 4, 4)
	b.Initializer("w", w, c, c, 1, 1).Initializer("two", slices.Repeat([]float32{2}, c)).
		Initializer("one", slices.Repeat([]float32{1}, c)).Initializer("zero", make([]float32, c))
	b.Node("Conv", []string{"x", "w"}, []string{"a"})
	b.Node("BatchNormalization", []string{"a", "two", "zero", "zero", "one"}, []string{"y"})
	b.Node("If", []string{"choose"}, []string{"z"}, onnx.Attrs{"then_branch": g, "else_branch": g})
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := onnx.WriteFile(path, b.Must(), nil); err != nil {
		t.Fatal(err)
	}
	feed := onward.Values{"x": tensor.Must(tensor.New(x, 1, c, 4, 4)),
		"choose": tensor.Must(tensor.New([]bool{true}, 1))}
	var want onward.Values
	for _, p := range []string{"reference", "cpu"} {
		s, err := onward.Open(t.Context(), path, enginetest.On(p))
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.Run(context.Background(), feed, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = out
		}
		for name, v := range out {
			if err := tensor.AllClose(v, want[name], 1e-3, 1e-4); err != nil {
				t.Errorf("%s: %s: %v", p, name, err)
			}
		}
	}
}
