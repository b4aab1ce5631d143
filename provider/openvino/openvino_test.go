package openvino_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/testing/openvinolib"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/preset"
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
	return onward.OpenModel(t.Context(), m, &onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{config(t, opts...)}})
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
	for _, d := range []tensor.DType{tensor.TypeInt4, tensor.TypeUint4, tensor.TypeFloat8E4M3FN, tensor.TypeFloat8E5M2} {
		cases[d.String()] = tensor.Must(tensor.FromBytes(d, []byte{0x21, 0x43, 0x65, 0x07}[:map[bool]int{true: 4, false: 4}[d.Packed()]], map[bool]int{true: 7, false: 4}[d.Packed()]))
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
		y := run(t, s, tensor.Must(tensor.New(strings.Split(strings.Repeat("a text that is longer than fifteen,", n), ",")[:n], n)))
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

func scale(dims ...any) *onnx.Model {
	b := onnx.NewModel("scale").Opset("", 13).IRVersion(8)
	b.Input("x", onnx.DataType(tensor.TypeFloat32), dims...).Output("y", onnx.DataType(tensor.TypeFloat32), dims...)
	b.Initializer("two", []float32{2})
	b.Node("Mul", []string{"x", "two"}, []string{"y"})
	return b.Must()
}

// TestOutputInPlace checks that given output tensors are filled; OpenVINO writes directly
// to those with a fixed shape.
func TestOutputInPlace(t *testing.T) {
	for _, dims := range [][]any{{2, 2}, {"n", 2}} {
		p := driver.Lookup("openvino")
		e, err := p.Compile(context.Background(), &driver.Model{Model: scale(dims...)}, &driver.Options{Threads: 1}, config(t))
		if err != nil {
			t.Fatal(err)
		}
		y := tensor.Must(tensor.New([]float32{9, 9, 9, 9}, 2, 2))
		req := &driver.Request{In: []tensor.Value{tensor.Must(tensor.New([]float32{1, 2, 3, 4}, 2, 2))}, Out: []tensor.Value{y}, Options: &driver.RunOptions{}}
		if err := e.Run(context.Background(), req); err != nil {
			t.Fatal(err)
		}
		if req.Out[0] != tensor.Value(y) || fmt.Sprint(tensor.Of[float32](y)) != "[2 4 6 8]" {
			t.Errorf("%v: output %v, %v", dims, req.Out[0], tensor.Of[float32](y))
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAvailable(t *testing.T) {
	p := driver.Lookup("openvino")
	if err := p.Available(config(t)); err != nil {
		t.Error(err)
	}
	err := p.Available(onward.ProviderConfig{Name: "openvino", Options: map[string]string{"library": "/nowhere/libopenvino_c.so"}})
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
		want := map[string]string{"same": fmt.Sprintf("[1 2 %d]", i), "a": fmt.Sprint([]float32{-1, -2, -float32(i)}), "b": fmt.Sprint([]float32{-1, -2, -float32(i)})}
		for n, w := range want {
			if got := fmt.Sprint(tensor.Of[float32](out[n].(*tensor.Tensor))); got != w {
				t.Errorf("run %d: %s is %s, want %s", i, n, got, w)
			}
		}
		if got := fmt.Sprint(tensor.Of[float32](x)); got != fmt.Sprintf("[1 2 %d]", i) {
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
	e, err := driver.Lookup("openvino").Compile(context.Background(), &driver.Model{Model: b.Must()}, &driver.Options{Threads: 1}, config(t, "requests", "1"))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	run := func(x float32, wanted []bool) []tensor.Value {
		req := &driver.Request{In: []tensor.Value{tensor.Must(tensor.New([]float32{x, -x}))}, Out: make([]tensor.Value, 2), Wanted: wanted, Options: &driver.RunOptions{}}
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
		if got := fmt.Sprint(tensor.Of[float32](first[1].(*tensor.Tensor))); got != "[1 1]" {
			t.Fatalf("the first run's output has become %s", got)
		}
	}
	if got := fmt.Sprint(tensor.Of[float32](run(7, nil)[1].(*tensor.Tensor))); got != "[7 7]" {
		t.Errorf("wanted again, the output is %s", got)
	}
}

func TestErrors(t *testing.T) {
	unknown := onnx.NewModel("unknown").Opset("", 13).IRVersion(8)
	unknown.Input("x", onnx.DataType(tensor.TypeFloat32), 1).Output("y", onnx.DataType(tensor.TypeFloat32), 1)
	unknown.Node("NoSuchOperator", []string{"x"}, []string{"y"})
	seq := onnx.NewModel("seq").Opset("", 13).IRVersion(8)
	seq.InputType("x", onnx.NewType(tensor.SequenceOf(tensor.TensorType(tensor.TypeFloat32)))).Output("y", onnx.DataType(tensor.TypeInt64))
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
		{"option", scale(1), []string{"no_such_option", "1"}, []string{"no_such_option", "cache_dir", "streams"}, onward.ErrInvalidArgument},
		{"hint", scale(1), []string{"hint", "fast"}, []string{"fast", "LATENCY, THROUGHPUT"}, onward.ErrInvalidArgument},
		{"streams", scale(1), []string{"streams", "0"}, []string{`"0"`, "streams"}, onward.ErrInvalidArgument},
		{"requests", scale(1), []string{"requests", "many"}, []string{"many"}, onward.ErrInvalidArgument},
		{"threads", scale(1), []string{"threads", "-1"}, []string{"-1"}, onward.ErrInvalidArgument},
		{"precision", scale(1), []string{"precision", "f8"}, []string{"f8", "bf16"}, onward.ErrInvalidArgument},
		{"device", scale(1), []string{"device", "the cpu"}, []string{"the cpu", "AUTO"}, onward.ErrInvalidArgument},
		{"twice", scale(1), []string{"streams", "1", "NUM_STREAMS", "2"}, []string{"streams", "NUM_STREAMS"}, onward.ErrInvalidArgument},
		{"nul", scale(1), []string{"cache_dir", "a\x00b"}, []string{"NUL"}, onward.ErrInvalidArgument},
		{"own property", scale(1), []string{"NO_SUCH_PROPERTY", "1"}, []string{"NO_SUCH_PROPERTY"}, nil},
		{"no such device", scale(1), []string{"device", "TPU"}, []string{"TPU", "only CPU"}, onward.ErrExecution},
		{"library", scale(1), []string{"library", "/nowhere/libopenvino_c.so"}, []string{"/nowhere/libopenvino_c.so (the option library): file does not exist", "pip install openvino", openvino.Env}, onward.ErrExecution},
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

// TestOptions opens and runs a model with each option.
func TestOptions(t *testing.T) {
	cache := t.TempDir()
	for _, o := range [][]string{
		{"device", "cpu"}, {"device", "AUTO"}, {"device", "auto:cpu"}, {"hint", "throughput"}, {"hint", "throughput", "requests", "3"}, {"streams", "2"}, {"streams", "auto"},
		{"precision", "bf16"}, {"precision", "f16"}, {"precision", "device"}, {"threads", "2"}, {"execution_mode", "accuracy"},
		{"cache_dir", cache}, {"cache_dir", cache}, {"ENABLE_CPU_PINNING", "NO"},
		{"streams", "1", "threads", "1", "hint", "latency", "precision", "f32", "execution_mode", "accuracy", "cache_dir", cache, "ENABLE_CPU_PINNING", "NO"},
	} {
		s, err := open(t, scale("n", 2), o...)
		if err != nil {
			t.Errorf("%v: %v", o, err)
			continue
		}
		y := run(t, s, tensor.Must(tensor.New([]float32{1, 2, 3, 4}, 2, 2)))
		if got := fmt.Sprint(tensor.Of[float32](y.(*tensor.Tensor))); got != "[2 4 6 8]" {
			t.Errorf("%v: %s", o, got)
		}
		s.Close()
	}
	if files, err := os.ReadDir(cache); err != nil || len(files) == 0 {
		t.Errorf("cache_dir holds %v, %v", files, err)
	}
}

// TestPrecision checks that the default computes in float32 on processors with
// bfloat16 instructions too.
func TestPrecision(t *testing.T) {
	const n = 256
	w := make([]float32, n*n)
	for i := range w {
		w[i] = float32(i%101)/101 - 0.3
	}
	b := onnx.NewModel("matmul").Opset("", 13).IRVersion(8)
	b.Input("x", onnx.DataType(tensor.TypeFloat32), n, n).Output("y", onnx.DataType(tensor.TypeFloat32), n, n)
	wt, err := onnx.NewTensor("w", w, n, n)
	if err != nil {
		t.Fatal(err)
	}
	b.Node("MatMul", []string{"x", "w"}, []string{"y"})
	m := b.Must()
	m.Graph.Initializers = append(m.Graph.Initializers, wt)
	x := tensor.Must(tensor.New(w, n, n))
	ours, err := onward.OpenModel(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	want := run(t, ours, x)
	if err := tensor.AllClose(run(t, openModel(t, m), x), want, 1e-4, 1e-4); err != nil {
		t.Error(err)
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
		if !errors.As(err, &st) || st.Code == onward.OK || !strings.Contains(st.Message, "eshape") {
			t.Errorf("Run = %v, want OpenVINO's error about Reshape", err)
		}
		if y := run(t, s, tensor.Must(tensor.New([]float32{1, 2, 3, 4, 5, 6}))).(*tensor.Tensor); fmt.Sprint(y.Shape()) != "[2 3]" {
			t.Errorf("after the error the shape is %v", y.Shape())
		}
	}
}

// long returns a model whose runs can be cancelled at many nodes: a chain of matrix
// multiplications.
func long() *onnx.Model {
	const n = 512
	b := onnx.NewModel("long").Opset("", 13).IRVersion(8)
	b.Input("x", onnx.DataType(tensor.TypeFloat32), n, n).Output("y", onnx.DataType(tensor.TypeFloat32), n, n)
	last := "x"
	for i := range 60 {
		next := fmt.Sprint("t", i)
		b.Node("MatMul", []string{last, "x"}, []string{next + "m"})
		b.Node("Tanh", []string{next + "m"}, []string{next})
		last = next
	}
	b.Node("Identity", []string{last}, []string{"y"})
	return b.Must()
}

// TestContextStopsARun ends the context ever later, until OpenVINO reports that it stopped a
// request that had begun.
func TestContextStopsARun(t *testing.T) {
	s := openModel(t, long())
	feed := onward.Values{"x": tensor.Must(tensor.Zeros(tensor.TypeFloat32, 512, 512))}
	for d := 100 * time.Microsecond; ; d *= 2 {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		_, err := s.Run(ctx, feed, nil)
		cancel()
		switch {
		case err == nil:
			t.Fatal("the run was not stopped")
		case !errors.Is(err, context.DeadlineExceeded):
			t.Fatalf("Run = %v, want the deadline", err)
		case strings.Contains(err.Error(), "Infer Request was canceled"):
			return
		}
	}
}

func TestManyGoroutines(t *testing.T) {
	for _, requests := range []string{"1", "4"} {
		for _, dims := range [][]any{{"n", 3}, {5, 3}} {
			s := openModel(t, scale(dims...), "requests", requests)
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					for i := range 300 {
						n := 5
						if dims[0] == "n" {
							n = 1 + (g+i)%7
						}
						x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, n, 3))
						for k := range tensor.Of[float32](x) {
							tensor.Of[float32](x)[k] = float32(g*1000 + k)
						}
						ctx, cancel := context.Background(), func() {}
						if i%2 == 1 {
							ctx, cancel = context.WithCancel(ctx)
						}
						if i%10 == 9 {
							cancel() // at any time
						}
						out, err := s.Run(ctx, onward.Values{"x": x}, nil)
						cancel()
						if i%10 == 9 && errors.Is(err, context.Canceled) {
							continue
						}
						if err != nil {
							t.Error(err)
							return
						}
						for k, v := range tensor.Of[float32](out["y"].(*tensor.Tensor)) {
							if v != 2*float32(g*1000+k) {
								t.Errorf("goroutine %d: element %d is %v", g, k, v)
								return
							}
						}
					}
				})
			}
			wg.Wait()
		}
	}
}

// rss returns the process's resident memory in bytes, or skips the test.
func rss(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skipf("resident memory cannot be read: %v", err)
	}
	n, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n * int64(os.Getpagesize())
}

// TestNoLeak runs 100,000 times with 4 KiB each, so that a leak of one tensor, shape or
// string per run is detected.
func TestNoLeak(t *testing.T) {
	b := onnx.NewModel("leak").Opset("", 13).IRVersion(8)
	f := onnx.DataType(tensor.TypeFloat32)
	b.Input("x", f, "n").Input("z", f, 2).Output("y", f, "n").Output("w", f, 2)
	b.Node("Neg", []string{"x"}, []string{"y"})
	b.Node("Neg", []string{"z"}, []string{"w"})
	s := openModel(t, b.Must())
	feed := onward.Values{"x": tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1024)), "z": tensor.Must(tensor.New([]float32{1, 2}))}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 100000
	if testing.Short() {
		n = 3000
	}
	many := func(n int) {
		for range n {
			if _, err := s.Run(ctx, feed, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	many(2000)
	debug.FreeOSMemory() // so that Go's own garbage does not count
	before := rss(t)
	many(n)
	debug.FreeOSMemory()
	grown := rss(t) - before
	t.Logf("resident memory grew by %d bytes in %d runs", grown, n)
	if limit := int64(8 << 20); grown > limit {
		t.Errorf("resident memory grew by %d bytes in %d runs, want at most %d", grown, n, limit)
	}
}

// TestSessionsAreFreed opens and closes sessions of 1 MiB.
func TestSessionsAreFreed(t *testing.T) {
	big := make([]float32, 1<<18)
	b := onnx.NewModel("big").Opset("", 13).IRVersion(8)
	b.Input("x", onnx.DataType(tensor.TypeFloat32), 1).Output("y", onnx.DataType(tensor.TypeFloat32), len(big))
	b.Initializer("w", big)
	b.Node("Add", []string{"x", "w"}, []string{"y"})
	m := b.Must()
	once := func() {
		s, err := open(t, m)
		if err != nil {
			t.Fatal(err)
		}
		run(t, s, tensor.Must(tensor.New([]float32{1}, 1)))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Run(context.Background(), onward.Values{"x": tensor.Must(tensor.New([]float32{1}, 1))}, nil); err == nil {
			t.Fatal("a closed session runs")
		}
	}
	for range 20 {
		once()
	}
	before := rss(t)
	for range 100 {
		once()
	}
	if grown := rss(t) - before; grown > 50<<20 {
		t.Errorf("resident memory grew by %d bytes in 100 sessions of 1 MiB", grown)
	}
}

// TestExternalData reads weights from the model's folder, and checks that those elsewhere
// are rejected.
func TestExternalData(t *testing.T) {
	dir := t.TempDir()
	w := make([]float32, 3000)
	for i := range w {
		w[i] = float32(i)
	}
	b := onnx.NewModel("external").Opset("", 13).IRVersion(8)
	b.Input("x", onnx.DataType(tensor.TypeFloat32), 1).Output("y", onnx.DataType(tensor.TypeFloat32), len(w))
	b.Initializer("w", w)
	b.Node("Add", []string{"x", "w"}, []string{"y"})
	path := filepath.Join(dir, "größe.onnx")
	if err := onnx.WriteFile(path, b.Must(), &onnx.WriteOptions{ExternalData: "weights.bin"}); err != nil {
		t.Fatal(err)
	}
	links := t.TempDir() // like caches of model hubs
	for _, name := range []string{"größe.onnx", "weights.bin"} {
		if err := os.Symlink(filepath.Join(dir, name), filepath.Join(links, name)); err != nil {
			t.Skip(err)
		}
	}
	for _, p := range []string{path, filepath.Join(links, "größe.onnx")} {
		s, err := onward.Open(t.Context(), p, &onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{config(t)}})
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		y := tensor.Of[float32](run(t, s, tensor.Must(tensor.New([]float32{1}, 1))).(*tensor.Tensor))
		for i, v := range y {
			if v != w[i]+1 {
				t.Fatalf("element %d is %v, want %v", i, v, w[i]+1)
			}
		}
		s.Close()
	}
	m, err := onnx.ReadFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The weights of a model in memory are found too; its file is not read.
	m.Graph.Nodes[0].OpType = "Sub"
	y := tensor.Of[float32](run(t, openModel(t, m), tensor.Must(tensor.New([]float32{1}, 1))).(*tensor.Tensor))
	if y[2999] != 1-2999 {
		t.Errorf("element 2999 of the changed model is %v, want %v", y[2999], 1-2999)
	}
	for i := range m.Graph.Initializers[0].ExternalData {
		if kv := &m.Graph.Initializers[0].ExternalData[i]; kv.Key == "location" {
			kv.Value = "../weights.bin"
		}
	}
	if _, err := open(t, m); !errors.Is(err, onnx.ErrExternalData) {
		t.Errorf("weights outside of the model's folder: %v, want ErrExternalData", err)
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
				for i := range tensor.Of[float32](x) {
					tensor.Of[float32](x)[i] = float32((i*7919+batch)%97)/13 - 2
				}
				if feed[a.Name], err = tensor.Convert(x, a.ElementType().Elem, tensor.ConvertOptions{}); err != nil {
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
	s := openModel(b, scale(4))
	x := onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2, 3, 4}))}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Run(context.Background(), x, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// TestFreeDimensions fixes dimensions by name and by denotation: the outputs' shapes
// follow, and inputs of other shapes are rejected.
func TestFreeDimensions(t *testing.T) {
	m := scale("n", "m", 3)
	m.Graph.Inputs[0].Type.Tensor.Shape.Dims[1].Denotation = "WIDTH"
	s, err := onward.OpenModel(t.Context(), m, &onward.SessionOptions{FreeDimensions: map[string]int64{"n": 2}, FreeDimensionsByDenotation: map[string]int64{"WIDTH": 4},
		Providers: []onward.ProviderConfig{config(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	y := run(t, s, tensor.Must(tensor.Zeros(tensor.TypeFloat32, 2, 4, 3)))
	if got := fmt.Sprint(y.(*tensor.Tensor).Shape()); got != "[2 4 3]" {
		t.Errorf("shape %s, want [2 4 3]", got)
	}
	if _, err := s.Run(context.Background(), onward.Values{"x": tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1, 4, 3))}, nil); !errors.Is(err, onward.ErrInvalidArgument) {
		t.Errorf("another shape: %v, want status INVALID_ARGUMENT", err)
	}
}

func TestInitializers(t *testing.T) {
	s, err := onward.OpenModel(t.Context(), scale("n"), &onward.SessionOptions{Initializers: onward.Values{"two": tensor.Must(tensor.New([]float32{5}, 1))}, Providers: []onward.ProviderConfig{config(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	y := run(t, s, tensor.Must(tensor.New([]float32{1, 2})))
	if got := fmt.Sprint(tensor.Of[float32](y.(*tensor.Tensor))); got != "[5 10]" {
		t.Errorf("%s, want the replaced factor: [5 10]", got)
	}
}

func TestCustomOperators(t *testing.T) {
	c := onward.CustomOperator{Name: "Mul", Inputs: "x:float, y:float", Outputs: "z:float", Run: func(context.Context, onward.CustomCall) ([]tensor.Value, error) {
		return nil, errors.New("is not called")
	}}
	s, err := onward.OpenModel(t.Context(), scale(2), &onward.SessionOptions{CustomOperators: []onward.CustomOperator{c}, Providers: []onward.ProviderConfig{config(t)}})
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, onward.ErrNotImplemented) {
		t.Errorf("%v, want status NOT_IMPLEMENTED", err)
	}
}

// TestPreset runs the preset of package backend, whose example fixes the shapes.
func TestPreset(t *testing.T) {
	t.Setenv(openvino.Env, openvinolib.Path(t))
	data, err := datasets.Get("digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	x := backend.One(tensor.Must(tensor.Zeros(tensor.TypeFloat32, 3, 1, 8, 8)))
	rep, err := preset.OpenVINO{Model: preset.From(data), InputExample: x, Threads: 1}.Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer rep.Close()
	out, err := rep.Run(context.Background(), x, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(out.Get("probabilities").(*tensor.Tensor).Shape()); got != "[3 10]" {
		t.Errorf("shape %s, want [3 10]", got)
	}
}
