package backendtest

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func TestUnknownKind(t *testing.T) {
	dir := t.TempDir()
	for _, k := range []string{"node", "real", "empty"} {
		if err := os.MkdirAll(filepath.Join(dir, k), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []string{"node/test_a", "real/test_b"} {
		if err := os.MkdirAll(filepath.Join(dir, c), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	_, err := LoadModelTests(dir, "nodes")
	if want := "kind must be one of ['node', 'real']"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLoadModelTests(t *testing.T) {
	dir := t.TempDir()
	m := unary(t, "Abs")
	writeCase(t, filepath.Join(dir, "simple", "test_plain"), m, vector(-1), vector(1))
	writeCase(t, filepath.Join(dir, "simple", "test_loose"), m, vector(-1), vector(1))
	write(t, filepath.Join(dir, "simple", "test_loose", "data.json"), []byte(`{"rtol": 0.5, "atol": 0}`), nil)
	write(t, filepath.Join(dir, "simple", "test_far", "data.json"), []byte(`{"url":"https://example.org/m.tar.gz","model_name":"far","rtol":0.002}`), nil)
	write(t, filepath.Join(dir, "simple", "__init__.py"), nil, nil)
	cases, err := LoadModelTests(dir, "simple")
	if err != nil {
		t.Fatal(err)
	}
	want := []TestCase{
		{Name: "test_far", ModelName: "far", URL: "https://example.org/m.tar.gz", Rtol: 0.002, Atol: 1e-7},
		{Name: "test_loose", ModelName: "loose", ModelDir: filepath.Join(dir, "simple", "test_loose"), Rtol: 0.5},
		{Name: "test_plain", ModelName: "plain", ModelDir: filepath.Join(dir, "simple", "test_plain"), Rtol: 1e-3, Atol: 1e-7},
	}
	if len(cases) != len(want) {
		t.Fatalf("%d cases, want %d", len(cases), len(want))
	}
	for i, w := range want {
		c := cases[i]
		if c.Name != w.Name || c.ModelName != w.ModelName || c.URL != w.URL || c.ModelDir != w.ModelDir ||
			c.Rtol != w.Rtol || c.Atol != w.Atol || c.Kind != "simple" {
			t.Errorf("case %d is %+v, want %+v", i, c, w)
		}
	}
}

func TestBadCaseFiles(t *testing.T) {
	for _, c := range []struct{ json, want string }{
		{`{`, "data.json"},
		{`{}`, "lacks url"},
		{`{"url":"u","model_name":"../../etc"}`, "points outside"},
		{strings.Repeat(" ", maxCaseFile+1), "at most"},
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "real", "test_x", "data.json"), []byte(c.json), nil)
		if _, err := LoadModelTests(dir, "real"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20q: got %v, want …%s…", c.json, err, c.want)
		}
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "node", "test_x"), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadModelTests(dir, "node"); err == nil ||
		!strings.Contains(err.Error(), "neither model.onnx nor data.json") {
		t.Errorf("empty folder: %v", err)
	}
}

func TestBrokenDataFailsTheCase(t *testing.T) {
	for _, c := range []struct {
		break_ func(dir string) error
		want   string
	}{
		{func(d string) error { return os.RemoveAll(filepath.Join(d, "test_data_set_0")) }, "has no test_data_set"},
		{func(d string) error {
			return os.WriteFile(filepath.Join(d, "test_data_set_0", "input_1.pb"), nil, 0o666)
		}, "the graph declares 1"},
		{func(d string) error {
			return os.WriteFile(filepath.Join(d, "test_data_set_0", "output_0.pb"), []byte{0xff}, 0o666)
		}, "output_0.pb"},
		{func(d string) error { return os.WriteFile(filepath.Join(d, "model.onnx"), []byte{0xff}, 0o666) }, "model"},
		{func(d string) error { return os.WriteFile(filepath.Join(d, "model.onnx"), nil, 0o666) }, "no graph"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "node", "test_x")
		writeCase(t, path, unary(t, "Abs"), vector(-1), vector(1))
		if err := c.break_(path); err != nil {
			t.Fatal(err)
		}
		res := run(t, newRunner(t, backend.Reference, Options{Dir: dir, Devices: []string{"CPU"}}))["test_x_cpu"]
		if res.Status != Failed || !strings.Contains(res.text(), c.want) {
			t.Errorf("got %s, want failed: …%s…", res.text(), c.want)
		}
	}
}

// TestDataDir finds the data folder without a name, as load_model_tests of ONNX does.
func TestDataDir(t *testing.T) {
	root := t.TempDir()
	for _, sub := range []string{"wheel/onnx/backend/test/data", "data", "cache/onward/onnx-1.9.0",
		"cache/onward/onnx-1.22.0"} {
		writeCase(t, filepath.Join(root, sub, "node", "test_"+filepath.Base(sub)), unary(t, "Abs"),
			vector(-1), vector(1))
	}
	t.Setenv("XDG_CACHE_HOME", filepath.Join(root, "cache"))
	for env, want := range map[string]string{"": "test_onnx-1.22.0", "wheel": "test_data",
		"data": "test_data", "cache": ""} {
		t.Setenv(DataEnv, "")
		if env != "" {
			t.Setenv(DataEnv, filepath.Join(root, env))
		}
		cases, err := LoadModelTests("", "node")
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), DataEnv) {
				t.Errorf("%s: %v", env, err)
			}
			continue
		}
		if err != nil || len(cases) != 1 || cases[0].Name != want {
			t.Errorf("%s=%q: %+v, %v, want %s", DataEnv, env, cases, err, want)
		}
	}
}

