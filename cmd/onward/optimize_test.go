package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
)

// evilNet has two nodes to fuse, a branch, and names that mean something to
// terminals, Graphviz and Mermaid.
func evilNet(t *testing.T) string {
	t.Helper()
	then := onnx.NewGraph("then")
	then.Node("Neg", []string{"y1"}, []string{"t"})
	then.Output("t", onnx.Float, "n", 3)
	other := onnx.NewGraph("else")
	other.Node("Abs", []string{"y1"}, []string{"e"})
	other.Output("e", onnx.Float, "n", 3)
	b := onnx.NewModel("net").Opset("", 21)
	b.Input("x", onnx.Float, "n", 3).Input("c", onnx.Bool).Output("y", onnx.Float, "n", 3)
	b.Node("Sigmoid", []string{"x"}, []string{"s"}).Name("evil\x1b[31m\"]; x -->|\"")
	b.Node("Mul", []string{"x", "s"}, []string{"y1"})
	b.Node("If", []string{"c"}, []string{"y"}, onnx.Attrs{"then_branch": then, "else_branch": other})
	path := filepath.Join(t.TempDir(), "net.onnx")
	if err := onnx.WriteFile(path, b.Must(), nil); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOptimizeCommand(t *testing.T) {
	path := evilNet(t)
	out := filepath.Join(t.TempDir(), "out.onnx")
	text, _ := command(t, exitOK, "optimize", path, "-o", out, "--explain", "--dimension", "n=2")
	for _, want := range []string{"fuse-activation", "+ Silu", "5 -> 4 nodes", "written to", "- Sigmoid evil\\x1b"} {
		if !strings.Contains(text, want) {
			t.Errorf("output has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("a name reaches the terminal as it is")
	}
	s, err := onward.Open(t.Context(), out, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := s.Inputs()[0].String(); got != "x: tensor(float)[2,3]" {
		t.Errorf("the input is %s", got)
	}
	text, _ = command(t, exitOK, "optimize", path, "--json", "--level", "basic")
	var r optimizeJSON
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Level != onward.OptimizeBasic || r.Before != 5 ||
		r.After != 5 || r.Passes == nil {
		t.Errorf("%v: %+v", err, r)
	}
	text, _ = command(t, exitOK, "optimize", path, "--disable", "fuse-activation", "--json")
	if strings.Contains(text, "Silu") {
		t.Errorf("a disabled pass ran:\n%s", text)
	}
	for _, bad := range [][]string{{"--level", "most"}, {"--disable", "luck"}, {"--dimension", "n"},
		{"--dimension", "n=-1"}, {"--external-data", "w"}} {
		command(t, exitUsage, append([]string{"optimize", path}, bad...)...)
	}
	command(t, exitUsage, "optimize")
	command(t, exitFailed, "optimize", filepath.Join(t.TempDir(), "absent.onnx"))
	command(t, exitFailed, "optimize", path, "-o", filepath.Join(t.TempDir(), "absent", "out.onnx"))
	text, _ = command(t, exitOK, "optimize", "--help")
	for _, want := range []string{"fuse-conv", "extended", "onward optimize model.onnx"} {
		if !strings.Contains(text, want) {
			t.Errorf("--help has no %q", want)
		}
	}
}
