package onward_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// example opens a model of package datasets until the end of the test.
func example(t testing.TB, name string, opts *onward.SessionOptions) *onward.Session {
	t.Helper()
	data, err := datasets.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := onward.OpenBytes(t.Context(), data, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestLogregIris(t *testing.T) {
	for _, p := range enginetest.Engines {
		t.Run(p, func(t *testing.T) {
			s := example(t, "logreg_iris.onnx", enginetest.On(p))
			defer s.Close()
			out, err := s.Run(context.Background(), enginetest.Flowers(), nil)
			if err != nil {
				t.Fatal(err)
			}
			labels, err := tensor.Data[int64](out["output_label"].(*tensor.Tensor))
			if err != nil || !slices.Equal(labels, []int64{0, 2, 2}) {
				t.Errorf("labels are %v (%v), want [0 2 2]", labels, err)
			}
			for i, v := range out["output_probability"].(*tensor.Sequence).Items {
				var sum float32
				m := v.(*tensor.Map)
				for _, p := range tensor.MustData[float32](m.Values.(*tensor.Tensor)) {
					sum += p
				}
				if m.Len() != 3 || sum < 0.9999 || sum > 1.0001 {
					t.Errorf("row %d has %d probabilities with sum %v", i, m.Len(), sum)
				}
			}
		})
	}
}

// The texts are ONNX Runtime's, so that callers can migrate from it.
func TestInputErrors(t *testing.T) {
	float := func(shape ...int) tensor.Value { return tensor.Must(tensor.Zeros(tensor.TypeFloat32, shape...)) }
	for _, c := range []struct {
		name string
		feed onward.Values
		out  []string
		want string
	}{
		{"dims", onward.Values{"float_input": float(1, 2)}, nil,
			"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for input: float_input for the following indices\n index: 0 Got: 1 Expected: 3\n Please fix either the inputs or the model."},
		{"two dims", onward.Values{"float_input": float(4, 5)}, nil,
			"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for input: float_input for the following indices\n index: 0 Got: 4 Expected: 3\n index: 1 Got: 5 Expected: 2\n Please fix either the inputs or the model."},
		{"rank", onward.Values{"float_input": float(3)}, nil,
			"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Invalid rank for input: float_input Got: 1 Expected: 2 Please fix either the inputs/outputs or the model."},
		{"type", onward.Values{"float_input": tensor.Must(tensor.Zeros(tensor.TypeFloat64, 3, 2))}, nil,
			"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Unexpected input data type. Actual: (tensor(double)) , expected: (tensor(float))"},
		{"name", onward.Values{"float_input": float(3, 2), "other": float(1)}, nil,
			"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Invalid input name: other"},
		{"missing", onward.Values{}, nil,
			"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Required inputs (['float_input']) are missing from input feed ([])."},
		{"output", onward.Values{"float_input": float(3, 2)}, []string{"nope"},
			"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Invalid output name:nope"},
		{"no output", onward.Values{"float_input": float(3, 2)}, []string{},
			"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : At least one output should be requested."},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := example(t, "logreg_iris.onnx", nil)
			_, err := s.Run(context.Background(), c.feed, &onward.RunOptions{Outputs: c.out})
			if err == nil || err.Error() != c.want {
				t.Errorf("error is\n%v\nwant\n%s", err, c.want)
			}
			if !errors.Is(err, onward.ErrInvalidArgument) || errors.Is(err, onward.ErrFail) {
				t.Errorf("%v has not the code INVALID_ARGUMENT", err)
			}
		})
	}
}

// The hint of an error names what there is. It is not part of the text, which is ONNX Runtime's.
func TestErrorHints(t *testing.T) {
	s := example(t, "logreg_iris.onnx", nil)
	x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, 3, 2))
	run := func(feed onward.Values, out ...string) error {
		_, err := s.Run(t.Context(), feed, &onward.RunOptions{Outputs: out})
		return err
	}
	b, err := s.NewBinding()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	data, err := datasets.Get("logreg_iris.onnx")
	if err != nil {
		t.Fatal(err)
	}
	open := func(o onward.SessionOptions) error {
		_, err := onward.OpenBytes(t.Context(), data, &o)
		return err
	}
	outputs := `there are "output_label", "output_probability"`
	for _, c := range []struct {
		err  error
		hint string
	}{
		{run(onward.Values{"flaot_input": x}), `did you mean "float_input"? there are "float_input"`},
		{run(onward.Values{"float_input": x}, "output_labels"), `did you mean "output_label"? ` + outputs},
		{run(onward.Values{"float_input": tensor.Must(tensor.Zeros(tensor.TypeFloat64, 3, 2))}, "output_label"),
			`the elements of "float_input" are float32 in Go, those of the value float64; tensor.Convert converts them`},
		{run(onward.Values{"float_input": &tensor.Sequence{Elem: x.Type()}}, "output_label"), `"float_input" is to be a tensor(float)`},
		{b.BindCPUInput("float", x), `inputs: there are "float_input"; outputs: ` + outputs},
		{b.BindInputValue("float_imput", nil), `did you mean "float_input"? there are "float_input"`},
		{b.BindOutput("output_labels", onward.Buffer{}), `did you mean "output_label"? ` + outputs},
		{run(onward.Values{"float_input": nil}), `the value of "float_input" is nil`},
		{open(onward.SessionOptions{FreeDimensions: map[string]int64{"n": 1}}), ""},
		{open(onward.SessionOptions{Initializers: onward.Values{"w": x}}), ""},
	} {
		var st *onward.StatusError
		if !errors.As(c.err, &st) || st.Code != onward.CodeInvalidArgument || st.Hint != c.hint {
			t.Errorf("%+v, want the hint %s", c.err, c.hint)
			continue
		}
		if text := fmt.Sprintf("%v", c.err); text != st.Error() || strings.Contains(text, "there are") {
			t.Errorf("%%v is %s", text)
		}
		if text := fmt.Sprintf("%+v", c.err); c.hint != "" && text != st.Error()+"\n"+c.hint {
			t.Errorf("%%+v is %s", text)
		}
	}
	_, err = onward.OpenBytes(t.Context(), data,
		&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: "referense"}}})
	if err == nil || !strings.Contains(err.Error(), `did you mean "reference"?`) {
		t.Errorf("an unknown provider gives %v", err)
	}
}

