package backendtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// unary is a model y = op(x) for a vector.
func unary(t testing.TB, op string, attrs ...onnx.Attrs) *onnx.Model {
	t.Helper()
	b := onnx.NewModel(op + "_graph")
	b.Input("x", onnx.Float, "n").Output("y", onnx.Float, "n")
	b.Node(op, []string{"x"}, []string{"y"}, attrs...)
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func vector(x ...float32) *tensor.Tensor { return tensor.Must(tensor.New(x, len(x))) }

// absCase is a case in memory that passes if Abs is correct and want is its result.
func absCase(t testing.TB, name string, want ...float32) TestCase {
	return TestCase{Name: name, Kind: "node", Model: unary(t, "Abs"), Rtol: DefaultRtol, Atol: DefaultAtol,
		DataSets: []DataSet{{Inputs: []tensor.Value{vector(-1, 2)}, Outputs: []tensor.Value{vector(want...)}}}}
}

func write(t testing.TB, path string, data []byte, err error) {
	t.Helper()
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

// writeCase writes a case into a data folder.
func writeCase(t testing.TB, dir string, m *onnx.Model, in, out tensor.Value) {
	t.Helper()
	data, err := m.Marshal()
	write(t, filepath.Join(dir, "model.onnx"), data, err)
	data, err = onnx.MarshalValue(in)
	write(t, filepath.Join(dir, "test_data_set_0", "input_0.pb"), data, err)
	data, err = onnx.MarshalValue(out)
	write(t, filepath.Join(dir, "test_data_set_0", "output_0.pb"), data, err)
}

// counting is the reference backend. It counts its sessions.
type counting struct {
	backend.Provider
	sessions atomic.Int32
}

func (c *counting) NewSession(ctx context.Context, m *onnx.Model, d backend.Device,
	opts *onward.SessionOptions) (*onward.Session, error) {
	c.sessions.Add(1)
	return c.Provider.NewSession(ctx, m, d, opts)
}

// panicking panics when it opens a session.
type panicking struct{ backend.Provider }

func (panicking) NewSession(context.Context, *onnx.Model, backend.Device,
	*onward.SessionOptions) (*onward.Session, error) {
	panic("broken invariant")
}

func newRunner(t testing.TB, b backend.Backend, o Options, cases ...TestCase) *Runner {
	t.Helper()
	r, err := New(b, &o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if err := r.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// run returns the results by name.
func run(t testing.TB, r *Runner) map[string]Result {
	t.Helper()
	list, err := r.Results(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]Result{}
	for _, res := range list {
		m[res.Name] = res
	}
	if len(m) != len(list) {
		t.Fatalf("%d results, %d names", len(list), len(m))
	}
	return m
}

func (r Result) text() string {
	if r.Err != nil {
		return fmt.Sprintf("%s: %v", r.Status, r.Err)
	}
	if r.Reason != "" {
		return fmt.Sprintf("%s: %s", r.Status, r.Reason)
	}
	return string(r.Status)
}
