package main

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// The processes that bench starts to measure loading are this test binary.
func init() {
	if len(os.Args) > 1 && os.Args[1] == probeVerb {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
}

func TestBench(t *testing.T) {
	out, _ := command(t, exitOK, "bench", "logreg_iris.onnx", "--provider", "cpu,reference", "--threads", "1", "--duration", "5ms", "--rounds", "2", "--shape", "float_input=3x2", "--json")
	var r benchJSON
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Model != "logreg_iris.onnx" || r.Threads != 1 || len(r.Results) != 2 || r.Ratio <= 0 {
		t.Fatalf("%+v", r)
	}
	if want := r.Results[1].MedianMS / r.Results[0].MedianMS; math.Abs(r.Ratio-want) > 1e-9 {
		t.Errorf("ratio %v, want %v", r.Ratio, want)
	}
	for i, p := range []string{"cpu", "reference"} {
		x := r.Results[i]
		if x.Provider != p || x.Runs < 6 || x.MinMS <= 0 || x.MinMS > x.MedianMS || x.P95MS < x.MinMS || x.LoadMS <= 0 || x.FirstMS <= 0 || x.Error != "" {
			t.Errorf("%+v", x)
		}
		if _, err := os.Stat("/proc/self/status"); err == nil && x.PeakRSSMB < 1 {
			t.Errorf("%s: peak of %v MB", p, x.PeakRSSMB)
		}
	}
	out, _ = command(t, exitOK, "bench", "logreg_iris.onnx", "--duration", "2ms", "--rounds", "1")
	if !strings.Contains(out, "median ms") || strings.Contains(out, "ratio") {
		t.Errorf("one provider prints\n%s", out)
	}
}

func TestBenchMistakes(t *testing.T) {
	for _, args := range [][]string{
		{"bench"},
		{"bench", "logreg_iris.onnx", "--provider", "cpu,cpu"},
		{"bench", "logreg_iris.onnx", "--provider", "nothing"},
		{"bench", "logreg_iris.onnx", "--rounds", "0"},
		{"bench", "logreg_iris.onnx", "--shape", "x=2"},
		{"bench", "logreg_iris.onnx", "--shape", "float_input"},
		{"compare", "logreg_iris.onnx", "--provider", "cpu"},
		{"compare", "logreg_iris.onnx", "--rtol", "-1"},
		{"profile", "logreg_iris.onnx", "--provider", "nothing"},
		{"profile", "logreg_iris.onnx", "--runs", "0"},
	} {
		command(t, exitUsage, args...)
	}
	// A provider that fails does not take the others' figures along.
	bad := filepath.Join(t.TempDir(), "bad.onnx")
	b := onnx.NewModel("bad").Opset("", 13)
	b.Input("x", onnx.DataType(tensor.TypeFloat32), 1).Output("y", onnx.DataType(tensor.TypeFloat32), 1)
	b.Node("NoSuchOperator", []string{"x"}, []string{"y"})
	if err := onnx.WriteFile(bad, b.Must(), nil); err != nil {
		t.Fatal(err)
	}
	out, _ := command(t, exitFailed, "bench", bad, "--duration", "1ms", "--rounds", "1", "--json")
	if !strings.Contains(out, "NoSuchOperator") {
		t.Errorf("the failure is not printed:\n%s", out)
	}
}