// Nil values, nil pointers and zero values are errors, not panics.
func TestNilValues(t *testing.T) {
	onBoth(t, func(t *testing.T, o *onward.SessionOptions) {
		s := enginetest.Open(t, scaled().Must(), o)
		for _, v := range []tensor.Value{nil, (*tensor.Tensor)(nil), (*tensor.Sequence)(nil), (*tensor.Map)(nil),
			(*tensor.Optional)(nil), (*tensor.Sparse)(nil),
			&tensor.Tensor{}, &tensor.Sequence{}, &tensor.Map{}, &tensor.Optional{}, &tensor.Sparse{}} {
			_, run := s.Run(t.Context(), onward.Values{"x": v}, nil)
			_, list := s.RunList(t.Context(), []tensor.Value{v}, nil)
			_, values := s.RunWithOrtValues(t.Context(), map[string]*onward.OrtValue{"x": {}}, nil)
			_, ort := onward.NewOrtValue(v)
			if !tensor.IsNil(v) {
				ort = onward.ErrInvalidArgument // zero values are values
			}
			b, err := s.NewBinding()
			if err != nil {
				t.Fatal(err)
			}
			bound, zero := b.BindCPUInput("x", v), b.BindInputValue("x", &onward.OrtValue{})
			b.Close()
			for what, err := range map[string]error{"Run": run, "RunList": list, "RunWithOrtValues": values,
				"NewOrtValue": ort, "BindCPUInput": bound, "BindInputValue": zero, "Check": s.Inputs()[0].Check(v)} {
				if !errors.Is(err, onward.ErrInvalidArgument) {
					t.Errorf("%s of %T: %v", what, v, err)
				}
			}
		}
	})
}

