//go:build !core

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/cmd/onward/internal/edit"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// branched is a model with removable nodes, an If that reads a value of the main graph, and a
// symbolic dimension.
func branched(t *testing.T) *onnx.Model {
	branch := func(op string) *onnx.Graph {
		g := onnx.NewGraph(op)
		g.Node(op, []string{"h"}, []string{op + "_out"})
		g.Output(op+"_out", onnx.Float, "N", 3)
		r, err := g.Graph()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	b := onnx.NewModel("m").Opset("", 21).Producer("maker", "1").Metadata("author", "someone").Doc("a model")
	b.Input("x", onnx.Float, "N", 3).Input("c", onnx.Bool).Output("y", onnx.Float, "N", 3).
		Output("z", onnx.Float, "N", 3)
	b.Initializer("w", []float32{1, 2, 3}, 3).Value("h", onnx.Float, "N", 3)
	b.Node("Identity", []string{"x"}, []string{"i"}).Name("copy")
	b.Node("Mul", []string{"i", "w"}, []string{"h"}).Name("scale")
	b.Node("If", []string{"c"}, []string{"f"}, onnx.Attrs{"then_branch": branch("Relu"), "else_branch": branch("Neg")}).
		Name("choose")
	b.Node("Dropout", []string{"f"}, []string{"y", "mask"}).Name("drop")
	b.Node("Add", []string{"h", "w"}, []string{"z"}).Name("shift")
	return b.Must()
}

func opTypes(g *onnx.Graph) string {
	var r []string
	for _, n := range g.Nodes {
		r = append(r, n.OpType)
	}
	return strings.Join(r, " ")
}

func TestEditRename(t *testing.T) {
	model := saveModel(t, branched(t))
	_, m := editModel(t, model, "rename", "--value", "x=image", "--value", "h=hidden", "--value", "y=scores", "--value",
		"w=weight", "--node", "scale=mul", "--dim", "N=batch", "--input", "c=true")
	if in, out := inputNames(m.Graph), outputNames(m.Graph); !slices.Equal(in, []string{"image", "c"}) ||
		!slices.Equal(out, []string{"scores", "z"}) {
		t.Errorf("got inputs %v and outputs %v", in, out)
	}
	s := m.Graph.Nodes[2].Subgraphs()[0]
	if m.Graph.Nodes[1].Name != "mul" || s.Nodes[0].Inputs[0] != "hidden" ||
		s.Outputs[0].Type.Tensor.Shape.Dims[0].Param != "batch" || m.Graph.Initializers[0].Name != "weight" {
		t.Errorf("got %v, %v, %v", m.Graph.Nodes[1], s.Nodes[0], s.Outputs[0])
	}
	_, m = editModel(t, model, "rename", "--value", "y=z", "--value", "z=y") // swapped
	if out := outputNames(m.Graph); !slices.Equal(out, []string{"z", "y"}) {
		t.Errorf("got outputs %v", out)
	}
	out := filepath.Join(t.TempDir(), "x.onnx")
	for _, c := range []struct {
		want string
		args []string
	}{
		{`no value "q"`, []string{"--value", "q=r"}}, {`has a value "z" already`, []string{"--value", "y=z"}}, {`would both be`, []string{"--value", "y=q", "--value", "x=q"}},
		{`has a value "Neg_out" already`, []string{"--value", "x=Neg_out"}}, {"is empty", []string{"--node", "scale="}}, {"symbolic dimension", []string{"--dim", "M=N"}},
	} {
		if _, stderr := command(t, exitFailed,
			append([]string{"edit", "rename", model, "-o", out}, c.args...)...); !strings.Contains(stderr, c.want) {
			t.Errorf("%v: got %q, want %q", c.args, stderr, c.want)
		}
	}
	command(t, exitUsage, "edit", "rename", model, "-o", out)
	command(t, exitUsage, "edit", "rename", model, "-o", out, "--value", "x")
}

func TestEditRemove(t *testing.T) {
	model := saveModel(t, branched(t))
	r, m := editModel(t, model, "remove", "--node", "Identity", "--node", "drop")
	if got := opTypes(m.Graph); got != "Mul If Add" || r.Before != 7 || r.After != 5 ||
		m.Graph.Nodes[1].Outputs[0] != "y" {
		t.Errorf("got %s and %+v", got, r)
	}
	out := filepath.Join(t.TempDir(), "x.onnx")
	for want, node := range map[string]string{"no first input": "Constant", `its output "b" is used`: "Split",
		"which is an input": "Identity", "differs from the original": "Neg"} {
		b := onnx.NewModel("m").Opset("", 21)
		b.Input("x", onnx.Float, 4).Output("y", onnx.Float, 4).Output("z", onnx.Float, 4)
		b.Node("Identity", []string{"x"}, []string{"y"})
		b.Node("Constant", nil, []string{"k"}, onnx.Attrs{"value_floats": []float32{1, 2, 3, 4}})
		b.Node("Split", []string{"x"}, []string{"a", "b"}, onnx.Attrs{"num_outputs": 2})
		b.Node("Concat", []string{"b", "a"}, []string{"ba"}, onnx.Attrs{"axis": 0})
		b.Node("Neg", []string{"ba"}, []string{"n"})
		b.Node("Add", []string{"n", "k"}, []string{"z"})
		if _, stderr := command(t, exitFailed, "edit", "remove", saveModel(t, b.Must()), "-o", out, "--node",
			node); !strings.Contains(stderr, want) {
			t.Errorf("%s: got %q, want %q", node, stderr, want)
		}
	}
	command(t, exitUsage, "edit", "remove", model, "-o", out, "--node", "nothing")
	command(t, exitUsage, "edit", "remove", model, "-o", out)
	if _, err := os.Stat(out); err == nil {
		t.Error("a failed edit has written a file")
	}
}

// TestEditRemoveKeepsMerges removes two nodes that read one value and give two
// outputs of the model.
func TestEditRemoveKeepsMerges(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, 4).Output("y", onnx.Float, 4).Output("z", onnx.Float, 4)
	b.Node("Neg", []string{"x"}, []string{"n"})
	b.Node("Identity", []string{"n"}, []string{"y"}).Name("first")
	b.Node("Identity", []string{"n"}, []string{"z"}).Name("second")
	model := saveModel(t, b.Must())
	_, m := editModel(t, model, "remove", "--node", "first")
	if got := opTypes(m.Graph); got != "Neg Identity" || m.Graph.Nodes[1].Inputs[0] != "y" {
		t.Errorf("got %s, which reads %v", got, m.Graph.Nodes[1].Inputs)
	}
	if _, stderr := command(t, exitFailed, "edit", "remove", model, "-o", filepath.Join(t.TempDir(), "x.onnx"),
		"--node", "Identity"); !strings.Contains(stderr, "another output") {
		t.Errorf("got %q", stderr)
	}
}

