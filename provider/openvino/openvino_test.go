package openvino_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/testing/nativetest"
	"github.com/onward-ml/onward/internal/testing/openvinolib"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/provider/openvino"
	"github.com/onward-ml/onward/tensor"
)

// config names the library of the tests, or skips the test.
func config(t testing.TB, options ...string) onward.ProviderConfig {
	t.Helper()
	c := onward.ProviderConfig{Name: "openvino", Options: map[string]string{"library": openvinolib.Path(t)}}
	for i := 0; i+1 < len(options); i += 2 {
		c.Options[options[i]] = options[i+1]
	}
	return c
}

func open(t testing.TB, m *onnx.Model, opts ...string) (*onward.Session, error) {
	return onward.OpenModel(t.Context(), m,
		&onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{config(t, opts...)}})
}

func openModel(t testing.TB, m *onnx.Model, opts ...string) *onward.Session {
	t.Helper()
	s, err := open(t, m, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func identity(d tensor.DType, rank int) *onnx.Model {
	var dims []any
	for i := range rank {
		dims = append(dims, fmt.Sprint("d", i))
	}
	b := onnx.NewModel("identity").Opset("", 16).IRVersion(8)
	b.Input("x", onnx.DataType(d), dims...).Output("y", onnx.DataType(d), dims...)
	b.Node("Identity", []string{"x"}, []string{"y"})
	return b.Must()
}

func run(t testing.TB, s *onward.Session, x tensor.Value) tensor.Value {
	t.Helper()
	out, err := s.Run(context.Background(), onward.Values{"x": x}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out["y"]
}

// TestValues sends tensors of every type through OpenVINO.
func TestValues(t *testing.T) {
	cases := map[string]*tensor.Tensor{
		"float32":  tensor.Must(tensor.New([]float32{1, -2, 3, 4, 5, 6}, 2, 3)),
		"float64":  tensor.Must(tensor.New([]float64{1, 2, 3})),
		"int8":     tensor.Must(tensor.New([]int8{-1, 2})),
		"int16":    tensor.Must(tensor.New([]int16{-1, 2})),
		"int32":    tensor.Must(tensor.New([]int32{-1, 2})),
		"int64":    tensor.Must(tensor.New([]int64{-1, 2})),
		"uint8":    tensor.Must(tensor.New([]uint8{1, 200})),
		"uint16":   tensor.Must(tensor.New([]uint16{1, 60000})),
		"uint32":   tensor.Must(tensor.New([]uint32{1, 1 << 30})),
		"uint64":   tensor.Must(tensor.New([]uint64{1, 1 << 30})),
		"bool":     tensor.Must(tensor.New([]bool{true, false, true})),
		"float16":  tensor.Must(tensor.New([]tensor.Float16{0x3c00, 0xc000})),
		"bfloat16": tensor.Must(tensor.New([]tensor.BFloat16{0x3f80, 0x4000})),
		"scalar":   tensor.Scalar[int64](7),
		"empty":    tensor.Must(tensor.New([]float32{}, 0, 3)),
	}
	for _, d := range []tensor.DType{tensor.TypeInt4, tensor.TypeUint4, tensor.TypeFloat8E4M3FN,
		tensor.TypeFloat8E5M2} {
		cases[d.String()] = tensor.Must(tensor.FromBytes(d,
			[]byte{0x21, 0x43, 0x65, 0x07}[:map[bool]int{true: 4, false: 4}[d.Packed()]],
			map[bool]int{true: 7, false: 4}[d.Packed()]))
	}
	for name, x := range cases {
		t.Run(name, func(t *testing.T) {
			before := x.Clone()
			y := run(t, openModel(t, identity(x.DType(), x.Rank())), x)
			if err := tensor.AllClose(y, x, 0, 0); err != nil {
				t.Error(err)
			}
			if !y.Type().Equal(x.Type()) {
				t.Errorf("type %s, want %s", y.Type(), x.Type())
			}
			if err := tensor.AllClose(x, before, 0, 0); err != nil {
				t.Errorf("the input was changed: %v", err)
			}
		})
	}
}

// TestStrings passes tensors of strings: OpenVINO has operators that read their shape.
func TestStrings(t *testing.T) {
	b := onnx.NewModel("strings").Opset("", 16).IRVersion(8)
	b.Input("x", onnx.DataType(tensor.TypeString), "n").Output("y", onnx.DataType(tensor.TypeInt64), 1)
	b.Node("Shape", []string{"x"}, []string{"y"})
	s := openModel(t, b.Must())
	for n := 1; n < 5; n++ {
		y := run(t, s, tensor.Must(
			tensor.New(strings.Split(strings.Repeat("a text that is longer than fifteen,", n), ",")[:n], n)))
		if err := tensor.AllClose(y, tensor.Must(tensor.New([]int64{int64(n)}, 1)), 0, 0); err != nil {
			t.Error(err)
		}
	}
	_, err := s.Run(context.Background(), onward.Values{"x": tensor.Must(tensor.New([]string{"a\x00b"}))}, nil)
	if !errors.Is(err, onward.ErrInvalidArgument) {
		t.Errorf("a string with a NUL: %v, want status INVALID_ARGUMENT", err)
	}
	if _, err := open(t, identity(tensor.TypeString, 1)); !errors.Is(err, onward.ErrNotImplemented) {
		t.Errorf("an output of strings: %v, want status NOT_IMPLEMENTED", err)
	}
}

func TestOutputInPlace(t *testing.T) { nativetest.OutputInPlace(t, "openvino", config(t)) }

func TestAvailable(t *testing.T) {
	p := driver.Lookup("openvino")
	if err := p.Available(config(t)); err != nil {
		t.Error(err)
	}
	err := p.Available(onward.ProviderConfig{Name: "openvino",
		Options: map[string]string{"library": "/nowhere/libopenvino_c.so"}})
	if !errors.Is(err, onward.ErrExecution) {
		t.Errorf("%v, want status EP_FAIL", err)
	}
}

// TestAliases runs a model with an output that is an input, and with two names for
// one value.
func TestAliases(t *testing.T) {
	b := onnx.NewModel("alias").Opset("", 13).IRVersion(8)
	f := onnx.DataType(tensor.TypeFloat32)
	b.Input("x", f, 3).Output("same", f, 3).Output("a", f, 3).Output("b", f, 3)
	b.Node("Identity", []string{"x"}, []string{"same"})
	b.Node("Neg", []string{"x"}, []string{"a"})
	b.Node("Identity", []string{"a"}, []string{"b"})
	s := openModel(t, b.Must())
	for i := range 3 {
		x := tensor.Must(tensor.New([]float32{1, 2, float32(i)}))
		out, err := s.Run(context.Background(), onward.Values{"x": x}, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"same": fmt.Sprintf("[1 2 %d]", i), "a": fmt.Sprint([]float32{-1, -2, -float32(i)}),
			"b": fmt.Sprint([]float32{-1, -2, -float32(i)})}
		for n, w := range want {
			if got := fmt.Sprint(tensor.MustData[float32](out[n].(*tensor.Tensor))); got != w {
				t.Errorf("run %d: %s is %s, want %s", i, n, got, w)
			}
		}
		if got := fmt.Sprint(tensor.MustData[float32](x)); got != fmt.Sprintf("[1 2 %d]", i) {
			t.Errorf("run %d: the input has become %s", i, got)
		}
	}
}

// TestUnwantedOutput checks that a tensor that one run has filled is not written by the next
// run if that does not want the output.
func TestUnwantedOutput(t *testing.T) {
	b := onnx.NewModel("two").Opset("", 13).IRVersion(8)
	f := onnx.DataType(tensor.TypeFloat32)
	b.Input("x", f, 2).Output("a", f, 2).Output("b", f, 2)
	b.Node("Neg", []string{"x"}, []string{"a"})
	b.Node("Abs", []string{"x"}, []string{"b"})
	e, err := driver.Lookup("openvino").Compile(context.Background(), &driver.Model{Model: b.Must()},
		&driver.Options{Threads: 1}, config(t, "requests", "1"))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	run := func(x float32, wanted []bool) []tensor.Value {
		req := &driver.Request{In: []tensor.Value{tensor.Must(tensor.New([]float32{x, -x}))},
			Out: make([]tensor.Value, 2), Wanted: wanted, Options: &driver.RunOptions{}}
		if err := e.Run(context.Background(), req); err != nil {
			t.Fatal(err)
		}
		return req.Out
	}
	first := run(1, nil)
	for i := range 3 {
		out := run(float32(i+2), []bool{true, false})
		if out[1] != nil {
			t.Error("an output that is not wanted was returned")
		}
		if got := fmt.Sprint(tensor.MustData[float32](first[1].(*tensor.Tensor))); got != "[1 1]" {
			t.Fatalf("the first run's output has become %s", got)
		}
	}
	if got := fmt.Sprint(tensor.MustData[float32](run(7, nil)[1].(*tensor.Tensor))); got != "[7 7]" {
		t.Errorf("wanted again, the output is %s", got)
	}
}

func TestErrors(t *testing.T) {
	unknown := onnx.NewModel("unknown").Opset("", 13).IRVersion(8)
	unknown.Input("x", onnx.DataType(tensor.TypeFloat32), 1).Output("y", onnx.DataType(tensor.TypeFloat32), 1)
	unknown.Node("NoSuchOperator", []string{"x"}, []string{"y"})
	seq := onnx.NewModel("seq").Opset("", 13).IRVersion(8)
	seq.InputType("x", onnx.NewType(tensor.SequenceOf(tensor.TensorType(tensor.TypeFloat32)))).
		Output("y", onnx.DataType(tensor.TypeInt64))
	seq.Node("SequenceLength", []string{"x"}, []string{"y"})
	for _, c := range []struct {
		name    string
		model   *onnx.Model
		options []string
		want    []string
		is      error
	}{
		{"operator", unknown.Must(), nil, []string{"NoSuchOperator"}, onward.ErrNotImplemented},
		{"sequence", seq.Must(), nil, []string{"input x", "seq(tensor(float))"}, onward.ErrNotImplemented},
		{"option", nativetest.Scale(1), []string{"no_such_option", "1"}, []string{"no_such_option", "cache_dir", "streams"}, onward.ErrInvalidArgument},
		{"hint", nativetest.Scale(1), []string{"hint", "fast"}, []string{"fast", "LATENCY, THROUGHPUT"}, onward.ErrInvalidArgument},
		{"streams", nativetest.Scale(1), []string{"streams", "0"}, []string{`"0"`, "streams"}, onward.ErrInvalidArgument},
		{"requests", nativetest.Scale(1), []string{"requests", "many"}, []string{"many"}, onward.ErrInvalidArgument},
		{"threads", nativetest.Scale(1), []string{"threads", "-1"}, []string{"-1"}, onward.ErrInvalidArgument},
		{"precision", nativetest.Scale(1), []string{"precision", "f8"}, []string{"f8", "bf16"}, onward.ErrInvalidArgument},
		{"device", nativetest.Scale(1), []string{"device", "the cpu"}, []string{"the cpu", "AUTO"}, onward.ErrInvalidArgument},
		{"twice", nativetest.Scale(1), []string{"streams", "1", "NUM_STREAMS", "2"}, []string{"streams", "NUM_STREAMS"}, onward.ErrInvalidArgument},
		{"nul", nativetest.Scale(1), []string{"cache_dir", "a\x00b"}, []string{"NUL"}, onward.ErrInvalidArgument},
		{"own property", nativetest.Scale(1), []string{"NO_SUCH_PROPERTY", "1"}, []string{"NO_SUCH_PROPERTY"}, nil},
		{"no such device", nativetest.Scale(1), []string{"device", "TPU"}, []string{"TPU", "only CPU"}, onward.ErrExecution},
		{"library", nativetest.Scale(1), []string{"library", "/nowhere/libopenvino_c.so"}, []string{"/nowhere/libopenvino_c.so (the option library): file does not exist", "pip install openvino", openvino.Env}, onward.ErrExecution},
	} {
		s, err := open(t, c.model, c.options...)
		if err == nil {
			s.Close()
		}
		var st *onward.StatusError
		if !errors.As(err, &st) {
			t.Errorf("%s: %v, want a StatusError", c.name, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(st.Message, w) {
				t.Errorf("%s: message has no %q: %s", c.name, w, st.Message)
			}
		}
		if c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %v", c.name, err, c.is)
		}
	}
}

// TestRunError checks the error of a node that fails in OpenVINO.
func TestRunError(t *testing.T) {
	b := onnx.NewModel("reshape").Opset("", 13).IRVersion(8)
	b.Input("x", onnx.DataType(tensor.TypeFloat32), "n").Output("y", onnx.DataType(tensor.TypeFloat32), "m", 3)
	b.Initializer("shape", []int64{-1, 3})
	b.Node("Reshape", []string{"x", "shape"}, []string{"y"})
	s := openModel(t, b.Must())
	for range 3 {
		_, err := s.Run(context.Background(), onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2, 3, 4}))}, nil)
		var st *onward.StatusError
		if !errors.As(err, &st) || st.Code == onward.CodeOK || !strings.Contains(st.Message, "eshape") {
			t.Errorf("Run = %v, want OpenVINO's error about Reshape", err)
		}
		if y := run(t, s,
			tensor.Must(tensor.New([]float32{1, 2, 3, 4, 5, 6}))).(*tensor.Tensor); fmt.Sprint(y.Shape()) != "[2 3]" {
			t.Errorf("after the error the shape is %v", y.Shape())
		}
	}
}

