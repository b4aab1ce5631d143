package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/onnx"
)

// TestPrecisionFlag gives --precision to the verbs that take it. compare shows
// the error of rounding.
func TestPrecisionFlag(t *testing.T) {
	b := onnx.NewModel("net").Opset("", 17)
	b.Input("x", onnx.Float, 1, 128).Output("y", onnx.Float, 1, 128)
	w := make([]float32, 128*128)
	for i := range w {
		w[i] = 1 + float32(i%301)/301
	}
	b.Initializer("w", w, 128, 128)
	b.Node("MatMul", []string{"x", "w"}, []string{"y"})
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := onnx.WriteFile(path, b.Must(), nil); err != nil {
		t.Fatal(err)
	}
	code := exitOK
	if cpu.BFloat16(cpu.Active()) {
		code = exitFailed
	}
	out, _ := command(t, code, "compare", path, "--provider", "cpu,cpu", "--precision", "bfloat16", "--rtol", "1e-6",
		"--atol", "0", "--input", "x=random:1x128")
	if !strings.Contains(out, "cpu with bfloat16 against cpu,") {
		t.Errorf("compare prints %s", out)
	}
	command(t, exitOK, "compare", path, "--provider", "cpu,cpu", "--precision", "float32", "--rtol", "0", "--atol", "0")
	command(t, exitOK, "compare", path, "--provider", "reference,cpu", "--precision", "bfloat16")
	for _, args := range [][]string{{"run", path, "--random"}, {"profile", path, "--runs", "1", "--json"},
		{"bench", path, "--rounds", "1", "--duration", "10ms", "--json"}} {
		out, _ := command(t, exitOK, append(args, "--precision", "bfloat16")...)
		if args[0] != "run" && !strings.Contains(out, `"precision": "bfloat16"`) {
			t.Errorf("%s prints %s", args[0], out)
		}
	}
	if _, errs := command(t, exitUsage, "run", path, "--precision", "float8"); !strings.Contains(errs, `"float8", want float32 or bfloat16`) {
		t.Errorf("--precision float8: %s", errs)
	}
}