func TestEditInsert(t *testing.T) {
	model := saveModel(t, branched(t))
	_, m := editModel(t, model, "insert", "--value", "h", "--op", "Identity", "--name", "probe")
	if got := opTypes(m.Graph); got != "Identity Mul Identity If Dropout Add" ||
		m.Graph.Nodes[3].Subgraphs()[0].Nodes[0].Inputs[0] != "h_Identity" {
		t.Errorf("got %s", got)
	}
	_, m = editModel(t, model, "insert", "--value", "h", "--op", "Identity", "--reader", "shift")
	if s := m.Graph.Nodes; s[len(s)-1].Inputs[0] != "h_Identity" || m.Graph.Nodes[2].OpType == "If" &&
		m.Graph.Nodes[2].Subgraphs()[0].Nodes[0].Inputs[0] != "h" {
		t.Errorf("got %s", opTypes(m.Graph))
	}
	_, m = editModel(t, model, "insert", "--value", "z", "--op", "Identity") // an output of the model
	if out := outputNames(m.Graph); !slices.Equal(out, []string{"y", "z"}) ||
		m.Graph.Nodes[len(m.Graph.Nodes)-1].Outputs[0] != "z" {
		t.Errorf("got outputs %v of %s", out, opTypes(m.Graph))
	}
}

