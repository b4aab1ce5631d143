//go:build !core

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/onward-ml/onward/cmd/onward/internal/modelgraph"
	"github.com/onward-ml/onward/onnx"
)

// The page has the drawing's data, and tables that can be read without scripts.
func TestGraphPage(t *testing.T) {
	html := pageOf(t, exitOK, "graph", "digits.onnx")
	data := regexp.MustCompile(`(?s)<script type="application/json" id="graph-data">(.*?)</script>`).FindStringSubmatch(html)
	var g modelgraph.Graph
	if data == nil || json.Unmarshal([]byte(data[1]), &g) != nil || len(g.Items) == 0 || g.FLOPs == 0 {
		t.Fatalf("the data of the drawing is missing or wrong: %.500q", data)
	}
	for _, want := range []string{">conv1<", ">MACs of a run<", "<h2>Operators</h2>", "<h2>Weights</h2>", "<noscript>",
		"float[batch,1,8,8]", `class="wide"`} {
		if !strings.Contains(html, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	evil := pageOf(t, exitOK, "graph", evilNet(t))
	if strings.ContainsAny(evil, "\x1b") || strings.Count(evil, "<script") != strings.Count(html, "<script") ||
		!strings.Contains(evil, `evil\\x1b[31m`) {
		t.Error("a name is missing or reaches the page as it is")
	}
	optimized := pageOf(t, exitOK, "graph", evilNet(t), "--optimized")
	if !strings.Contains(optimized, "QuickGelu") {
		t.Error("the page of the optimized graph has no QuickGelu")
	}
	path := filepath.Join(t.TempDir(), "p.html")
	for _, more := range [][]string{{"--json"}, {"--format", "dot"}} {
		command(t, exitUsage, append([]string{"graph", "digits.onnx", "--html", path}, more...)...)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a page was written in spite of the error")
	}
}

// TestGraphPageCountsNodesAsInspect compares the counts of a model with constants.
func TestGraphPageCountsNodesAsInspect(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17)
	b.Input("x", onnx.Float, 4).Output("y", onnx.Float, 4)
	b.Node("Constant", nil, []string{"one"}, onnx.Attrs{"value_float": float32(1)})
	b.Node("Add", []string{"x", "one"}, []string{"y"})
	path := saveModel(t, b.Must())
	if html := pageOf(t, exitOK, "graph", path); !strings.Contains(html, ">2, of which 1 are constants") {
		t.Error("the page does not count the constant")
	}
	out, _ := command(t, exitOK, "inspect", path)
	if !strings.Contains(out, "\n2 nodes, ") {
		t.Errorf("inspect prints\n%s", out)
	}
}
