package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/tensor"
)

// TestOptionFlag checks that --option reaches the provider in every verb: an option that no
// provider has is its error, and not one of the command line.
func TestOptionFlag(t *testing.T) {
	t.Setenv(ortlib.Env, ortlib.Path(t))
	model, data := "mul_1.onnx", filepath.Join(t.TempDir(), "x.npz")
	var z tensor.NPZ
	if err := errors.Join(z.Add("X", tensor.Must(tensor.Zeros(tensor.TypeFloat32, 3, 2))),
		tensor.WriteNPZFile(data, &z, false)); err != nil {
		t.Fatal(err)
	}
	for _, verb := range [][]string{
		{"run", model, "--input", "X=zeros", "-p", "ort", "--option", "blob=1"},
		{"compare", model, "-p", "cpu,ort", "--option", "ort/blob=1"},
		{"tune", model, "-p", "ort", "--option", "blob=1", "--no-cache", "--json"},
		{"bench", model, "-p", "ort", "--option", "blob=1", "--rounds", "1", "--duration", "1ms"},
		{"calibrate", model, "-p", "ort", "--option", "blob=1", "--data", data, "-o", filepath.Join(t.TempDir(), "table")},
		{"check", model, "--option", "ort/blob=1"},
		{"inspect", model, "--option", "ort/blob=1"},
		{"doctor", "--option", "ort/blob=1", "--json"},
		{"conformance", "-p", "ort", "--option", "blob=1", "--include", "^test_abs_cpu"},
	} {
		t.Run(verb[0], func(t *testing.T) {
			_, stdout, stderr := invoke(t, verb...)
			if out := stdout + stderr; !strings.Contains(out, `provider ort has no option`) {
				t.Errorf("%v: %s", verb, out)
			}
		})
	}
	code, stdout, stderr := invoke(t, "run", model, "--input", "X=zeros", "-p", "ort:cpu", "--option", "ort/blob=1",
		"--option", "ort:cpu/graph_optimization_level=basic", "--option", "intra_op_num_threads=1")
	if code != 0 {
		t.Errorf("options of another provider: %s%s", stdout, stderr)
	}
	for _, args := range [][]string{{"run", model, "--option", "blob"}, {"run", model, "--option", "=1"},
		{"check", model, "--option", "blob=1"}, {"doctor", "--option", "nobody/blob=1"}} {
		if code, _, stderr := invoke(t, args...); code != 2 || !strings.Contains(stderr, "--option") {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}
