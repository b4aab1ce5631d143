package cost

import (
	"testing"

	"github.com/onward-ml/onward/onnx"
)

func TestOf(t *testing.T) {
	m := onnx.NewModel("m").Opset("", 21)
	m.Input("x", onnx.Float, "batch", 3, 8, 8).Output("y", onnx.Float, nil, nil)
	m.Initializer("w", make([]float32, 16*3*9), 16, 3, 3, 3).Initializer("g", make([]float32, 10*16), 10, 16).
		Initializer("d", make([]float32, 16*9), 16, 1, 3, 3)
	m.Node("Conv", []string{"x", "w"}, []string{"c"}, onnx.Attrs{"pads": []int64{1, 1, 1, 1}}) // 16×8×8 of 27
	// 16×8×8 of 9
	m.Node("Conv", []string{"c", "d"}, []string{"dw"}, onnx.Attrs{"group": 16, "pads": []int64{1, 1, 1, 1}})
	// no products
	m.Node("Relu", []string{"dw"}, []string{"r"})
	// no products
	m.Node("GlobalAveragePool", []string{"r"}, []string{"p"})
	m.Node("Flatten", []string{"p"}, []string{"f"})                            // [1,16]
	m.Node("Gemm", []string{"f", "g"}, []string{"y"}, onnx.Attrs{"transB": 1}) // 10 of 16
	c, err := Of(m.Must())
	if err != nil {
		t.Fatal(err)
	}
	want := []int64{16 * 64 * 27, 16 * 64 * 9, 0, 0, 0, 160}
	total := int64(0)
	for i, w := range want {
		if got := c.Layers[i].MACs; got != w {
			t.Errorf("%s: got %d MACs, want %d", c.Layers[i].OpType, got, w)
		}
		total += w
	}
	if c.MACs != total {
		t.Errorf("got %d MACs, want %d", c.MACs, total)
	}
	if got, want := c.Layers[0].Parameters, int64(16*27); got != want {
		t.Errorf("the first convolution has %d parameters, want %d", got, want)
	}
	if got, want := c.ActivationBytes, int64(2*4*16*64); got != want { // two results of 16×8×8
		t.Errorf("got %d bytes of activations, want %d", got, want)
	}
	if s := c.Layers[0].Shape; len(s) != 4 || s[0] != -1 || s[1] != 16 {
		t.Errorf("got shape %v", s)
	}
}

func TestHugeShapesSaturate(t *testing.T) {
	m := onnx.NewModel("m").Opset("", 21)
	m.Input("a", onnx.Float, 1<<40, 1<<20).Input("b", onnx.Float, 1<<20, 1<<40).Output("y", onnx.Float, 1<<40, 1<<40)
	m.Node("MatMul", []string{"a", "b"}, []string{"y"})
	c, err := Of(m.Must())
	if err != nil {
		t.Fatal(err)
	}
	if c.MACs != most || c.ActivationBytes < 0 {
		t.Errorf("got %d MACs and %d bytes, want saturation", c.MACs, c.ActivationBytes)
	}
}
