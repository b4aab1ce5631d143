package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/onnx"
)

func TestGraphCommand(t *testing.T) {
	path := evilNet(t)
	for format, wants := range map[string][]string{
		"text":    {"opset: ai.onnx 21", "Sigmoid(x) -> s", "then_branch:", "Neg(y1) -> t"},
		"dot":     {"digraph", "subgraph cluster_", `\"]; x -->|\"`},
		"mermaid": {"flowchart TB", "subgraph", `["If then_branch"]`, "evil?[31m#34;]#59; x --#62;#124;#34;"},
	} {
		text, _ := command(t, exitOK, "graph", path, "--format", format)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no %q:\n%s", format, want, text)
			}
		}
		if strings.Contains(text, "\x1b") {
			t.Errorf("%s: a name reaches the terminal as it is", format)
		}
	}
	for _, args := range [][]string{{"--format", "json"}, {"--json"}, {"--json", "--optimized"}} {
		text, _ := command(t, exitOK, append([]string{"graph", path}, args...)...)
		var s backend.Sequence
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		first := "Sigmoid"
		if len(args) == 2 && args[1] == "--optimized" {
			first = "QuickGelu"
		}
		if s.Graph.Nodes[0].OpType != first {
			t.Errorf("%v: the first node is %s, want %s", args, s.Graph.Nodes[0].OpType, first)
		}
	}
	// A model that cannot be run can be drawn.
	b := onnx.NewModel("strange").Opset("", 21)
	b.Input("x", onnx.Float).Output("y", onnx.Float)
	b.Node("Frobnicate", []string{"x"}, []string{"y"})
	strange := filepath.Join(t.TempDir(), "strange.onnx")
	if err := onnx.WriteFile(strange, b.Must(), nil); err != nil {
		t.Fatal(err)
	}
	command(t, exitOK, "graph", strange)
	command(t, exitFailed, "graph", strange, "--optimized")
	command(t, exitUsage, "graph", path, "--format", "png")
	command(t, exitUsage, "graph", path, "--format", "dot", "--json")
	garbage := filepath.Join(t.TempDir(), "garbage.onnx")
	if err := os.WriteFile(garbage, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, exitFailed, "graph", garbage)
	if text, _ := command(t, exitOK, "graph", "--help"); !strings.Contains(text, "dot -Tsvg") {
		t.Error("--help has no example")
	}
}
