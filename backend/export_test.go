package backend_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/onnx"
)

func TestToText(t *testing.T) {
	text, err := prepare(t, choice(), backend.CPU, nil).ToText()
	if err != nil {
		t.Fatal(err)
	}
	want := `opset: ai.onnx 17
input: c tensor(bool)[]
input: x tensor(float)[2]
If(c) -> y name=if
  else_branch:
    Neg(x) -> e
    output: e tensor(float)[2]
  then_branch:
    Add(x, x) -> t name=double
    output: t tensor(float)[2]
output: y tensor(float)[2]
`
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

func TestToSequence(t *testing.T) {
	s, err := prepare(t, linear(), backend.CPU, nil).ToSequence()
	if err != nil {
		t.Fatal(err)
	}
	if s.Producer != "test 1" || len(s.Graph.Nodes) != 3 || len(s.Graph.Inputs) != 1 ||
		s.Graph.Initializers[0].Name != "w" || s.Graph.Nodes[1].Name != "sum" {
		t.Errorf("got %+v", s)
	}
}

func TestToJSON(t *testing.T) {
	b := onnx.NewModel("m")
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("LeakyRelu", []string{"x"}, []string{"y"}, onnx.Attrs{"alpha": math.Inf(1)})
	data, err := prepare(t, b.Must(), backend.CPU, nil).ToJSON()
	if err != nil {
		t.Fatal(err)
	}
	var s backend.Sequence
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	if s.Graph.Nodes[0].OpType != "LeakyRelu" || s.Graph.Nodes[0].Attributes["alpha"] != "+Inf" ||
		s.Graph.Inputs[0].Type != "tensor(float)[2]" {
		t.Errorf("got %s", data)
	}
}

func TestToDot(t *testing.T) {
	r := prepare(t, choice(), backend.CPU, nil)
	flat, err := r.ToDot(false)
	if err != nil {
		t.Fatal(err)
	}
	deep, err := r.ToDot(true)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(flat, `digraph "choice" {`) || strings.Contains(flat, "Neg") ||
		!strings.Contains(deep, "Neg") || strings.Count(deep, "subgraph cluster_") != 2 {
		t.Errorf("flat\n%s\ndeep\n%s", flat, deep)
	}
	for _, s := range []string{flat, deep} {
		if strings.Count(s, "{") != strings.Count(s, "}") {
			t.Errorf("braces do not match in\n%s", s)
		}
	}
}

// Attributes are shown as they are written, and cut where they are long.
func TestGraphsShowAttributes(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 18)
	b.Input("x", onnx.Float, 2, 3).Output("y", onnx.Float, 3, 2)
	b.Node("Transpose", []string{"x"}, []string{"t"}, onnx.Attrs{"perm": []int64{1, 0}})
	b.Node("LeakyRelu", []string{"t"}, []string{"u"}, onnx.Attrs{"alpha": float32(0.5)})
	b.Node("Concat", []string{"u"}, []string{"y"}, onnx.Attrs{"axis": 1})
	r := prepare(t, b.Must(), backend.CPU, nil)
	dot, err := r.ToDot(false)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"perm=[1 0]", "alpha=0.5", "axis=1"} {
		if !strings.Contains(dot, want) {
			t.Errorf("%q is not in\n%s", want, dot)
		}
	}
}

// Names from a file cannot break out of the text that shows them.
func TestHostileNames(t *testing.T) {
	evil := "a\"];\n}\x1b[31m\x00"
	b := onnx.NewModel(evil)
	b.Input("x", onnx.Float, 2).Output(evil, onnx.Float, 2)
	b.Node("Relu", []string{"x"}, []string{evil}).Name(evil)
	r := prepare(t, b.Must(), backend.CPU, nil)
	dot, err := r.ToDot(true)
	if err != nil {
		t.Fatal(err)
	}
	text, err := r.ToText()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{dot, text} {
		if strings.ContainsAny(s, "\x1b\x00") || strings.Contains(s, "a\"]") {
			t.Errorf("not escaped:\n%q", s)
		}
	}
}
