package layers

import (
	"slices"
	"testing"

	"github.com/onward-ml/onward/onnx"
)

// TestMatch pairs a model with a quantized form: names of activations, weights behind
// DequantizeLinear, a Relu that is left out, an input of the graph.
func TestMatch(t *testing.T) {
	b := onnx.NewModel("float")
	b.Input("x", onnx.Float, 1, 4).Output("y", onnx.Float, 1, 4).Initializer("w", make([]float32, 16), 4, 4)
	b.Node("MatMul", []string{"x", "w"}, []string{"h"})
	b.Node("Relu", []string{"h"}, []string{"r"})
	b.Node("Softmax", []string{"r"}, []string{"y"})
	q := onnx.NewModel("quantized")
	q.Input("x", onnx.Float, 1, 4).Output("y", onnx.Float, 1, 4).Initializer("wq", make([]int8, 16), 4, 4).
		Initializer("s", []float32{1}).Initializer("z", []uint8{0})
	q.Node("QuantizeLinear", []string{"x", "s", "z"}, []string{"xq"})
	q.Node("DequantizeLinear", []string{"xq", "s", "z"}, []string{"xd"})
	q.Node("DequantizeLinear", []string{"wq", "s"}, []string{"wd"})
	q.Node("MatMul", []string{"xd", "wd"}, []string{"r"})
	q.Node("QuantizeLinear", []string{"r", "s", "z"}, []string{"rq"})
	q.Node("DequantizeLinear", []string{"rq", "s", "z"}, []string{"rd"})
	q.Node("Softmax", []string{"rd"}, []string{"y"})
	pairs := Match(q.Must().Graph, b.Must().Graph)
	var got []string
	for _, p := range pairs {
		got = append(got, p.A+"="+p.B)
	}
	if want := []string{"xd=x", "wd=w", "rd=r", "y=y"}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	if in := pairs[2].Inputs; !slices.Equal(slices.Sorted(slices.Values(in)), []int{0, 1}) {
		t.Errorf("rd is computed from the pairs %v, want those of xd and wd", in)
	}
	if pairs[2].NodeB.OpType != "Relu" {
		t.Errorf("r is made by %s in the float model, want Relu", pairs[2].NodeB.OpType)
	}
}

// TestMatchByStructure pairs equal branches of models without a common name, each with its own.
func TestMatchByStructure(t *testing.T) {
	build := func(prefix string) *onnx.Graph {
		m := onnx.NewModel("m")
		m.Input(prefix+"x", onnx.Float, 4).Output(prefix+"out", onnx.Float, 4)
		m.Initializer(prefix+"a", make([]float32, 4), 4).Initializer(prefix+"b", make([]float32, 4), 4)
		m.Node("Add", []string{prefix + "x", prefix + "a"}, []string{prefix + "1"})
		m.Node("Add", []string{prefix + "x", prefix + "b"}, []string{prefix + "2"})
		m.Node("Mul", []string{prefix + "1", prefix + "2"}, []string{prefix + "3"})
		m.Node("Elu", []string{prefix + "3"}, []string{prefix + "out"}, onnx.Attrs{"alpha": float32(2)})
		return m.Must().Graph
	}
	for _, p := range Match(build("p"), build("q")) {
		if p.A[1:] != p.B[1:] {
			t.Errorf("%s is paired with %s", p.A, p.B)
		}
	}
	if n := len(Match(build("p"), build("q"))); n != 6 {
		t.Errorf("got %d pairs, want 4 values and 2 initializers", n)
	}
	other := build("q")
	other.Nodes[3].Attributes[0].F = 3 // another operation: paired as the output alone
	other.Outputs[0].Name, other.Nodes[3].Outputs[0] = "y", "y"
	for _, p := range Match(build("p"), other) {
		if p.A == "pout" && p.B != "y" {
			t.Errorf("the output is paired with %s", p.B)
		}
	}
}
