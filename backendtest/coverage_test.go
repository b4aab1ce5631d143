package backendtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/onnx"
)

func reportOf(t *testing.T) *Coverage {
	t.Helper()
	elu := absCase(t, "test_elu", -0.6321206, 2)
	elu.Model, elu.Kind = unary(t, "Elu", onnx.Attrs{"alpha": 1.0}), "real"
	half := absCase(t, "test_elu_half", -0.3160603, 2)
	half.Model = unary(t, "Elu", onnx.Attrs{"alpha": 0.5})
	wrong := absCase(t, "test_relu", 7, 7)
	wrong.Model, wrong.Kind = unary(t, "Relu"), "real"
	skipped := absCase(t, "test_sqrt", 7, 7)
	skipped.Model = unary(t, "Sqrt")
	r := newRunner(t, backend.CPU, Options{Devices: []string{"CPU"}}, absCase(t, "test_abs", 1, 2), elu,
		half, wrong, skipped)
	run(t, r.Exclude("sqrt").EnableReport())
	return r.Coverage()
}

func TestTextReport(t *testing.T) {
	var b strings.Builder
	if err := reportOf(t).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := `---------- onnx coverage: ----------
Operators (passed/loaded/total): 2/3/226
------------------------------------
Operator  Attributes
          (name: #values)
Abs       No attributes
Elu       alpha: 2
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestCSVReport(t *testing.T) {
	c := reportOf(t)
	dir := filepath.Join(t.TempDir(), "out")
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if err := c.WriteCSV(dir, "onward"); err != nil {
		t.Fatal(err)
	}
	nodes := read("nodes.csv")
	for _, line := range []string{"Op,onward\n", "\nAbs,Passed!\n", "\nRelu,Failed!\n", "\nSqrt,Failed!\n",
		"\nSummary,2/202 node tests passed\n"} {
		if !strings.Contains("\n"+nodes, line) {
			t.Errorf("nodes.csv has no %q", line)
		}
	}
	if got, want := read("models.csv"), "Model,onward\nElu_graph,1/1 nodes covered: Passed!\n"+
		"Relu_graph,0/1 nodes covered: Failed!\nSummary,1/2 model tests passed\n"; got != want {
		t.Errorf("models.csv is %q, want %q", got, want)
	}
	if m := read("metadata.csv"); !strings.HasPrefix(m, "Latest Update,20") || !strings.HasSuffix(m, "+00:00\n") {
		t.Errorf("metadata.csv is %q", m)
	}
	// A second backend gets a column of its own, a second run of the first replaces its cells.
	for _, name := range []string{"other", "onward"} {
		if err := NewCoverage().WriteCSV(dir, name); err != nil {
			t.Fatal(err)
		}
	}
	if nodes = read("nodes.csv"); !strings.Contains(nodes, "Op,onward,other\n") ||
		!strings.Contains(nodes, "\nAbs,Failed!,Failed!\n") {
		t.Errorf("nodes.csv begins with %.200s", nodes)
	}
	if err := c.WriteCSV(dir, "third"); err != nil {
		t.Fatal(err)
	}
	if got := read("models.csv"); !strings.Contains(got,
		"Elu_graph,1/1 nodes covered: Passed!,Skipped!,1/1 nodes covered: Passed!\n") {
		t.Errorf("models.csv is %s", got)
	}
}

func TestCSVReportRefusesForeignFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "nodes.csv"), []byte("a,b\n1,2\n"), nil)
	if err := NewCoverage().WriteCSV(dir, "onward"); err == nil || !strings.Contains(err.Error(), `no column "Op"`) {
		t.Errorf("got %v", err)
	}
}