// TestArchives runs data sets in NumPy archives, which ONNX's runner reads before the folders.
func TestArchives(t *testing.T) {
	ones, bad := []float32{1, 0, 1, 1}, []float32{1, 0, 1, 2}
	for name, c := range map[string]struct {
		out  []float32
		keys []string
		want string
	}{
		"right": {ones, []string{"inputs", "outputs"}, "passed"}, "wrong": {bad, []string{"inputs", "outputs"}, "failed: data set 0"},
		"incomplete": {ones, []string{"inputs", "x"}, "array outputs: want an array of at least one axis"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "node", "test_x")
		m := onnx.NewModel("two")
		m.Input("a", onnx.Float, 2, 2).Input("b", onnx.Float, 2, 2).Output("c", onnx.Float, 2, 2)
		m.Node("Max", []string{"a", "b"}, []string{"c"})
		data, err := m.Must().Marshal()
		write(t, filepath.Join(path, "model.onnx"), data, err)
		var z tensor.NPZ
		for k, x := range [][]float32{{1, -2, 0, 1, 0, 0, 1, 0}, c.out} {
			if err := z.Add(c.keys[k], tensor.Must(tensor.New(x, len(x)/4, 2, 2))); err != nil {
				t.Fatal(err)
			}
		}
		if err := tensor.WriteNPZFile(filepath.Join(path, "test_data_0.npz"), &z, true); err != nil {
			t.Fatal(err)
		}
		res := run(t, newRunner(t, backend.Reference, Options{Dir: dir, Devices: []string{"CPU"}}))["test_x_cpu"]
		if !strings.Contains(res.text(), c.want) {
			t.Errorf("%s: %s, want %s", name, res.text(), c.want)
		}
	}
}

