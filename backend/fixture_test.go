package backend_test

import (
	"testing"

	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func vector(x ...float32) *tensor.Tensor { return tensor.Must(tensor.New(x, len(x))) }

// newModel begins a model in an opset that every provider has.
func newModel(name string) *onnx.ModelBuilder { return onnx.NewModel(name).Opset("", 17).IRVersion(8) }

// linear is y = relu(x·w + b) with b twice of three; it keeps the sum h.
func linear() *onnx.Model {
	b := newModel("linear").Producer("test", "1")
	b.Input("x", onnx.Float, "n", 2).Output("y", onnx.Float, "n", 2)
	b.Initializer("w", []float32{1, 2, 3, 4}, 2, 2).Initializer("b", []float32{-10, 0.1}, 2)
	b.Node("MatMul", []string{"x", "w"}, []string{"xw"}).Name("product")
	b.Node("Add", []string{"xw", "b"}, []string{"h"}).Name("sum")
	b.Node("Relu", []string{"h"}, []string{"y"})
	return b.Must()
}

func matrix() *tensor.Tensor { return tensor.Must(tensor.New([]float32{1, 1, 2, 3}, 2, 2)) }

// choice is y = if c then x+x else −x.
func choice() *onnx.Model {
	then := onnx.NewGraph("then").Output("t", onnx.Float, 2)
	then.Node("Add", []string{"x", "x"}, []string{"t"}).Name("double")
	els := onnx.NewGraph("else").Output("e", onnx.Float, 2)
	els.Node("Neg", []string{"x"}, []string{"e"})
	b := newModel("choice")
	b.Input("c", onnx.Bool).Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("If", []string{"c"}, []string{"y"}, onnx.Attrs{"then_branch": then, "else_branch": els}).Name("if")
	return b.Must()
}

func prepare[S backend.Preparable](t testing.TB, model S, b backend.Backend, o *backend.Options) *backend.Rep {
	t.Helper()
	r, err := backend.Prepare(t.Context(), model, b, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func wantEqual(t testing.TB, got tensor.Value, want tensor.Value) {
	t.Helper()
	if err := tensor.AllClose(got, want, 1e-5, 1e-6); err != nil {
		t.Error(err)
	}
}

var linearResult = tensor.Must(tensor.New([]float32{0, 6.1, 1, 16.1}, 2, 2))
