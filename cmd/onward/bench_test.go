package main

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// The processes that bench starts to measure loading are this test binary.
func init() {
	if len(os.Args) > 1 && os.Args[1] == probeVerb {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
}

func command(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	if code := run(context.Background(), args, &out, &errs); code != want {
		t.Fatalf("onward %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), code, want, &out, &errs)
	}
	return out.String(), errs.String()
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
		{"profile", "logreg_iris.onnx", "--provider", "ort"},
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
		t.Errorf("the failure is not told:\n%s", out)
	}
}

func TestCompareCommand(t *testing.T) {
	out, _ := command(t, exitOK, "compare", "logreg_iris.onnx", "--provider", "cpu,reference", "--layers", "--json")
	var r compareJSON
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if !r.Agree || len(r.Values) < 3 {
		t.Fatalf("%+v", r)
	}
	outputs := 0
	for _, v := range r.Values {
		if !v.Agree || v.Op == "" {
			t.Errorf("%+v", v)
		}
		if v.Output {
			outputs++
		}
	}
	if outputs != 2 {
		t.Errorf("%d outputs among the layers, want 2", outputs)
	}
}

func TestCompareValues(t *testing.T) {
	a := tensor.Must(tensor.New([]float32{1, 2, 4, float32(math.NaN())}, 4))
	b := tensor.Must(tensor.New([]float32{1, 2.5, 4, float32(math.NaN())}, 4))
	v := compareValues(a, b, 0.1, 0.1)
	if v.Agree || *v.MaxAbs != 0.5 || math.Abs(*v.MaxRel-0.2) > 1e-12 || math.Abs(*v.NeedRtol-0.16) > 1e-12 || math.Abs(*v.NeedAtol-0.25) > 1e-12 {
		t.Errorf("%+v: %v %v %v %v", v, *v.MaxAbs, *v.MaxRel, *v.NeedRtol, *v.NeedAtol)
	}
	for _, tol := range [][2]float64{{*v.NeedRtol * (1 + 1e-9), 0.1}, {0.1, *v.NeedAtol * (1 + 1e-9)}} {
		if w := compareValues(a, b, tol[0], tol[1]); !w.Agree {
			t.Errorf("rtol %g, atol %g does not pass: %s", tol[0], tol[1], w.Error)
		}
	}
	inf := tensor.Must(tensor.New([]float32{1, float32(math.Inf(1)), 4, 0}, 4))
	if v := compareValues(inf, b, 0, 0); v.Agree || v.MaxAbs != nil || v.NeedAtol != nil {
		t.Errorf("an infinity has distance %v", v.MaxAbs)
	}
	if v := compareValues(nil, b, 0, 0); v.Agree || v.Error == "" {
		t.Error("nothing agrees with something")
	}
}

func TestProfileCommand(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace.json")
	out, _ := command(t, exitOK, "profile", "logreg_iris.onnx", "--provider", "reference", "--runs", "3", "--trace", trace, "--json")
	var r profileJSON
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, l := range r.Ops {
		sum += l.TimeMS
		if l.Count < 1 {
			t.Errorf("%+v", l)
		}
	}
	if r.Runs != 3 || len(r.Nodes) < 3 || math.Abs(sum-r.NodesMS) > 1e-9 || r.NodesMS > r.RunMS {
		t.Errorf("%+v", r)
	}
	data, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	var events []struct {
		Cat, Name, Ph string
		Dur           float64
	}
	if err := json.Unmarshal(data, &events); err != nil || len(events) != len(r.Nodes)+1 || events[0].Ph != "X" || events[0].Cat != "Node" || events[len(events)-1].Name != "model_run" {
		t.Errorf("trace: %v, %+v", err, events)
	}
	command(t, exitOK, "profile", "logreg_iris.onnx", "--top", "1")
}

func TestDoctor(t *testing.T) {
	lib, err := ortlib.Find()
	if err == nil {
		t.Setenv(ortlib.Env, lib)
	}
	out, _ := command(t, exitOK, "doctor", "--json")
	var d doctorJSON
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	found := map[string]doctorLibrary{}
	for _, p := range d.Providers {
		found[p.Name] = p
		if p.Available == (p.Missing != "") || p.Needs == "" {
			t.Errorf("%+v", p)
		}
	}
	if !found["cpu"].Available || !found["reference"].Available || d.CPU.Active == "" {
		t.Errorf("%+v", d)
	}
	if o, ok := found["ort"]; ok && lib != "" && (!o.Available || o.Library == nil || !strings.HasPrefix(o.Library.Version, "1.")) {
		t.Errorf("ort: %+v", o)
	}
	command(t, exitOK, "doctor")
}
