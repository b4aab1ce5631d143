package backend_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func TestParseDevice(t *testing.T) {
	for _, c := range []struct {
		in   string
		want backend.Device
		err  string
	}{
		{"CPU", backend.Device{Type: "cpu"}, ""},
		{"", backend.Device{Type: "cpu"}, ""},
		{"CPU:0", backend.Device{Type: "cpu"}, ""},
		{"CUDA", backend.Device{Type: "cuda"}, ""},
		{"CUDA:1", backend.Device{Type: "cuda", ID: 1}, ""},
		{"GPU", backend.Device{Type: "cuda"}, ""},
		{"GPU:1", backend.Device{Type: "cuda", ID: 1}, ""},
		{"cpu", backend.Device{}, "unknown device type"},
		{"TPU", backend.Device{}, "unknown device type"},
		{":1", backend.Device{}, "unknown device type"},
		{"CUDA:", backend.Device{}, "not a number"},
		{"CUDA:-1", backend.Device{}, "not a number"},
		{"CUDA:x", backend.Device{}, "not a number"},
		{"CUDA:1:2", backend.Device{}, "not a number"},
		{"CUDA:99999999999", backend.Device{}, "not a number"},
	} {
		d, err := backend.ParseDevice(c.in)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %v, want %q", c.in, err, c.err)
		}
		if err == nil && d != c.want {
			t.Errorf("%q: %+v, want %+v", c.in, d, c.want)
		}
	}
}

func TestDeviceTypes(t *testing.T) {
	if backend.DeviceCPU != 0 || backend.DeviceCUDA != 1 {
		t.Error("device types are numbered unlike those of ONNX")
	}
	for ort, want := range map[string]string{"": "CPU", "cpu": "CPU", "cuda": "CUDA", "gpu": "CUDA"} {
		if got, err := backend.TypeOf(backend.Device{Type: ort}); err != nil || got.String() != want {
			t.Errorf("%q: %v, %v, want %s", ort, got, err, want)
		}
	}
	if got, err := backend.TypeOf(backend.Device{Type: "npu"}); err == nil {
		t.Errorf("npu: %v", got)
	}
}

func TestPrepareTakesEveryForm(t *testing.T) { onProviders(t, testPrepareTakesEveryForm) }