func TestEditInsertErrors(t *testing.T) {
	model, out := saveModel(t, branched(t)), filepath.Join(t.TempDir(), "x.onnx")
	for _, c := range []struct {
		want string
		args []string
	}{
		{`no value "q"`, []string{"--value", "q", "--op", "Identity"}}, {`no value "lo"`, []string{"--value", "h", "--op", "Clip", "--operand", "lo"}},
		{`no node "q"`, []string{"--value", "h", "--op", "Identity", "--reader", "q"}}, {`node "scale" already`, []string{"--value", "h", "--op", "Identity", "--name", "scale"}},
		{"cycle", []string{"--value", "i", "--op", "Add", "--operand", "h"}}, {"Nothing", []string{"--value", "h", "--op", "Nothing"}},
		{"differs from the original", []string{"--value", "h", "--op", "Neg"}}, {"float16", []string{"--value", "h", "--op", "Cast", "--attr", "to=float16"}},
	} {
		if _, stderr := command(t, exitFailed,
			append([]string{"edit", "insert", model, "-o", out}, c.args...)...); !strings.Contains(stderr, c.want) {
			t.Errorf("%v: got %q, want %q", c.args, stderr, c.want)
		}
	}
	for _, args := range [][]string{{"--value", "h"}, {"--value", "h", "--op", "Cast", "--attr", "to"},
		{"--value", "h", "--op", "Cast", "--attr", `to={"a":1}`}} {
		command(t, exitUsage, append([]string{"edit", "insert", model, "-o", out}, args...)...)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a failed edit has written a file")
	}
}

func TestParseAttribute(t *testing.T) {
	for arg, want := range map[string]onnx.AttributeType{
		"to=float16": onnx.AttrInt, "a=3": onnx.AttrInt, "a=3.5": onnx.AttrFloat, "a=1e3": onnx.AttrFloat, "a=[1,2]": onnx.AttrInts, "a=[1,2.5]": onnx.AttrFloats,
		"a=linear": onnx.AttrString, `a="3"`: onnx.AttrString, `a=["x","y"]`: onnx.AttrStrings,
	} {
		if a, err := parseAttribute("Cast", arg); err != nil || a.Type != want {
			t.Errorf("%s: got %v, %v, want %v", arg, a, err, want)
		}
	}
}

func TestEditMetadata(t *testing.T) {
	model := saveModel(t, branched(t))
	text, _ := command(t, exitOK, "edit", "metadata", model)
	if !strings.Contains(text, "producer_name: maker\n") || !strings.Contains(text, "author: someone\n") {
		t.Errorf("got %q", text)
	}
	if text, _ = command(t, exitOK, "edit", "metadata", model, "--get", "doc_string"); text != "a model\n" {
		t.Errorf("got %q", text)
	}
	command(t, exitFailed, "edit", "metadata", model, "--get", "nothing")
	_, m := editModel(t, model, "metadata", "--set", "producer_name=me", "--set", "model_version=7", "--set",
		"note=a=b", "--set", "metadata_props.doc_string=x", "--delete", "author", "--strip-docs")
	if m.ProducerName != "me" || m.ModelVersion != 7 || m.DocString != "" {
		t.Errorf("got %+v", m)
	}
	got := decode[[]edit.KeyValue](t, first(command(t, exitOK, "edit", "metadata", saveModel(t, m), "--json")))
	if want := (edit.KeyValue{Key: "note", Value: "a=b"}); !slices.Contains(got, want) ||
		!slices.Contains(got, edit.KeyValue{Key: "doc_string", Value: "x"}) || len(got) != 6 {
		t.Errorf("got %v", got)
	}
	out := filepath.Join(t.TempDir(), "x.onnx")
	command(t, exitFailed, "edit", "metadata", model, "-o", out, "--delete", "nothing")
	command(t, exitFailed, "edit", "metadata", model, "-o", out, "--set", "model_version=x")
	command(t, exitUsage, "edit", "metadata", model, "-o", out)
	command(t, exitUsage, "edit", "metadata", model, "--set", "a=b")
}

func first(a, _ string) string { return a }