func TestNegativeThreads(t *testing.T) {
	for _, o := range []onward.SessionOptions{{Threads: -1}, {InterOpThreads: -2}} {
		if _, err := onward.OpenModel(t.Context(), scaled().Must(), &o); !errors.Is(err, onward.ErrInvalidArgument) ||
			!strings.Contains(err.Error(), "want 0, for the default, or more") {
			t.Errorf("%d and %d threads: %v", o.Threads, o.InterOpThreads, err)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.onnx")
	if err := os.WriteFile(garbage, []byte("not a model at all"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{filepath.Join(dir, "absent.onnx"): onward.ErrNoSuchFile,
		garbage: onward.ErrInvalidProtobuf} {
		if _, err := onward.Open(t.Context(), path, nil); !errors.Is(err, want) {
			t.Errorf("%s: error is %v, want %v", path, err, want)
		}
	}
	// All unsupported operators are listed at once.
	b := onnx.NewModel("m").Opset("", 21).Opset("acme", 3)
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("Frobnicate", []string{"x"}, []string{"a"})
	b.Node("Spin", []string{"a"}, []string{"b"}).Domain("acme")
	b.Node("Spin", []string{"b"}, []string{"c"}).Domain("acme")
	b.Node("Relu", []string{"c"}, []string{"y"})
	_, err := onward.OpenModel(t.Context(), b.Must(), nil)
	if !errors.Is(err, onward.ErrNotImplemented) {
		t.Fatalf("error is %v, want NOT_IMPLEMENTED", err)
	}
	for _, want := range []string{"2 operator(s)", "Frobnicate", "acme.Spin", "2 node(s)"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

func TestDescription(t *testing.T) {
	s := example(t, "logreg_iris.onnx", nil)
	in, out := s.Inputs(), s.Outputs()
	if len(in) != 1 || in[0].String() != "float_input: tensor(float)[3,2]" {
		t.Errorf("inputs are %v", in)
	}
	if len(out) != 2 || out[0].Type != "tensor(int64)" || out[1].Type != "seq(map(int64,tensor(float)))" {
		t.Errorf("outputs are %v", out)
	}
	if s.Provider() != "cpu" || s.Metadata().Opsets["ai.onnx.ml"] == 0 {
		t.Errorf("provider %q, metadata %+v", s.Provider(), s.Metadata())
	}
}

// This test checks that an input with an initializer is optional.
func TestOverridableInitializer(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, 2).Input("w", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Initializer("w", []float32{10, 20}, 2)
	b.Node("Add", []string{"x", "w"}, []string{"y"})
	for _, p := range enginetest.Engines {
		s, err := onward.OpenModel(t.Context(), b.Must(), enginetest.On(p))
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Inputs()) != 1 || len(s.OverridableInitializers()) != 1 {
			t.Fatalf("inputs %v, overridable %v", s.Inputs(), s.OverridableInitializers())
		}
		x := tensor.Must(tensor.New([]float32{1, 2}))
		for _, c := range []struct {
			feed onward.Values
			want []float32
		}{{onward.Values{"x": x}, []float32{11, 22}}, {onward.Values{"x": x, "w": x}, []float32{2, 4}}} {
			out, err := s.Run(context.Background(), c.feed, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := tensor.MustData[float32](out["y"].(*tensor.Tensor)); !slices.Equal(got, c.want) {
				t.Errorf("%s: y is %v, want %v", p, got, c.want)
			}
		}
	}
}

func TestEightGoroutines(t *testing.T) {
	for _, p := range enginetest.Engines {
		s := example(t, "digits.onnx", enginetest.On(p))
		defer s.Close()
		image := func(n int) onward.Values {
			x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, n, 1, 8, 8))
			for i, d := 0, tensor.MustData[float32](x); i < len(d); i++ {
				d[i] = float32(i%7) / 7
			}
			return onward.Values{"image": x}
		}
		want, err := s.Run(context.Background(), image(3), nil)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for k := range 8 {
			wg.Go(func() {
				for i := range 20 {
					n := 3
					if (i+k)%3 == 0 {
						n = 1 + i%5
					}
					got, err := s.Run(context.Background(), image(n), nil)
					if err != nil {
						t.Error(err)
						return
					}
					if n == 3 {
						if err := tensor.AllClose(got["probabilities"], want["probabilities"], 0, 0); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		wg.Wait()
	}
}

// TestCloseDuringRuns: Close waits for active runs, and later runs fail.
func TestCloseDuringRuns(t *testing.T) {
	s := example(t, "digits.onnx", nil)
	feed := onward.Values{"image": tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1, 1, 8, 8))}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				if _, err := s.Run(context.Background(), feed, nil); err != nil {
					if !strings.Contains(err.Error(), "closed") {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	wg.Wait()
}

// This test checks that memory does not grow over 10,000 runs of varying shapes.
func TestFlatMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("10,000 runs take a while under the race detector")
	}
	s := example(t, "digits.onnx", nil)
	defer s.Close()
	run := func(i int) {
		x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1+i%9, 1, 8, 8))
		if _, err := s.Run(context.Background(), onward.Values{"image": x}, nil); err != nil {
			t.Fatal(err)
		}
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for i := range 100 {
		run(i)
	}
	before, goroutines := heap(), runtime.NumGoroutine()
	for i := range 10_000 {
		run(i)
	}
	if after := heap(); after > before+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes over 10,000 runs", before, after)
	}
	if n := runtime.NumGoroutine(); n > goroutines+1 {
		t.Errorf("goroutines grew from %d to %d", goroutines, n)
	}
}

// TestOptionalInputsTakeBareValues feeds an input of type optional with a tensor, an
// empty optional, and nothing.
func TestOptionalInputsTakeBareValues(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 18)
	of, err := onnx.NewTensorType(onnx.Float, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.InputType("x", &onnx.Type{Optional: &onnx.OptionalType{Elem: of}})
	b.Node("OptionalHasElement", []string{"x"}, []string{"y"})
	b.Output("y", onnx.Bool)
	bare := tensor.Must(tensor.New([]float32{1, 2}, 2))
	elem := tensor.TensorType(tensor.TypeFloat32)
	for _, provider := range []string{"cpu", "reference"} {
		s, err := onward.OpenModel(t.Context(), b.Must(),
			&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: provider}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name string
			feed onward.Values
			want bool
		}{
			{"a tensor", onward.Values{"x": bare}, true},
			{"an optional with a value", onward.Values{"x": &tensor.Optional{Elem: elem, Value: bare}}, true},
			{"an empty optional", onward.Values{"x": &tensor.Optional{Elem: elem}}, false},
			{"nil", onward.Values{"x": nil}, false},
		} {
			given := map[string]*tensor.Tensor{"y": tensor.Scalar(!c.want)}
			for _, opts := range []*onward.RunOptions{nil, {Into: given}} {
				out, err := s.Run(t.Context(), c.feed, opts)
				if err != nil {
					t.Errorf("%s: %s: %v", provider, c.name, err)
				} else if err := tensor.Equal(out["y"], tensor.Scalar(c.want)); err != nil {
					t.Errorf("%s: %s: %v", provider, c.name, err)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