func testPrepareTakesEveryForm(t *testing.T, p backend.Provider) {
	m := linear()
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	sess, err := onward.OpenModel(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sess.Close()
	for name, r := range map[string]*backend.Rep{
		"path": prepare(t, path, p, nil), "bytes": prepare(t, data, p, nil),
		"stream": prepare(t, backend.Stream{Reader: bytes.NewReader(data)}, p, nil),
		"model":  prepare(t, m, p, nil), "graph": prepare(t, m.Graph, p, nil),
		"session": prepare(t, sess, p, nil), "variable": prepare(t, backend.From(backend.From(path)), p, nil),
	} {
		out, err := r.Run(t.Context(), backend.One(matrix()), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		wantEqual(t, out.Tensor(0), linearResult)
	}
	r := prepare(t, m, p, nil)
	if again := prepare(t, r, p, nil); again != r {
		t.Error("a Rep is not returned as it is")
	}
	refuse(t, (*onnx.Model)(nil))
	refuse(t, (*onnx.Graph)(nil))
	refuse(t, (*onnx.Function)(nil))
	refuse(t, (*onward.Session)(nil))
	refuse(t, (*backend.Rep)(nil))
	refuse(t, backend.Stream{})
	refuse(t, backend.Any{})
	refuse(t, backend.From(""))
	refuse(t, []byte{0xff})
	refuse(t, filepath.Join(t.TempDir(), "none.onnx"))
}

func refuse[S backend.Preparable](t *testing.T, bad S) {
	t.Helper()
	if r, err := backend.Prepare(t.Context(), bad, backend.CPU, nil); err == nil {
		t.Errorf("%T: prepared %v", bad, r)
	}
}

func TestPrepareFunction(t *testing.T) { onProviders(t, testPrepareFunction) }

func testPrepareFunction(t *testing.T, p backend.Provider) {
	b := newModel("m").Opset("local", 1)
	b.Function("local", "Twice").Inputs("a").Outputs("c").Node("Add", []string{"a", "a"}, []string{"c"})
	f := b.Must().Functions[0]
	if _, err := backend.Prepare(t.Context(), f, p, nil); err == nil ||
		!strings.Contains(err.Error(), "give an example") {
		t.Errorf("without example: %v", err)
	}
	out, err := backend.RunModel(t.Context(), f, p, backend.List{vector(1, 2)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, out.Get("c"), vector(2, 4))
}

func TestIncompatibleDevice(t *testing.T) {
	r := prepare(t, linear(), backend.CPU, nil)
	cuda := &backend.Options{Device: "CUDA:1"}
	_, ofRep := backend.Prepare(t.Context(), r, backend.CPU, cuda)
	_, ofSession := backend.Prepare(t.Context(), r.Session, backend.CPU, cuda)
	m := linear()
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	_, ofModel := backend.Prepare(t.Context(), m, backend.CPU, cuda)
	_, ofPath := backend.Prepare(t.Context(), path, backend.CPU, cuda)
	_, ofBytes := backend.Prepare(t.Context(), data, backend.CPU, cuda)
	for name, err := range map[string]error{"Rep": ofRep, "session": ofSession, "model": ofModel, "path": ofPath,
		"bytes": ofBytes} {
		var st *onward.StatusError
		if want := "Incompatible device expected 'CUDA:1', got 'CPU'"; !errors.As(err, &st) ||
			st.Code != onward.CodeInvalidArgument || st.Message != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

func TestInputsOfARun(t *testing.T) { onProviders(t, testInputsOfARun) }

func testInputsOfARun(t *testing.T, p backend.Provider) {
	two := newModel("two")
	two.Input("a", onnx.Float, 2).Input("b", onnx.Float, 2).Output("s", onnx.Float, 2).Output("d", onnx.Float, 2)
	two.Node("Add", []string{"a", "b"}, []string{"s"})
	two.Node("Sub", []string{"a", "b"}, []string{"d"})
	r := prepare(t, two.Must(), p, nil)
	a, b := vector(5, 7), vector(1, 2)
	for name, in := range map[string]backend.Inputs{"list": backend.List{a, b}, "map": backend.Named{"b": b, "a": a}} {
		out, err := r.Run(t.Context(), in, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !slices.Equal(out.Names, []string{"s", "d"}) {
			t.Errorf("names %v", out.Names)
		}
		wantEqual(t, out.Values[0], vector(6, 9))
		wantEqual(t, out.Get("d"), vector(4, 5))
		if out.Get("none") != nil || out.Tensor(2) != nil || out.Tensor(-1) != nil {
			t.Error("outputs that do not exist are not nil")
		}
	}
	if _, err := r.Run(t.Context(), backend.One(a), nil); err == nil || err.Error() != "Expecting one input not 2." {
		t.Errorf("a bare tensor for two inputs: %v", err)
	}
	if _, err := r.Run(t.Context(), backend.List{a, b, b}, nil); err == nil ||
		!strings.Contains(err.Error(), "got 3 inputs, the model has 2") {
		t.Errorf("too many: %v", err)
	}
	if _, err := r.Run(t.Context(), backend.List{a}, nil); !errors.Is(err, onward.ErrInvalidArgument) {
		t.Errorf("too few: %v", err)
	}
	out, err := r.Run(t.Context(), backend.List{a, b}, &onward.RunOptions{Outputs: []string{"d"}})
	if err != nil || !slices.Equal(out.Names, []string{"d"}) {
		t.Errorf("one output: %v, %v", out, err)
	}
	m, err := r.RunMap(t.Context(), backend.List{a, b})
	if err != nil || len(m) != 2 {
		t.Fatalf("map: %v, %v", m, err)
	}
	wantEqual(t, m["s"], vector(6, 9))
}

func TestInitializersAreNoInputs(t *testing.T) { onProviders(t, testInitializersAreNoInputs) }

func testInitializersAreNoInputs(t *testing.T, p backend.Provider) {
	b := newModel("m")
	b.Input("x", onnx.Float, 2).Input("k", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Initializer("k", []float32{10, 20}, 2)
	b.Node("Mul", []string{"x", "k"}, []string{"y"})
	r := prepare(t, b.Must(), p, nil)
	out, err := r.Run(t.Context(), backend.One(vector(1, 2)), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, out.Tensor(0), vector(10, 40))
	out, err = r.Run(t.Context(), backend.List{vector(1, 2), vector(3, 3)}, nil)
	if p == "openvino" { // makes constants of initializers
		if !errors.Is(err, onward.ErrNotImplemented) {
			t.Errorf("another value of the initializer: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, out.Tensor(0), vector(3, 6))
}

func unknownOperators() *onnx.Model {
	b := newModel("m")
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("Frobnicate", []string{"x"}, []string{"h"})
	b.Node("Defrobnicate", []string{"h"}, []string{"y"})
	return b.Must()
}

func TestIsCompatible(t *testing.T) {
	ok, why := backend.IsCompatible(t.Context(), linear(), backend.CPU, "CPU")
	if !ok || why != nil {
		t.Errorf("linear: %v, %v", ok, why)
	}
	for _, c := range []struct {
		model  *onnx.Model
		device string
		want   []string
	}{
		{linear(), "CUDA", []string{"Incompatible device expected 'CUDA', got 'CPU'"}},
		{linear(), "cpu", []string{"unknown device type"}},
		{unknownOperators(), "CPU", []string{"Frobnicate", "Defrobnicate"}},
	} {
		ok, why := backend.IsCompatible(t.Context(), c.model, backend.CPU, c.device)
		if ok || why == nil {
			t.Errorf("%s on %s: compatible", c.model.Graph.Name, c.device)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(why.Error(), w) {
				t.Errorf("%v does not say %q", why, w)
			}
		}
	}
}

func TestMissingOperatorIsSkippedWithATypedError(t *testing.T) {
	_, err := backend.Prepare(t.Context(), unknownOperators(), backend.CPU, nil)
	if !errors.Is(err, backend.ErrSkip) || !errors.Is(err, onward.ErrNotImplemented) ||
		!strings.Contains(err.Error(), "Frobnicate") {
		t.Errorf("got %v", err)
	}
}

func TestIsOpsetSupported(t *testing.T) {
	m := linear()
	if ok, why := backend.IsOpsetSupported(m); !ok || why != "" {
		t.Errorf("newest: %v %q", ok, why)
	}
	m.OpsetImports = append(m.OpsetImports, onnx.OperatorSetID{Domain: "my.domain", Version: 1000})
	if ok, why := backend.IsOpsetSupported(m); !ok || why != "" {
		t.Errorf("a domain that is not ONNX's: %v %q", ok, why)
	}
	m.OpsetImports[0].Version = 1000
	if ok, why := backend.IsOpsetSupported(m); ok || why != notReleased {
		t.Errorf("1000: %v %q", ok, why)
	}
	for value, want := range map[string]bool{"1": false, "0": true, "no": true} {
		t.Setenv("ALLOW_RELEASED_ONNX_OPSET_ONLY", value)
		if ok, why := backend.IsOpsetSupported(m); ok != want || ok != (why == "") {
			t.Errorf("with the environment variable %q: %v %q", value, ok, why)
		}
	}
}

// TestStatusOfPrepare checks that every error of Prepare has a status code.
func TestStatusOfPrepare(t *testing.T) {
	data, err := linear().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	wrong := linear()
	wrong.Graph.Nodes[0].Inputs[0] = "nosuch"
	for name, c := range map[string]struct {
		prepare func() error
		want    error
	}{
		"no file":          {func() error { return prepareError(t, filepath.Join(t.TempDir(), "none.onnx"), nil) }, onward.ErrNoSuchFile},
		"cut bytes":        {func() error { return prepareError(t, data[:len(data)/2], nil) }, onward.ErrInvalidProtobuf},
		"invalid graph":    {func() error { return prepareError(t, wrong, nil) }, onward.ErrInvalidGraph},
		"unknown operator": {func() error { return prepareError(t, unknownOperators(), nil) }, onward.ErrNotImplemented},
		"wrong device":     {func() error { return prepareError(t, data, &backend.Options{Device: "tpu"}) }, onward.ErrInvalidArgument},
		"nil":              {func() error { return prepareError(t, (*onnx.Model)(nil), nil) }, onward.ErrInvalidArgument},
		"no such output":   {func() error { return prepareError(t, data, &backend.Options{NewOutputs: []string{"q"}}) }, onward.ErrInvalidArgument},
		"empty stream":     {func() error { return prepareError(t, backend.Stream{}, nil) }, onward.ErrInvalidArgument},
	} {
		if err := c.prepare(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func prepareError[S backend.Preparable](t *testing.T, model S, o *backend.Options) error {
	_, err := backend.Prepare(t.Context(), model, backend.CPU, o)
	return err
}

func TestCheckerRunsFirst(t *testing.T) { onProviders(t, testCheckerRunsFirst) }

func testCheckerRunsFirst(t *testing.T, p backend.Provider) {
	m := linear()
	m.Graph.Nodes[2].Inputs[0] = "nowhere"
	_, err := backend.Prepare(t.Context(), m, p, nil)
	var all *onnx.CheckErrors
	if !errors.As(err, &all) || errors.Is(err, backend.ErrSkip) {
		t.Errorf("got %v", err)
	}
}

// TestFilesAreNotChecked prepares a model whose nodes are out of order and whose output has no
// shape. It is refused in memory and runs from its bytes, a stream and its file.
func TestFilesAreNotChecked(t *testing.T) {
	for _, p := range []backend.Provider{backend.CPU, backend.Reference} {
		m := linear()
		slices.Reverse(m.Graph.Nodes)
		m.Graph.Outputs[0].Type.Tensor.Shape = nil
		var all *onnx.CheckErrors
		if _, err := backend.Prepare(t.Context(), m, p, nil); !errors.As(err, &all) {
			t.Errorf("%s: in memory: %v, want errors of the checker", p, err)
		}
		data, err := m.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "m.onnx")
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		for _, run := range []func() (*backend.Outputs, error){
			func() (*backend.Outputs, error) {
				return backend.RunModel(t.Context(), path, p, backend.One(matrix()), nil)
			},
			func() (*backend.Outputs, error) {
				return backend.RunModel(t.Context(), data, p, backend.One(matrix()), nil)
			},
			func() (*backend.Outputs, error) {
				return backend.RunModel(t.Context(), backend.Stream{Reader: bytes.NewReader(data)}, p,
					backend.One(matrix()), nil)
			},
		} {
			out, err := run()
			if err != nil {
				t.Fatalf("%s: %v", p, err)
			}
			wantEqual(t, out.Tensor(0), linearResult)
		}
	}
}

func TestRunNode(t *testing.T) { onProviders(t, testRunNode) }

func testRunNode(t *testing.T, p backend.Provider) {
	add := &onnx.Node{OpType: "Add", Inputs: []string{"a", "b"}, Outputs: []string{"c"}}
	for _, in := range []backend.Inputs{backend.List{vector(1, 2), vector(3)},
		backend.Named{"a": vector(1, 2), "b": vector(3)}} {
		out, err := backend.RunNode(t.Context(), add, p, in, nil)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, out.Get("c"), vector(4, 5))
	}
	// The opset decides what a node means: up to 12, Squeeze has its axes as an attribute.
	axes, err := onnx.NewAttribute("axes", []int64{0})
	if err != nil {
		t.Fatal(err)
	}
	squeeze := &onnx.Node{OpType: "Squeeze", Inputs: []string{"x"}, Outputs: []string{"y"},
		Attributes: []*onnx.Attribute{axes}}
	x, err := vector(1, 2).Reshape(1, 2)
	if err != nil {
		t.Fatal(err)
	}
	out, err := backend.RunNode(t.Context(), squeeze, p, backend.One(x), &backend.NodeOptions{OpsetVersion: 11})
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, out.Tensor(0), vector(1, 2))
	if _, err := backend.RunNode(t.Context(), squeeze, p, backend.One(x),
		&backend.NodeOptions{OpsetVersion: 13}); err == nil {
		t.Error("opset 13 takes the attribute axes")
	}
	// The rank of the result is not known before the run.
	reshape := &onnx.Node{OpType: "Reshape", Inputs: []string{"x", "s"}, Outputs: []string{"y"}}
	if out, err = backend.RunNode(t.Context(), reshape, p, backend.List{x, tensor.Must(tensor.New([]int64{2}, 1))},
		nil); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, out.Tensor(0), vector(1, 2))
	dynamic := &onnx.Node{OpType: "Squeeze", Inputs: []string{"x", "axes"}, Outputs: []string{"y"}}
	if out, err = backend.RunNode(t.Context(), dynamic, p, backend.List{x, tensor.Must(tensor.New([]int64{0}, 1))},
		nil); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, out.Tensor(0), vector(1, 2))
	for _, bad := range []*onnx.Node{nil, {OpType: "Add", Inputs: []string{"a"}, Outputs: []string{"c"}},
		{OpType: "NoSuch", Outputs: []string{"c"}}} {
		if _, err := backend.RunNode(t.Context(), bad, p, backend.List{}, nil); err == nil {
			t.Errorf("%+v ran", bad)
		}
	}
}

// outputs_info is a promise about the types and shapes of the results.
func TestOutputsInfo(t *testing.T) { onProviders(t, testOutputsInfo) }

func testOutputsInfo(t *testing.T, p backend.Provider) {
	float := tensor.TensorType(tensor.TypeFloat32)
	add := &onnx.Node{OpType: "Add", Inputs: []string{"a", "b"}, Outputs: []string{"c"}}
	split := &onnx.Node{OpType: "SplitToSequence", Inputs: []string{"a"}, Outputs: []string{"c"}}
	for _, c := range []struct {
		node *onnx.Node
		info []backend.OutputInfo
		want string
	}{
		{add, nil, ""},
		{add, []backend.OutputInfo{{}}, ""},
		{add, []backend.OutputInfo{{Type: float, Shape: []int{2}}}, ""},
		{add, []backend.OutputInfo{{Type: float, Shape: []int{-1}}}, ""},
		{add, []backend.OutputInfo{{Type: tensor.TensorType(tensor.TypeFloat64)}}, "output 0 (c): "},
		{add, []backend.OutputInfo{{Type: tensor.TensorType(tensor.TypeFloat64)}}, "its type is tensor(float), want tensor(double)"},
		{add, []backend.OutputInfo{{Shape: []int{3}}}, "its shape is [2], want [3]"},
		{add, []backend.OutputInfo{{Shape: []int{}}}, "its shape is [2], want []"},
		{add, []backend.OutputInfo{{}, {}}, "OutputsInfo describes 2 outputs, the node has 1"},
		{split, []backend.OutputInfo{{Type: tensor.SequenceOf(float)}}, ""},
		{split, []backend.OutputInfo{{Shape: []int{1}}}, "it is seq(tensor(float)), want a tensor of shape [1]"},
	} {
		if c.node == split && p == "openvino" {
			continue // it has no sequences
		}
		in := backend.List{vector(1, 2), vector(3, 4)}[:len(c.node.Inputs)]
		_, err := backend.RunNode(t.Context(), c.node, p, in, &backend.NodeOptions{OutputsInfo: c.info})
		if c.want == "" && err != nil || c.want != "" &&
			(!errors.Is(err, onward.ErrInvalidArgument) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, %+v: %v, want %q", c.node.OpType, c.info, err, c.want)
		}
	}
}

func TestRuntimeNames(t *testing.T) {
	for name, want := range map[string]backend.Backend{"OnnxInferenceBackend": backend.CPU, "python": backend.Reference,
		"python_compiled": backend.CPU, "": backend.CPU, "cpu": backend.CPU, "reference": backend.Reference,
		"OnnxInferenceBackendOrt": backend.Provider("ort"), "onnxruntime1": backend.Provider("ort"), "onnxruntime2": backend.Provider("ort")} {
		if b, err := backend.Runtime(name); err != nil || b != want {
			t.Errorf("%q: %v, %v", name, b, err)
		}
	}
	if _, err := backend.Runtime("nosuch"); !errors.Is(err, onward.ErrInvalidArgument) ||
		!strings.Contains(err.Error(), "not registered") {
		t.Errorf("nosuch: %v", err)
	}
}

// A Rep serves many goroutines; a closed one refuses to run.
func TestConcurrentRuns(t *testing.T) { onProviders(t, testConcurrentRuns) }

func testConcurrentRuns(t *testing.T, p backend.Provider) {
	r := prepare(t, linear(), p, &backend.Options{Profile: true})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				out, err := r.Run(t.Context(), backend.One(matrix()), nil)
				if err != nil {
					t.Error(err)
					return
				}
				if err := tensor.AllClose(out.Tensor(0), linearResult, 1e-5, 1e-6); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Run(t.Context(), backend.One(matrix()), nil); err == nil {
		t.Error("a closed Rep ran")
	}
}

// Closing a Rep leaves the caller's model usable.
func TestCloseLeavesTheModel(t *testing.T) {
	data, err := linear().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	m, err := onnx.ReadFile(path, &onnx.ReadOptions{Map: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for range 2 {
		out, err := backend.RunModel(t.Context(), m, backend.CPU, backend.One(matrix()), nil)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, out.Tensor(0), linearResult)
	}
}
