package preset_test

import (
	"testing"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func vector(x ...float32) *tensor.Tensor { return tensor.Must(tensor.New(x, len(x))) }

func matrix() *tensor.Tensor { return tensor.Must(tensor.New([]float32{1, 1, 2, 3}, 2, 2)) }

// linear is y = relu(x·w + b).
func linear() *onnx.Model {
	b := onnx.NewModel("linear")
	b.Input("x", onnx.Float, "n", 2).Output("y", onnx.Float, "n", 2)
	b.Initializer("w", []float32{1, 2, 3, 4}, 2, 2).Initializer("b", []float32{-10, 0.1}, 2)
	b.Node("MatMul", []string{"x", "w"}, []string{"xw"})
	b.Node("Add", []string{"xw", "b"}, []string{"h"})
	b.Node("Relu", []string{"h"}, []string{"y"})
	return b.Must()
}

// linearResult is what linear computes of matrix.
var linearResult = tensor.Must(tensor.New([]float32{0, 6.1, 1, 16.1}, 2, 2))

func wantEqual(t testing.TB, got, want tensor.Value) {
	t.Helper()
	if err := tensor.AllClose(got, want, 1e-5, 1e-6); err != nil {
		t.Error(err)
	}
}
