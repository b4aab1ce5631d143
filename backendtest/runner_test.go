package backendtest

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func TestNamesAndCategories(t *testing.T) {
	r := newRunner(t, backend.Reference, Options{}, absCase(t, "test_b", 1, 2))
	simple := absCase(t, "test_a", 1, 2)
	simple.Kind = "pytorch-operator"
	if err := r.Add(simple); err != nil {
		t.Fatal(err)
	}
	list, err := r.Results(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, res := range list {
		got = append(got, res.Category+"/"+res.Name+": "+res.text())
	}
	want := []string{
		"OnnxBackendNodeModelTest/test_b_cpu: passed",
		"OnnxBackendNodeModelTest/test_b_cuda: skipped: Backend doesn't support device CUDA",
		"OnnxBackendPyTorchOperatorModelTest/test_a_cpu: passed",
		"OnnxBackendPyTorchOperatorModelTest/test_a_cuda: skipped: Backend doesn't support device CUDA",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := r.Add(absCase(t, "test_b")); err == nil || err.Error() != `Duplicated test name "test_b_cpu" in category "NodeModel"` {
		t.Errorf("duplicate: %v", err)
	}
	if err := r.Add(absCase(t, "abs")); err == nil || err.Error() != "Test name must start with test_: abs" {
		t.Errorf("prefix: %v", err)
	}
}

func TestPatterns(t *testing.T) {
	cases := []TestCase{absCase(t, "test_abs_one", 1, 2), absCase(t, "test_abs_two", 1, 2),
		absCase(t, "test_wrong", 1, 3), absCase(t, "test_other", 1, 2)}
	for _, c := range []struct {
		name string
		set  func(r *Runner) *Runner
		want map[string]string
	}{
		{"all", func(r *Runner) *Runner { return r }, map[string]string{
			"test_abs_one_cpu": "passed", "test_wrong_cpu": "failed: data set 0"}},
		{"include is unanchored and its patterns are alternatives", func(r *Runner) *Runner { return r.Include("one").Include("^test_other") }, map[string]string{
			"test_abs_one_cpu": "passed", "test_abs_two_cpu": "skipped: no matched include pattern", "test_other_cpu": "passed", "test_wrong_cpu": "skipped: no matched include pattern"}},
		{"the device is part of the name", func(r *Runner) *Runner { return r.Include("two_cpu$") }, map[string]string{
			"test_abs_two_cpu": "passed", "test_abs_one_cpu": "skipped: no matched include pattern"}},
		{"exclude goes over include", func(r *Runner) *Runner { return r.Include("abs").Exclude("t.o_cpu") }, map[string]string{
			"test_abs_one_cpu": "passed", "test_abs_two_cpu": `skipped: matched exclude pattern "t.o_cpu"`, "test_other_cpu": "skipped: no matched include pattern"}},
		{"xfail", func(r *Runner) *Runner { return r.XFail("wrong").XFail("one") }, map[string]string{
			"test_wrong_cpu": "expected failure: data set 0", "test_abs_one_cpu": "failed: unexpected success", "test_abs_two_cpu": "passed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := run(t, c.set(newRunner(t, backend.CPU, Options{Devices: []string{"CPU"}}, cases...)))
			for name, want := range c.want {
				if got := res[name].text(); !strings.HasPrefix(got, want) {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
			}
		})
	}
	r := newRunner(t, backend.CPU, Options{}, cases...)
	if _, err := r.Include("(").Exclude("[").Results(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "include pattern") || !strings.Contains(err.Error(), "exclude pattern") {
		t.Errorf("bad patterns: %v", err)
	}
}

func TestCaseOptions(t *testing.T) {
	loose, exact := 0.5, 0.0
	cases := []TestCase{absCase(t, "test_near", 1, 2.5), absCase(t, "test_strict", 1, 2.0001)}
	o := Options{Devices: []string{"CPU"},
		Cases: map[string]CaseOptions{"test_near": {Rtol: &loose}, "test_strict": {Rtol: &exact, Atol: &exact}}}
	res := run(t, newRunner(t, backend.CPU, o, cases...))
	if res["test_near_cpu"].Status != Passed || res["test_strict_cpu"].Status != Failed {
		t.Errorf("got %v", res)
	}
	if r := res["test_near_cpu"]; r.MaxAbs != 0.5 || r.MaxRel != 0.2 {
		t.Errorf("max_abs %g, max_rel %g, want 0.5 and 0.2", r.MaxAbs, r.MaxRel)
	}
	o.Cases["test_typo"] = CaseOptions{}
	if _, err := newRunner(t, backend.CPU, o, cases...).Results(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "test_typo") {
		t.Errorf("options without a case: %v", err)
	}
}

// This test checks that options of a case reach Prepare: the model is not valid ONNX, so that
// only the case that skips the checker passes.
func TestPrepareOptions(t *testing.T) {
	bad := absCase(t, "test_unchecked", 1, 2)
	bad.Model.IRVersion = 0
	checked := bad
	checked.Name = "test_checked"
	o := Options{Devices: []string{"CPU"},
		Cases: map[string]CaseOptions{"test_unchecked": {Prepare: &backend.Options{SkipCheck: true}}}}
	res := run(t, newRunner(t, backend.CPU, o, bad, checked))
	if got := res["test_unchecked_cpu"]; got.Status != Passed {
		t.Errorf("unchecked: %s", got.text())
	}
	if got := res["test_checked_cpu"]; got.Status != Failed {
		t.Errorf("checked: %s", got.text())
	}
}

func TestUnsupportedModelIsSkipped(t *testing.T) {
	c := absCase(t, "test_unknown", 1, 2)
	c.Model = unary(t, "NoSuchOperator")
	res := run(t, newRunner(t, backend.CPU, Options{Devices: []string{"CPU"}}, c))["test_unknown_cpu"]
	if res.Status != Skipped || !strings.Contains(res.Reason, "Not compatible with backend") ||
		!strings.Contains(res.Reason, "NoSuchOperator") {
		t.Errorf("got %s", res.text())
	}
}

// This test checks that a case prepares its model once and runs every data set as often as
// requested.
func TestPreparedOnce(t *testing.T) {
	c := absCase(t, "test_many", 1, 2)
	c.DataSets = slices.Repeat(c.DataSets, 5)
	b := &counting{Provider: backend.Reference}
	res := run(t, newRunner(t, b, Options{Devices: []string{"CPU"}, Runs: 3}, c))
	if res["test_many_cpu"].Status != Passed || b.sessions.Load() != 1 {
		t.Errorf("%s with %d sessions", res["test_many_cpu"].text(), b.sessions.Load())
	}
}

// This test checks that data sets after the first one decide the result too.
func TestSecondDataSet(t *testing.T) {
	c := absCase(t, "test_second", 1, 2)
	c.DataSets = append(c.DataSets, DataSet{Inputs: []tensor.Value{vector(-3)}, Outputs: []tensor.Value{vector(4)}})
	res := run(t, newRunner(t, backend.CPU, Options{Devices: []string{"CPU"}}, c))["test_second_cpu"]
	if res.Status != Failed || !strings.Contains(res.text(), "data set 1") || res.MaxAbs != 1 {
		t.Errorf("got %s, max_abs %g", res.text(), res.MaxAbs)
	}
}

func TestPanicFailsOneCase(t *testing.T) {
	res := run(t, newRunner(t, panicking{backend.Reference}, Options{Devices: []string{"CPU"}},
		absCase(t, "test_a", 1, 2), absCase(t, "test_b", 1, 2)))
	for _, r := range res {
		if r.Status != Failed || !strings.Contains(r.Err.Error(), "panic: broken invariant") {
			t.Errorf("%s: %s", r.Name, r.text())
		}
	}
}

func TestCancelledResults(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newRunner(t, backend.CPU, Options{}, absCase(t, "test_a", 1, 2)).
		Results(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestProgress(t *testing.T) {
	seen := map[int]bool{}
	o := Options{Devices: []string{"CPU"}, Parallel: 4, Progress: func(done, total int, _ Result) {
		if total != 3 || seen[done] {
			t.Errorf("progress %d/%d", done, total)
		}
		seen[done] = true
	}}
	run(t, newRunner(t, backend.CPU, o, absCase(t, "test_a", 1, 2), absCase(t, "test_b", 1, 2),
		absCase(t, "test_c", 1, 2)))
	if len(seen) != 3 {
		t.Errorf("%d calls", len(seen))
	}
}

func TestSubtests(t *testing.T) {
	r := newRunner(t, backend.CPU, Options{}, absCase(t, "test_good", 1, 2), absCase(t, "test_wrong", 1, 3),
		absCase(t, "test_out", 1, 3))
	counts := r.XFail("wrong").Exclude("out").Run(t)
	if want := (Tally{Passed: 1, Skipped: 4, ExpectedFailures: 1}); counts["OnnxBackendNodeModelTest"] != want {
		t.Errorf("counts %+v, want %+v", counts["OnnxBackendNodeModelTest"], want)
	}
}

func TestCompare(t *testing.T) {
	nan := tensor.Must(tensor.New([]float64{0, 1}, 2))
	tensor.MustData[float64](nan)[0] /= tensor.MustData[float64](nan)[0]
	ones := tensor.Must(tensor.New([]float64{1, 1}, 2))
	seq := func(items ...tensor.Value) *tensor.Sequence {
		s, err := tensor.NewSequence(tensor.TensorType(tensor.TypeFloat32), items...)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	bf16 := func(v float32) *tensor.Tensor {
		return tensor.Must(tensor.New([]tensor.BFloat16{tensor.NewBFloat16(v)}, 1))
	}
	column, err := vector(1).Reshape(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		got, want []tensor.Value
		err       string // part of the error, "" for no error
		abs       float64
	}{
		{"equal", []tensor.Value{vector(1, 2)}, []tensor.Value{vector(1, 2)}, "", 0},
		{"number of outputs", []tensor.Value{vector(1)}, nil, "1 outputs, want 0", 0},
		{"shape", []tensor.Value{vector(1)}, []tensor.Value{column}, "shape [1], want [1 1]", 0},
		{"type", []tensor.Value{vector(1)}, []tensor.Value{tensor.Must(tensor.New([]float64{1}, 1))}, "want double", 0},
		{"errors of both outputs", []tensor.Value{vector(1), vector(1)}, []tensor.Value{vector(2), vector(4)}, "output 1", 3},
		{"atol + rtol·|want|", []tensor.Value{vector(100.1)}, []tensor.Value{vector(100)}, "", 0.09999847412109375},
		{"NaN equals NaN", []tensor.Value{nan}, []tensor.Value{nan}, "", 0},
		{"NaN in the first of two outputs", []tensor.Value{nan, vector(1)}, []tensor.Value{ones, vector(4)}, "output 0", math.NaN()},
		{"NaN in the second of two outputs", []tensor.Value{vector(1), nan}, []tensor.Value{vector(4), ones}, "output 1", math.NaN()},
		{"strings", []tensor.Value{tensor.Must(tensor.New([]string{"a"}, 1))}, []tensor.Value{tensor.Must(tensor.New([]string{"b"}, 1))}, "differ", 0},
		{"sequence", []tensor.Value{seq(vector(1), vector(3))}, []tensor.Value{seq(vector(1), vector(3))}, "", 0},
		{"length of a sequence", []tensor.Value{seq(vector(1))}, []tensor.Value{seq()}, "sequence of 1 items, want 0", 0},
		{"item of a sequence", []tensor.Value{seq(vector(1), vector(3))}, []tensor.Value{seq(vector(1), vector(4))}, "[1]", 1},
		{"bfloat16", []tensor.Value{bf16(1)}, []tensor.Value{bf16(1.5)}, "differ", 0.5},
		{"two steps of bfloat16", []tensor.Value{bf16(1)}, []tensor.Value{bf16(1 + 2./128)}, "", 2. / 128},
		{"three steps of bfloat16", []tensor.Value{bf16(1)}, []tensor.Value{bf16(1 + 3./128)}, "differ", 3. / 128},
		{"empty optional", []tensor.Value{&tensor.Optional{}}, []tensor.Value{&tensor.Optional{Value: vector(1)}}, "want", 0},
	} {
		abs, _, err := Compare(c.got, c.want, DefaultRtol, DefaultAtol)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.err)
		}
		if abs != c.abs && !(math.IsNaN(abs) && math.IsNaN(c.abs)) {
			t.Errorf("%s: max_abs %v, want %v", c.name, abs, c.abs)
		}
	}
}

// This test checks that a model whose first input is an initializer gets its data by name.
func TestInputsBesideInitializers(t *testing.T) {
	b := onnx.NewModel("g").IRVersion(3).Opset("", 8)
	b.Input("w", onnx.Float, 2).Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Initializer("w", []float32{10, 20}, 2)
	b.Node("Add", []string{"w", "x"}, []string{"y"})
	c := TestCase{Name: "test_add", Kind: "node", Model: b.Must(),
		DataSets: []DataSet{{Inputs: []tensor.Value{nil, vector(1, 2)}, Outputs: []tensor.Value{vector(11, 22)}}}}
	if res := run(t, newRunner(t, backend.CPU, Options{Devices: []string{"CPU"}}, c))["test_add_cpu"]; res.Status !=
		Passed {
		t.Error(res.text())
	}
}
