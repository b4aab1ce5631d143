//go:build !core

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/onnx"
)

// editModel runs an edit and returns its report and the model that it has written.
func editModel(t *testing.T, model string, args ...string) (editJSON, *onnx.Model) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "edited.onnx")
	text, _ := command(t, exitOK, append([]string{"edit", args[0], model, "-o", out, "--json"}, args[1:]...)...)
	m, err := onnx.ReadFile(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	r := decode[editJSON](t, text)
	for _, o := range r.Outputs {
		if !o.Agree {
			t.Errorf("%v: output %s differs: %s", args, o.Name, o.Error)
		}
	}
	if len(r.Outputs) == 0 || r.Output != out {
		t.Errorf("got %s", text)
	}
	return r, m
}

func inputNames(g *onnx.Graph) []string {
	var r []string
	for _, v := range g.Inputs {
		r = append(r, v.Name)
	}
	return r
}

func TestEditExtract(t *testing.T) {
	r, m := editModel(t, "digits.onnx", "extract", "--from", "h1", "--to", "pooled")
	if !slices.Equal(inputNames(m.Graph), []string{"h1"}) || !slices.Equal(outputNames(m.Graph), []string{"pooled"}) ||
		r.After != 3 || len(m.Graph.Initializers) != 2 {
		t.Errorf("got inputs %v, outputs %v, %d nodes, %d initializers", inputNames(m.Graph), outputNames(m.Graph),
			r.After, len(m.Graph.Initializers))
	}
	_, m = editModel(t, "digits.onnx", "extract", "--to", "h1")
	if !slices.Equal(inputNames(m.Graph), []string{"image"}) {
		t.Errorf("got inputs %v, want the model's", inputNames(m.Graph))
	}
	out := filepath.Join(t.TempDir(), "x.onnx")
	for want, args := range map[string][]string{
		`no value "h"; it has conv1.weight`: {"--from", "h"},
		"do not depend on":                  {"--from", "logits", "--to", "h1"},
	} {
		if _, stderr := command(t, exitFailed, append([]string{"edit", "extract", "digits.onnx", "-o", out},
			args...)...); !strings.Contains(stderr, want) {
			t.Errorf("%v: got %q, want %q", args, stderr, want)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a failed edit has written a file")
	}
}

// TestEditExtractKeepsDeclaredShapes cuts at values whose number of dimensions cannot be inferred.
func TestEditExtractKeepsDeclaredShapes(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, 2, 3).Input("shape", onnx.Int64, "k").Output("y", onnx.Float, "a", "b")
	b.Node("Reshape", []string{"x", "shape"}, []string{"r"})
	b.Node("Relu", []string{"r"}, []string{"y"})
	path := saveModel(t, b.Must())
	out := filepath.Join(t.TempDir(), "x.onnx")
	if _, stderr := command(t, exitFailed, "edit", "extract", path, "-o", out, "--to", "r"); !strings.Contains(stderr,
		`the number of dimensions of "r" is unknown`) {
		t.Errorf("got %q", stderr)
	}
	command(t, exitOK, "edit", "extract", path, "-o", out, "--input", "shape=[3,2]")
	m, err := onnx.ReadFile(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	if dims := m.Graph.Outputs[0].Type.Tensor.Shape.Dims; len(dims) != 2 || dims[0].Param != "a" {
		t.Errorf("y is declared with the dimensions %v, want [a b]", dims)
	}
}

// reshaped is a model of batch 2 with a Reshape by a constant and one that merges the batch.
func reshaped(merged []int64) *onnx.Model {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, 2, 3, 4).Output("y", onnx.Float, 2, 12).Value("h", onnx.Float, 2, 12)
	b.Initializer("flat", []int64{2, 12}, 2).Initializer("merged", merged, int64(len(merged)))
	b.Node("Reshape", []string{"x", "merged"}, []string{"r"})
	b.Node("Relu", []string{"r"}, []string{"s"})
	b.Initializer("back", []int64{-1, 3, 4}, 3)
	b.Node("Reshape", []string{"s", "back"}, []string{"u"})
	b.Node("Reshape", []string{"u", "flat"}, []string{"h"})
	b.Node("Exp", []string{"h"}, []string{"y"})
	return b.Must()
}