func TestEditWeights(t *testing.T) {
	model, dir := saveModel(t, branched(t)), t.TempDir()
	z := &tensor.NPZ{}
	for name, v := range map[string]*tensor.Tensor{"model.w": tensor.Must(tensor.New([]float64{4, 5, 6})),
		"model.other": tensor.Scalar(1.0), "model.ints": tensor.Must(tensor.New([]int64{1, 2, 3}))} {
		if err := z.Add(name, v); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "w.npz")
	if err := tensor.WriteNPZFile(file, z, false); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out.onnx")
	args := []string{"edit", "weights", model, "-o", out, "--from", file, "--prefix", "model."}
	if _, stderr := command(t, exitFailed, args...); !strings.Contains(stderr, `the model has no weight "other"`) {
		t.Errorf("got %q", stderr)
	}
	command(t, exitOK, append(args, "--partial")...)
	m, err := onnx.ReadFile(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if w, err := m.DecodeTensor(m.Graph.Initializers[0]); err != nil ||
		tensor.Equal(w, tensor.Must(tensor.New([]float32{4, 5, 6}))) != nil {
		t.Errorf("the weight is %v, %v", w, err)
	}
	small := "../../tensor/testdata/small.safetensors"
	for want, extra := range map[string][]string{
		"the model has shape [3], the file has [2 3]": {"--partial"}, `the file has no weight "w"`: {"--rename", "w=v"},
		"no weight of the file is in the model": {"--partial", "--prefix", "w"},
	} {
		if _, stderr := command(t, exitFailed, append([]string{"edit", "weights", model, "-o", out, "--from", small},
			extra...)...); !strings.Contains(stderr, want) {
			t.Errorf("%v: got %q, want %q", extra, stderr, want)
		}
	}
	if _, stderr := command(t, exitFailed, append(args, "--partial", "--rename", "model.ints=w")...); !strings.Contains(
		stderr, "the model has type float, the file has int64") {
		t.Errorf("got %q", stderr)
	}
	command(t, exitUsage, "edit", "weights", model, "-o", out)
	command(t, exitUsage, "edit", "weights", model, "-o", out, "--from", small, "--rename", "q=w")
}

func TestEditDiff(t *testing.T) {
	a := branched(t)
	model := saveModel(t, a)
	if text, _ := command(t, exitOK, "edit", "diff", model, model); text != "no differences\n" {
		t.Errorf("got %q", text)
	}
	b := branched(t)
	b.ProducerName = "other"
	b.Graph.Nodes[1].Inputs = []string{"w", "i"}
	b.Graph.Nodes[4].OpType = "Sub"
	w, err := onnx.NewTensor("w", []float32{1, 2, 3.5})
	if err != nil {
		t.Fatal(err)
	}
	b.Graph.Initializers[0] = w
	b.Graph.Inputs[0].Type.Tensor.Shape.Dims[0] = onnx.Dim{Kind: onnx.DimValue, Value: 2}
	b.Graph.Nodes[0].Name = ""
	other := saveModel(t, b)
	d := decode[edit.Diff](t, first(command(t, exitFailed, "edit", "diff", model, other, "--json")))
	if len(d.Model) != 1 || d.Model[0] != (edit.Change{Name: "producer_name", A: "maker", B: "other"}) {
		t.Errorf("model: %v", d.Model)
	}
	if len(d.Inputs) != 1 || d.Inputs[0].A != "tensor(float)[N,3]" || d.Inputs[0].B != "tensor(float)[2,3]" ||
		len(d.Outputs) != 0 {
		t.Errorf("inputs: %v, outputs: %v", d.Inputs, d.Outputs)
	}
	if len(d.Operators) != 2 || d.Operators["Sub"] != [2]int{0, 1} || d.Operators["Add"] != [2]int{1, 0} {
		t.Errorf("operators: %v", d.Operators)
	}
	if len(d.Nodes) != 4 || len(d.Values) == 0 { // copy and its unnamed twin, scale, shift
		t.Errorf("nodes: %v, values: %v", d.Nodes, d.Values)
	}
	if len(d.Weights) != 1 || !strings.Contains(d.Weights[0].B, "0.5") {
		t.Errorf("weights: %v", d.Weights)
	}
	text, _ := command(t, exitFailed, "edit", "diff", model, other)
	for _, want := range []string{"  Add: 1 -> 0\n", "  - copy node: Identity\n", "  + -> i node: Identity\n",
		"  scale inputs: i w -> w i\n", "  producer_name: maker -> other\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %q, want %q in it", text, want)
		}
	}
}