// TestLightWithoutExpectedOutputs compares a light model with another provider if the suite has
// no file of expected outputs. The result says so.
func TestLightWithoutExpectedOutputs(t *testing.T) {
	dir := t.TempDir()
	data, err := unary(t, "Abs").Marshal()
	write(t, filepath.Join(dir, "light", "light_abs.onnx"), data, err)
	write(t, filepath.Join(dir, "real", "test_abs", "data.json"), []byte(`{"url": "onnx/backend/test/data/light/light_abs.onnx", "model_name": "abs"}`), nil)
	for b, want := range map[backend.Backend]string{backend.CPU: "reference", backend.Reference: "cpu",
		wrongOperator{backend.CPU}: "reference"} {
		r := newRunner(t, b, Options{Dir: dir, Kinds: []string{"real"}, Devices: []string{"CPU"}})
		list, err := r.Results(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		status, n := Passed, 1
		if _, wrong := b.(wrongOperator); wrong {
			status, n = Failed, 0
		}
		if list[0].Status != status || list[0].Against != want || CountAgainst(list) != n {
			t.Errorf("%v: %s, compared with %q, %d counted; want %s, %q, %d", b, list[0].text(), list[0].Against,
				CountAgainst(list), status, want, n)
		}
	}
}

// wrongOperator runs Cos instead of the model's operator.
type wrongOperator struct{ backend.Provider }

func (w wrongOperator) NewSession(ctx context.Context, m *onnx.Model, d backend.Device,
	opts *onward.SessionOptions) (*onward.Session, error) {
	c, g, n := *m, *m.Graph, *m.Graph.Nodes[0]
	n.OpType = "Cos"
	g.Nodes, c.Graph = []*onnx.Node{&n}, &g
	return w.Provider.NewSession(ctx, &c, d, opts)
}

// TestCategories compares with the class names of onnx.backend.test.
func TestCategories(t *testing.T) {
	for kind, want := range map[string]string{"node": "OnnxBackendNodeModelTest", "real": "OnnxBackendRealModelTest",
		"simple":            "OnnxBackendSimpleModelTest",
		"pytorch-converted": "OnnxBackendPyTorchConvertedModelTest", "pytorch-operator": "OnnxBackendPyTorchOperatorModelTest", "my_kind": "OnnxBackendMyKindModelTest"} {
		if got := Category(kind); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}

func TestLightInput(t *testing.T) {
	declared := func(t onnx.DataType, dims ...any) *onnx.ValueInfo {
		g, err := onnx.NewGraph("g").Input("x", t, dims...).Graph()
		if err != nil {
			panic(err) // only for a dim of a wrong type
		}
		return g.Inputs[0]
	}
	got, err := countingInput(declared(onnx.Float, "n", 2, 2))
	if err != nil {
		t.Fatal(err)
	}
	want, err := vector(0, 0.25, 0.5, 0.75).Reshape(1, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := tensor.Equal(got, want); err != nil {
		t.Error(err)
	}
	for _, bad := range []*onnx.ValueInfo{
		{Name: "x"},
		declared(onnx.Int64, 2),
		declared(onnx.Float, math.MaxInt),
		declared(onnx.Float, 1<<20, 1<<20),
		declared(onnx.Float, -3),
	} {
		if _, err := countingInput(bad); err == nil {
			t.Errorf("%+v: no error", bad.Type)
		}
	}
}

// This test checks the number of cases that this package relies on.
func TestSuiteHasTheCases(t *testing.T) {
	dir := suite.Dir(t)
	kinds, err := Kinds(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, k := range kinds {
		cases, err := LoadModelTests(dir, k)
		if err != nil {
			t.Fatal(err)
		}
		if n := suite.Cases[k]; len(cases) != n {
			t.Errorf("%s: %d cases, want %d", k, len(cases), n)
		}
		for _, c := range cases {
			all[c.Name] = true
			if k == "real" && c.lightPath() == "" {
				t.Errorf("%s has no light model", c.Name)
			}
		}
	}
	if want := []string{"node", "pytorch-converted", "pytorch-operator", "real", "simple"}; !slices.Equal(kinds, want) {
		t.Errorf("kinds %v, want %v", kinds, want)
	}
	for name := range RandomChecks {
		if !all[name] {
			t.Errorf("RandomChecks names %s, which is not in the suite", name)
		}
	}
}