func TestEditDims(t *testing.T) {
	r, m := editModel(t, saveModel(t, reshaped([]int64{6, 4})), "dims", "--batch", "N")
	if in := m.Graph.Inputs[0].Type.Tensor.Shape.Dims[0]; in.Param != "N" {
		t.Errorf("the first dimension of the input is %+v", in)
	}
	if out := m.Graph.Outputs[0].Type.Tensor.Shape.Dims[0]; out.Param != "N" {
		t.Errorf("the first dimension of the output is %+v", out)
	}
	if len(r.Outputs) != 2 || len(r.Changes) == 0 { // the batch and twice the batch
		t.Errorf("got %+v", r)
	}
	out := filepath.Join(t.TempDir(), "x.onnx")
	if _, stderr := command(t, exitFailed, "edit", "dims", saveModel(t, reshaped([]int64{6, -1})), "-o", out, "--batch",
		"N"); !strings.Contains(stderr, "cannot be repaired") {
		t.Errorf("got %q", stderr)
	}
	command(t, exitFailed, "edit", "dims", "digits.onnx", "-o", out, "--batch", "N") // is dynamic already
	command(t, exitUsage, "edit", "dims", "digits.onnx", "-o", out)
	command(t, exitUsage, "edit", "dims", "digits.onnx", "--batch", "N")
}

func TestEditSimplify(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, 4).Output("y", onnx.Float, 4).Initializer("a", []float32{1, 2, 3, 4}, 4)
	b.Node("Exp", []string{"a"}, []string{"e"})
	b.Node("Identity", []string{"x"}, []string{"i"})
	b.Node("Add", []string{"i", "e"}, []string{"s"})
	b.Node("Add", []string{"i", "e"}, []string{"t"})
	b.Node("Mul", []string{"s", "t"}, []string{"y"})
	r, _ := editModel(t, saveModel(t, b.Must()), "simplify")
	if r.Before != 5 || r.After != 2 || len(r.Changes) == 0 {
		t.Errorf("got %+v, want 5 nodes to become 2", r)
	}
}

func TestEditFloat16(t *testing.T) {
	r, m := editModel(t, "digits.onnx", "convert", "--float16")
	if r.Float16 == nil || r.Float16.Nodes == 0 || r.Float16.Casts != 2 || len(r.Float16.Saturated) != 0 {
		t.Errorf("got %+v", r.Float16)
	}
	for _, w := range m.Graph.Initializers {
		if w.DataType == onnx.Float {
			t.Errorf("weight %s is float32", w.Name)
		}
	}
	original, err := modelfile.Load("digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	kept, m := editModel(t, "digits.onnx", "convert", "--float16", "--keep", "Conv")
	if kept.Float16.Kept["Conv"] != 2 || kept.Float16.Nodes != r.Float16.Nodes-2 {
		t.Errorf("got %+v, want the convolutions in float32", kept.Float16)
	}
	if len(m.Graph.Nodes) <= len(original.Graph.Nodes) {
		t.Error("there are no casts")
	}
	command(t, exitUsage, "edit", "convert", "digits.onnx", "-o", "x.onnx", "--float16", "--keep", "nothing")
}

// TestEditFloat16Subgraphs converts around an If whose branches read outer values, an operator
// without a float16 form, a weight beyond the range and a graph output that a node also reads.
func TestEditFloat16Subgraphs(t *testing.T) {
	branch := func(op string) *onnx.Graph {
		g := onnx.NewGraph(op)
		g.Node(op, []string{"h"}, []string{"out"})
		g.Output("out", onnx.Float, 4)
		r, err := g.Graph()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, 4).Input("c", onnx.Bool).Output("y", onnx.Float, 4).Output("h", onnx.Float, 4)
	b.Initializer("w", []float32{1, 2, 1e-3, 70000}, 4).Initializer("k", []float32{1, 1, 1, 1e-4}, 4)
	b.Node("Mul", []string{"x", "k"}, []string{"p"})
	b.Node("Add", []string{"p", "k"}, []string{"h"})
	b.Node("If", []string{"c"}, []string{"z"}, onnx.Attrs{"then_branch": branch("Relu"), "else_branch": branch("Neg")})
	b.Node("Min", []string{"z", "w"}, []string{"y"})
	r, _ := editModel(t, saveModel(t, b.Must()), "convert", "--float16", "--input", "c=true")
	if r.Float16.Kept["If"] != 1 || r.Float16.Nodes != 3 || !slices.Equal(r.Float16.Saturated, []string{"w"}) {
		t.Errorf("got %+v", r.Float16)
	}
}

// TestEditRefusesDifferences makes a model overflow in float16: nothing is written without --force.
func TestEditRefusesDifferences(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, 4).Output("y", onnx.Float, 4).Initializer("w", []float32{1e4, 1e4, 1e4, 1e4}, 4)
	b.Node("Mul", []string{"x", "w"}, []string{"a"})
	b.Node("Mul", []string{"a", "w"}, []string{"y"})
	model := saveModel(t, b.Must())
	out := filepath.Join(t.TempDir(), "x.onnx")
	args := []string{"edit", "convert", model, "-o", out, "--float16", "--input", "x=[1,1,1,1]"}
	if _, stderr := command(t, exitFailed, args...); !strings.Contains(stderr, "--keep") {
		t.Errorf("got %q", stderr)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("the model was written")
	}
	command(t, exitOK, append(args, "--force")...)
	if _, err := os.Stat(out); err != nil {
		t.Error(err)
	}
}

