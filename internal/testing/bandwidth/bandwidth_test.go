package bandwidth

import (
	"testing"

	"github.com/onward-ml/onward/onnx"
)

func TestWeights(t *testing.T) {
	b := onnx.NewModel("weights").Opset("", 21)
	b.Input("ids", onnx.Int64, 1, 1).Output("y", onnx.Float, 1, 1, 4).Output("z", onnx.Float, 1, 1, 8)
	b.Initializer("embedding", make([]float32, 100*4), 100, 4)
	b.Initializer("tied", make([]float32, 100*4), 100, 4) // a product reads all of it
	b.Initializer("w", make([]float32, 4*4), 4, 4)
	b.Node("Gather", []string{"embedding", "ids"}, []string{"e"})
	b.Node("Gather", []string{"tied", "ids"}, []string{"f"})
	c, err := onnx.NewTensor("", []float32{1, 2, 3}, 3)
	if err != nil {
		t.Fatal(err)
	}
	b.Node("Constant", nil, []string{"c"}, onnx.Attrs{"value": c})
	b.Node("MatMul", []string{"e", "w"}, []string{"y"})
	b.Node("Add", []string{"tied", "f"}, []string{"z"})
	if got, want := Weights(b.Must().Graph), int64(4*(100*4+4*4+3)); got != want {
		t.Errorf("a run reads %d bytes, want %d", got, want)
	}
}

func TestRate(t *testing.T) {
	m := NewMeter()
	m.x[0] = 1
	for _, threads := range []int{1, 2} {
		if r := m.Rate(threads); !(r > 1e6 && r < 1e13) {
			t.Errorf("%d threads read %g bytes per second", threads, r)
		}
	}
	for _, i := range []int{0, len(m.y)/2 - 1, len(m.y) / 2, len(m.y) - 1} {
		if m.y[i] != 1 {
			t.Errorf("product %d is %g, want 1", i, m.y[i])
		}
	}
}
