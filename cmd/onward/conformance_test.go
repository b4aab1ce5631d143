//go:build !core && !server

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// smallSuite has two node cases that pass, one that fails and one whose operator
// does not exist.
func smallSuite(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, c := range []struct {
		name, op string
		want     float32
	}{{"test_abs", "Abs", 1}, {"test_relu", "Relu", 0}, {"test_wrong", "Neg", 1.25},
		{"test_unknown", "NoSuchOperator", 1}} {
		b := onnx.NewModel(c.name)
		b.Input("x", onnx.Float, 1).Output("y", onnx.Float, 1)
		b.Node(c.op, []string{"x"}, []string{"y"})
		writeCase(t, dir, c.name, b.Must(), tensor.Must(tensor.New([]float32{-1}, 1)),
			tensor.Must(tensor.New([]float32{c.want}, 1)))
	}
	return dir
}

// writeCase writes a node case with one input and one output into a data folder.
func writeCase(t *testing.T, dir, name string, m *onnx.Model, in, out tensor.Value) {
	t.Helper()
	for file, marshal := range map[string]func() ([]byte, error){
		"model.onnx":                  m.Marshal,
		"test_data_set_0/input_0.pb":  func() ([]byte, error) { return onnx.MarshalValue(in) },
		"test_data_set_0/output_0.pb": func() ([]byte, error) { return onnx.MarshalValue(out) },
	} {
		path := filepath.Join(dir, "node", name, filepath.FromSlash(file))
		data, err := marshal()
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o777)
		}
		if err == nil {
			err = os.WriteFile(path, data, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestConformance(t *testing.T) {
	dir := smallSuite(t)
	for _, c := range []struct {
		args []string
		code int
		last string
	}{
		{nil, 1, "2 passed, 1 failed, 1 skipped"},
		{[]string{"--provider", "reference", "--runs", "2"}, 1, "2 passed, 1 failed, 1 skipped"},
		{[]string{"--exclude", "wrong"}, 0, "2 passed, 0 failed, 2 skipped"},
		{[]string{"--include", "abs", "--include", "relu", "--kind", "node"}, 0, "2 passed, 0 failed, 2 skipped"},
		{[]string{"--include", "test_a", "--exclude", "s_cpu$"}, 2, "0 passed, 0 failed, 4 skipped"},
	} {
		code, stdout, stderr := invoke(t, append([]string{"conformance", "--data", dir}, c.args...)...)
		lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
		if code != c.code || lines[len(lines)-1] != c.last {
			t.Errorf("%v: exit code %d, want %d; last line %q, want %q; %s", c.args, code, c.code,
				lines[len(lines)-1], c.last, stderr)
		}
		if code != 2 && stderr != "" {
			t.Errorf("%v: standard error has %q, and is no terminal", c.args, stderr)
		}
	}
	_, stdout, _ := invoke(t, "conformance", "--data", dir)
	for _, want := range []string{"FAIL OnnxBackendNodeModelTest/test_wrong_cpu: ", "max_abs 0.25",
		"operator NoSuchOperator is not implemented"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

func TestConformanceJSON(t *testing.T) {
	code, stdout, _ := invoke(t, "conformance", "--data", smallSuite(t), "--json")
	r := decode[conformanceJSON](t, stdout)
	if code != 1 || r.Passed != 2 || r.Failed != 1 || r.Skipped != 1 || len(r.Cases) != 4 {
		t.Fatalf("code %d, %+v", code, r)
	}
	for i, want := range []struct{ name, status string }{{"test_abs", "passed"}, {"test_relu", "passed"},
		{"test_unknown", "skipped"}, {"test_wrong", "failed"}} {
		if c := r.Cases[i]; c.Name != want.name || c.Status != want.status || c.Kind != "node" ||
			(c.Error == "") != (c.Status == "passed") || (c.MaxAbs == nil) != (c.Status == "skipped") {
			t.Errorf("case %d is %+v", i, c)
		}
	}
	if w := r.Cases[3]; w.MaxAbs == nil || *w.MaxAbs != 0.25 || *w.MaxRel != 0.2 {
		t.Errorf("differences of %+v", w)
	}
}

// Cases with random results are counted, and the closing line stays alone on its line.
func TestConformanceCountsRandomCases(t *testing.T) {
	b := onnx.NewModel("bernoulli")
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("Bernoulli", []string{"x"}, []string{"y"}, onnx.Attrs{"seed": float32(0)})
	dir, p := t.TempDir(), tensor.Must(tensor.New([]float32{0.25, 0.5}, 2))
	writeCase(t, dir, "test_bernoulli_seed", b.Must(), p, p)
	code, stdout, stderr := invoke(t, "conformance", "--data", dir)
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	want := []string{"1 of the passed cases have random results and were tested by their distribution",
		"1 passed, 0 failed, 0 skipped"}
	if code != 0 || len(lines) < 2 || !slices.Equal(lines[len(lines)-2:], want) {
		t.Errorf("exit code %d, %s\n%s, want the closing lines %q", code, stderr, stdout, want)
	}
	_, stdout, _ = invoke(t, "conformance", "--data", dir, "--json")
	if r := decode[conformanceJSON](t, stdout); r.Passed != 1 || r.CheckedByDistribution != 1 ||
		r.Cases[0].Checked == "" || r.Cases[0].MaxAbs != nil {
		t.Errorf("%+v", r)
	}
}

func TestConformanceReport(t *testing.T) {
	out := filepath.Join(t.TempDir(), "report")
	t.Setenv("BACKEND", "")
	invoke(t, "conformance", "--data", smallSuite(t), "--report", out)
	for name, want := range map[string]string{"report.txt": "Operators (passed/loaded/total): 2/4/",
		"nodes.csv": "Op,onward-cpu", "models.csv": "Model,onward-cpu", "metadata.csv": "Latest Update,"} {
		data, err := os.ReadFile(filepath.Join(out, name))
		if err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s: %v, %.80q has no %q", name, err, data, want)
		}
	}
}

func TestConformanceUsage(t *testing.T) {
	dir := smallSuite(t)
	for _, c := range []struct{ args, want string }{
		{"--kind real", `--kind "real": there are node`},
		{"--include (", "missing closing )"},
		{"--provider nosuch", `unknown provider "nosuch"`},
		{"--runs 0", "--runs is 0"},
		{"extra", "unknown command"},
	} {
		code, _, stderr := invoke(t, append([]string{"conformance", "--data", dir}, strings.Fields(c.args)...)...)
		if code != 2 || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, %q, want %q", c.args, code, stderr, c.want)
		}
	}
	if code, _, stderr := invoke(t, "conformance", "--data", t.TempDir()); code != 2 ||
		!strings.Contains(stderr, "contains a folder node/") {
		t.Errorf("empty folder: exit code %d, %q", code, stderr)
	}
}

// Without a suite the command says how to get one.
func TestConformanceWithoutSuite(t *testing.T) {
	t.Setenv(suite.Env, "")
	empty := t.TempDir()
	for _, v := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(v, empty)
	}
	code, _, stderr := invoke(t, "conformance")
	if code != 1 || !strings.Contains(stderr, "pip download --no-deps onnx=="+suite.Version) ||
		!strings.Contains(stderr, "--data") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}