// TestEditOldIR edits a model of IR version 3, in which initializers are inputs, too.
func TestEditOldIR(t *testing.T) {
	b := onnx.NewModel("m").IRVersion(3).Opset("", 7)
	b.Input("x", onnx.Float, 2, 3).Input("w", onnx.Float, 3).Output("y", onnx.Float, 2, 3).
		Initializer("w", []float32{1, 2, 3}, 3)
	b.Node("Mul", []string{"x", "w"}, []string{"y"})
	_, m := editModel(t, saveModel(t, b.Must()), "dims", "--batch", "N")
	if m.IRVersion < 4 || !slices.Equal(inputNames(m.Graph), []string{"x"}) {
		t.Errorf("got IR version %d and inputs %v", m.IRVersion, inputNames(m.Graph))
	}
	editModel(t, saveModel(t, b.Must()), "convert", "--external-data", "w.bin")
	editModel(t, saveModel(t, b.Must()), "rename", "--value", "w=v")
	if _, m = editModel(t, saveModel(t, b.Must()), "convert", "--float16"); len(m.Graph.Initializers) != 1 {
		t.Errorf("got %d initializers, want 1", len(m.Graph.Initializers))
	}
}

// TestEditOpset converts the opset down and up again, and names the node that
// an opset cannot state.
func TestEditOpset(t *testing.T) {
	_, m := editModel(t, "digits.onnx", "convert", "--opset", "9")
	if v, _ := m.OpsetVersion(""); v != 9 || m.IRVersion != 4 {
		t.Errorf("got opset %d and IR version %d", v, m.IRVersion)
	}
	old := saveModel(t, m)
	r, m := editModel(t, old, "convert", "--opset", "21", "--float16")
	if v, _ := m.OpsetVersion(""); v != 21 || r.Float16 == nil || r.Changes[0] != "opset 9 -> 21" {
		t.Errorf("got opset %d, %+v", v, r)
	}
	b := onnx.NewModel("m").Opset("", 20)
	b.Input("x", onnx.Float, 4).Output("y", onnx.Float, 4)
	b.Node("Gelu", []string{"x"}, []string{"y"}).Name("act")
	if _, stderr := command(t, exitFailed, "edit", "convert", saveModel(t, b.Must()), "-o", "x.onnx", "--opset",
		"13"); !strings.Contains(stderr, `node "act": Gelu of version 20`) {
		t.Errorf("got %q", stderr)
	}
}

// TestEditBFloat16 converts to bfloat16, which convolutions have since opset 22.
func TestEditBFloat16(t *testing.T) {
	old, _ := editModel(t, "digits.onnx", "convert", "--bfloat16")
	_, m := editModel(t, "digits.onnx", "convert", "--opset", "22")
	r, m := editModel(t, saveModel(t, m), "convert", "--bfloat16")
	if r.BFloat16 == nil || r.Float16 != nil || r.BFloat16.Kept["Conv"] != 0 || old.BFloat16.Kept["Conv"] != 2 {
		t.Errorf("got %+v, and %+v in the model's opset", r.BFloat16, old.BFloat16)
	}
	if !slices.ContainsFunc(m.Graph.Initializers, func(w *onnx.Tensor) bool { return w.DataType == onnx.BFloat16 }) {
		t.Error("no weight is bfloat16")
	}
	for _, args := range [][]string{{"--bfloat16", "--float16"}, {"--keep", "Conv"}, {},
		{"--embed", "--external-data", "w.bin"}} {
		command(t, exitUsage, append([]string{"edit", "convert", "digits.onnx", "-o", "x.onnx"}, args...)...)
	}
}

