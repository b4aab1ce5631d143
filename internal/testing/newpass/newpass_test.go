// Package newpass adds a pass as CONTRIBUTING.md says, in one file and with one line in the list of
// passes, and tests that the command, its explanations and the tests of all passes see it. The file
// and its tests are in testdata; the go command builds with them by an overlay.
package newpass

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward/onnx"
)

// entry is the line of the pass in the list, which is inserted before that of cse.
const (
	entry = "\t{Pass{\"double-neg\", Basic, \"removes a Neg of a Neg\"}, dropDoubleNeg},\n"
	next  = "\t{Pass{\"cse\","
)

// overlay writes an overlay of the go command that adds the line and the files of testdata, and
// returns its name.
func overlay(t *testing.T, files ...string) string {
	t.Helper()
	root, dir := absolute(t, "../../.."), t.TempDir()
	sources, err := filepath.Glob(filepath.Join(root, "internal/optimize/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(sources, files...) { // go test caches results by the files that the test itself reads
		if filepath.IsLocal(name) {
			name = filepath.Join("testdata", name)
		}
		if _, err := os.Stat(name); err != nil {
			t.Fatal(err)
		}
	}
	list, err := os.ReadFile(filepath.Join(root, "internal/optimize/passes.go"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(list), next) != 1 {
		t.Fatalf("the list of passes has no line that begins %q", next)
	}
	edited := filepath.Join(dir, "passes.go")
	if err = os.WriteFile(edited, []byte(strings.Replace(string(list), next, entry+next, 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{filepath.Join(root, "internal/optimize/passes.go"): edited}
	for _, name := range files {
		replace[filepath.Join(root, "internal/optimize", name)] = absolute(t, filepath.Join("testdata", name))
	}
	description, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, description, 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs a program in the module's folder and returns what it prints.
func run(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = "../../.."
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func goTool(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("go")
	if err != nil {
		t.Skipf("the recipe for a pass is not tested: %v", err)
	}
	return path
}

func TestTestsOfAllPassesSeeThePass(t *testing.T) {
	tool := goTool(t)
	out, err := run(t, tool, "test", "-overlay", overlay(t, "double_neg.go"), "-run", "^TestPasses$",
		"./internal/optimize")
	if want := "pass double-neg has no case: add some to moreCases in internal/optimize/double_neg_test.go"; err ==
		nil || !strings.Contains(out, want) {
		t.Errorf("without cases: %v, want %q in\n%s", err, want, out)
	}
	out, err = run(t, tool, "test", "-v", "-overlay", overlay(t, "double_neg.go", "double_neg_test.go"), "-run",
		"^TestPasses$", "./internal/optimize")
	if want := "--- PASS: TestPasses/double-neg/two_in_sequence"; err != nil || !strings.Contains(out, want) {
		t.Errorf("with cases: %v, want %q in\n%s", err, want, out)
	}
}

func TestCommandSeesThePass(t *testing.T) {
	command := filepath.Join(t.TempDir(), "onward.exe")
	if out, err := run(t, goTool(t), "build", "-tags", "core", "-overlay", overlay(t, "double_neg.go"), "-o", command,
		"./cmd/onward"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, 2, 3).Output("y", onnx.Float, 2, 3)
	b.Node("Neg", []string{"x"}, []string{"a"}).Name("first")
	b.Node("Neg", []string{"a"}, []string{"b"}).Name("second")
	b.Node("Relu", []string{"b"}, []string{"y"})
	model, optimized := filepath.Join(t.TempDir(), "m.onnx"), filepath.Join(t.TempDir(), "o.onnx")
	if err := onnx.WriteFile(model, b.Must(), nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"optimize", "--help"}, []string{"double-neg", "removes a Neg of a Neg"}},
		{[]string{"optimize", model, "-o", optimized, "--explain"}, []string{"double-neg", "Neg first", "Neg second"}},
		{[]string{"optimize", model, "--disable", "double-neg"}, []string{"3 nodes"}},
	} {
		out, err := run(t, command, c.args...)
		for _, want := range c.want {
			if err != nil || !strings.Contains(out, want) {
				t.Errorf("onward %s: %v, want %q in\n%s", strings.Join(c.args, " "), err, want, out)
			}
		}
	}
	m, err := onnx.ReadFile(optimized, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := m.Graph.Nodes; len(n) != 1 || n[0].OpType != "Relu" || n[0].Inputs[0] != "x" {
		t.Errorf("the optimized model has %d nodes, want one Relu of x", len(n))
	}
}