func TestLibrary(t *testing.T) {
	t.Setenv(openvino.Env, openvinolib.Path(t))
	info, err := driver.Lookup("openvino").(driver.LibraryUser).Library(driver.Config{Name: "openvino"})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(info.Version, "20") || info.Path == "" || !slices.Contains(info.Providers, "CPU") {
		t.Errorf("Library = %+v", info)
	}
	if err := driver.Lookup("openvino").Available(driver.Config{Name: "openvino"}); err != nil {
		t.Error(err)
	}
}

// TestAgreesWithCPU compares this module's engine with OpenVINO on the example
// models whose inputs and outputs are tensors.
func TestAgreesWithCPU(t *testing.T) {
	compared := 0
	for _, name := range datasets.Names() {
		data, err := datasets.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := onnx.Unmarshal(data, nil)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := open(t, m)
		if errors.Is(err, onward.ErrNotImplemented) {
			t.Logf("%s: %v", name, err)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		defer theirs.Close()
		ours, err := onward.OpenModel(t.Context(), m, nil)
		if err != nil {
			t.Fatal(err)
		}
		compared++
		for batch := 1; batch < 40; batch += 13 {
			feed := onward.Values{}
			for _, a := range ours.Inputs() {
				shape := make([]int, len(a.Shape))
				for i, d := range a.Shape {
					if shape[i] = int(d.Value); d.Value < 0 {
						shape[i] = batch
					}
				}
				x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, shape...))
				for i := range tensor.MustData[float32](x) {
					tensor.MustData[float32](x)[i] = float32((i*7919+batch)%97)/13 - 2
				}
				if feed[a.Name], err = tensor.Convert(x, a.ElementType().Elem, nil); err != nil {
					t.Fatal(err)
				}
			}
			want, err := theirs.Run(context.Background(), feed, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, err := ours.Run(context.Background(), feed, nil)
			if err != nil {
				t.Fatal(err)
			}
			for n := range want {
				if err := tensor.AllClose(got[n], want[n], 1e-4, 1e-5); err != nil {
					t.Errorf("%s, batch %d, output %s: %v", name, batch, n, err)
				}
			}
		}
	}
	if compared == 0 {
		t.Error("OpenVINO runs no example model")
	}
}

func BenchmarkTiny(b *testing.B) {
	s := openModel(b, nativetest.Scale(4))
	x := onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2, 3, 4}))}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Run(context.Background(), x, nil); err != nil {
			b.Fatal(err)
		}
	}
}