// TestEditStorage moves weights to another file, converts them from there, and moves them back.
func TestEditStorage(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "external.onnx")
	command(t, exitOK, "edit", "convert", "digits.onnx", "-o", out, "--external-data", "w.bin")
	if fi, err := os.Stat(filepath.Join(dir, "w.bin")); err != nil || fi.Size() < 1000 {
		t.Fatal("the weights are missing:", err)
	}
	r, m := editModel(t, out, "convert", "--float16", "--embed")
	for _, w := range m.Graph.Initializers {
		if w.DataLocation == onnx.LocationExternal || w.DataType == onnx.Float {
			t.Errorf("weight %s is %s, location %d", w.Name, w.DataType, w.DataLocation)
		}
	}
	if r.Float16.Casts != 2 {
		t.Errorf("got %+v", r.Float16)
	}
}

// TestOutputsKeepTheSource: no verb that writes a model replaces the weights of its source, or the
// source by weights, other than in its place.
func TestOutputsKeepTheSource(t *testing.T) {
	dir := t.TempDir()
	in, data := filepath.Join(dir, "a.onnx"), filepath.Join(dir, "a.bin")
	command(t, exitOK, "edit", "convert", "digits.onnx", "-o", in, "--external-data", "a.bin")
	read := func() (now [2][]byte) {
		for i, name := range []string{in, data} {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			now[i] = b
		}
		return now
	}
	before := read()
	for _, args := range [][]string{{"edit", "convert", in, "--float16"}, {"optimize", in},
		{"quantize", in, "--mode", "dynamic", "--op-types", "Gemm"}, {"edit", "metadata", in, "--set", "k=v"}} {
		for _, out := range [][]string{{data}, {filepath.Join(dir, "b.onnx"), "--external-data", "a.bin"},
			{filepath.Join(dir, "b.onnx"), "--external-data", "a.onnx"}} {
			_, stderr := command(t, exitFailed, slices.Concat(args, []string{"-o"}, out)...)
			if !strings.Contains(stderr, "choose another name") {
				t.Errorf("%q -o %q: %q", args, out, stderr)
			}
			if now := read(); !bytes.Equal(now[0], before[0]) || !bytes.Equal(now[1], before[1]) {
				t.Fatalf("%q -o %q changes the source", args, out)
			}
		}
	}
	command(t, exitOK, "edit", "convert", in, "--float16", "-o", in, "--external-data", "a.bin")
}

// TestExternalDataElsewhere writes a model with external data to another folder, as a whole.
func TestExternalDataElsewhere(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "external.onnx")
	command(t, exitOK, "edit", "convert", "digits.onnx", "-o", in, "--external-data", "w.bin")
	for _, args := range [][]string{{"edit", "convert", in, "--opset", "22"}, {"optimize", in, "--level", "none"},
		{"quantize", in, "--mode", "dynamic", "--op-types", "Gemm"}, {"quantize", in, "--data", "random:1"}} {
		out := filepath.Join(t.TempDir(), "whole.onnx")
		command(t, exitOK, append(args, "-o", out)...)
		m, err := onnx.ReadFile(out, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		m.EachTensor(func(w *onnx.Tensor) bool {
			if w.DataLocation == onnx.LocationExternal {
				t.Errorf("%v: weight %s is external", args, w.Name)
			}
			return true
		})
		command(t, exitOK, "run", out, "--random")
	}
}

// TestEditBlamesTheOriginal converts a model that is invalid already: its output has no shape.
func TestEditBlamesTheOriginal(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17)
	b.Input("x", onnx.Float, 4).Output("y", onnx.Float, 4)
	b.Node("Neg", []string{"x"}, []string{"y"})
	m := b.Must()
	m.Graph.Outputs[0].Type.Tensor.Shape = nil
	_, stderr := command(t, exitFailed, "edit", "convert", saveModel(t, m), "-o", filepath.Join(t.TempDir(), "x.onnx"),
		"--opset", "21")
	if !strings.Contains(stderr, "the original is not valid, before any edit: ") {
		t.Errorf("got %s", stderr)
	}
}

// TestEditSaysWhatItWrites: an edit names its output after it has been written.
func TestEditSaysWhatItWrites(t *testing.T) {
	out := filepath.Join(t.TempDir(), "missing", "x.onnx")
	args := []string{"edit", "metadata", "mul_1.onnx", "-o", out, "--set", "a=b"}
	if stdout, stderr := command(t, exitFailed, args...); strings.Contains(stdout, "written") ||
		!strings.Contains(stderr, "missing") {
		t.Errorf("prints %q and the error %q", stdout, stderr)
	}
	stdout, _ := command(t, exitFailed, append(args, "--json")...)
	if r := decode[editJSON](t, stdout); r.Output != "" || len(r.Outputs) == 0 {
		t.Errorf("got %s", stdout)
	}
}
