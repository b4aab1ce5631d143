package ort_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/internal/enginetest/states"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func newBinding(t testing.TB, s *onward.Session) *onward.Binding {
	t.Helper()
	b, err := s.NewBinding()
	must(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

func openExample(t testing.TB, name string) *onward.Session {
	t.Helper()
	data, err := datasets.Get(name)
	must(t, err)
	s, err := onward.OpenBytes(t.Context(), data,
		&onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{config(t)}})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func buffer(v []float32, shape ...int) onward.Buffer {
	return onward.Buffer{Type: tensor.TypeFloat32, Shape: shape, Pointer: unsafe.Pointer(unsafe.SliceData(v))}
}

// The scenarios of ONNX Runtime's API summary.
func TestBindingScenarios(t *testing.T) {
	s := openExample(t, "mul_1.onnx")
	b := newBinding(t, s)
	x := []float32{1, 2, 3, 4, 5, 6}
	check := func(y []float32) {
		t.Helper()
		for i := range y {
			if want := x[i] * float32(i+1); y[i] != want {
				t.Fatalf("got %v for %v", y, x)
			}
		}
	}
	run := func() {
		t.Helper()
		must(t, b.SynchronizeInputs(), s.RunBinding(context.Background(), b, nil), b.SynchronizeOutputs())
	}
	outputs := func() []float32 {
		t.Helper()
		out, err := b.CopyOutputsToCPU()
		must(t, err)
		return tensor.MustData[float32](out[0].(*tensor.Tensor))
	}
	must(t, b.BindCPUInput("X", tensor.Must(tensor.New(x, 3, 2))), b.BindOutput("Y", onward.Buffer{}))
	for range 3 {
		x[0]++ // the input is read without a copy
		run()
		check(outputs())
	}
	must(t, b.BindInput("X", buffer(x, 3, 2)), b.BindOutput("Y", onward.Buffer{}))
	run()
	check(outputs())
	y := make([]float32, 6)
	must(t, b.BindOutput("Y", buffer(y, 3, 2)))
	for range 3 {
		x[5]--
		clear(y)
		run()
		check(y) // and the output is written without a copy
		check(outputs())
	}
	runtime.GC()
	run()
	check(y)
	must(t, b.ClearOutputs(), b.ClearInputs())
	if err := s.RunBinding(context.Background(), b, nil); !errors.Is(err, onward.ErrInvalidArgument) {
		t.Errorf("a run with nothing bound: %v", err)
	}
	must(t, b.BindInput("X", buffer(x, 3, 2)), b.BindOutput("Y", onward.Buffer{}))
	run()
	check(outputs())
}

// Two outputs keep the order in which they were bound, also after one is cleared.
func TestBindingOrder(t *testing.T) {
	b := onnx.NewModel("two").Opset("", 17)
	b.Input("x", onnx.Float, "n").Output("neg", onnx.Float, "n").Output("abs", onnx.Float, "n")
	b.Node("Neg", []string{"x"}, []string{"neg"})
	b.Node("Abs", []string{"x"}, []string{"abs"})
	s := openModel(t, b.Must())
	bd := newBinding(t, s)
	x := []float32{-1, 2}
	must(t, bd.BindInput("x", buffer(x, 2)), bd.BindOutput("abs", onward.Buffer{}),
		bd.BindOutput("neg", onward.Buffer{}))
	for range 3 {
		must(t, s.RunBinding(context.Background(), bd, nil))
		out, err := bd.Outputs()
		must(t, err)
		abs, err := out[0].Tensor()
		must(t, err)
		neg, err := out[1].Tensor()
		must(t, err)
		if a, n := tensor.MustData[float32](abs), tensor.MustData[float32](neg); a[0] != 1 || n[0] != 1 ||
			a[1] != 2 || n[1] != -2 {
			t.Fatalf("got %v and %v", a, n)
		}
	}
	// Another shape of the input is another shape of the outputs.
	must(t, bd.BindInput("x", buffer([]float32{1, -2, 3}, 3)), s.RunBinding(context.Background(), bd, nil))
	out, err := bd.Outputs()
	must(t, err)
	if out[0].Shape()[0] != 3 || out[1].Shape()[0] != 3 {
		t.Errorf("shapes %v and %v, want [3]", out[0].Shape(), out[1].Shape())
	}
}

// Shapes that depend on the contents of inputs change from run to run.
func TestBindingOfUnknownShape(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17)
	b.Input("x", onnx.Float, "n").Output("y", onnx.Int64, "r", "k").Output("z", onnx.Float, "n")
	b.Node("NonZero", []string{"x"}, []string{"y"})
	b.Node("Neg", []string{"x"}, []string{"z"})
	s := openModel(t, b.Must())
	bd := newBinding(t, s)
	x := make([]float32, 4)
	must(t, bd.BindInput("x", buffer(x, 4)), bd.BindOutput("y", onward.Buffer{}), bd.BindOutput("z", onward.Buffer{}))
	for _, want := range []int{3, 3, 2, 4, 4, 1} {
		clear(x)
		for i := range want {
			x[i] = float32(i + 1)
		}
		must(t, s.RunBinding(context.Background(), bd, nil))
		out, err := bd.CopyOutputsToCPU()
		must(t, err)
		if sh := out[0].(*tensor.Tensor).Shape(); sh[1] != want {
			t.Errorf("shape %v, want [1 %d]", sh, want)
		}
		if z := tensor.MustData[float32](out[1].(*tensor.Tensor)); z[0] != -1 || z[want-1] != float32(-want) {
			t.Errorf("z is %v", z)
		}
	}
	y := tensor.Must(tensor.New(make([]int64, 2), 1, 2))
	must(t, bd.BindCPUOutput("y", y))
	if err := s.RunBinding(context.Background(), bd, nil); err == nil {
		t.Error("a result of another shape than its memory was accepted")
	}
}

// Values other than tensors of numbers are bound as well.
func TestBindingOfOtherValues(t *testing.T) {
	s := openExample(t, "logreg_iris.onnx")
	b := newBinding(t, s)
	x := []float32{5.1, 3.5, 6.2, 2.9, 5.9, 3}
	want, err := s.Run(context.Background(), onward.Values{"float_input": tensor.Must(tensor.New(x, 3, 2))}, nil)
	must(t, err)
	must(t, b.BindInput("float_input", buffer(x, 3, 2)), b.BindOutput("output_probability", onward.Buffer{}),
		b.BindOutput("output_label", onward.Buffer{}))
	for range 3 {
		must(t, s.RunBinding(context.Background(), b, nil))
		out, err := b.CopyOutputsToCPU()
		must(t, err, tensor.AllClose(out[0], want["output_probability"], 0, 0),
			tensor.AllClose(out[1], want["output_label"], 0, 0))
	}
	str := openModel(t, identity(tensor.TensorType(tensor.TypeString)))
	b = newBinding(t, str)
	words := tensor.Must(tensor.New([]string{"a", "b\x00c", ""}))
	must(t, b.BindCPUInput("x", words), b.BindOutput("y", onward.Buffer{}),
		str.RunBinding(context.Background(), b, nil))
	out, err := b.Outputs()
	must(t, err)
	got, err := out[0].Value()
	must(t, err, tensor.AllClose(got, words, 0, 0))
}

// Errors of ONNX Runtime are returned with their text.
func TestBindingMisuse(t *testing.T) {
	s := openExample(t, "mul_1.onnx")
	x := make([]float32, 6)
	cuda := buffer(x, 3, 2)
	cuda.Device.Type = "cuda"
	npu := cuda
	npu.Device.Type = "npu"
	for name, c := range map[string]struct {
		do   func(b *onward.Binding) error
		want string
	}{
		"input on another device": {func(b *onward.Binding) error { return b.BindInput("X", cuda) }, "Error when binding input: "},
		"device without a name":   {func(b *onward.Binding) error { return b.BindInput("X", npu) }, "ONNX Runtime has no name for it"},
		"unknown device": {func(b *onward.Binding) error {
			return b.BindOutput("Y", onward.Buffer{Device: onward.Device{Type: "tpu"}})
		}, "Unsupported device type: tpu"},
		"wrong shape": {func(b *onward.Binding) error { return b.BindInput("X", buffer(x, 2, 3)) }, "Got invalid dimensions for input: X"},
		"null":        {func(b *onward.Binding) error { return b.BindInput("X", buffer(nil, 3, 2)) }, "Pointer to data memory is not valid"},
		"memory on another device": {func(b *onward.Binding) error {
			_, err := s.NewOrtValueOf(onward.Device{Type: "cuda"}, tensor.TypeFloat32, 3)
			return err
		}, ""},
	} {
		err := c.do(newBinding(t, s))
		var st *onward.StatusError
		if !errors.As(err, &st) || !strings.Contains(st.Message, c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	b := newBinding(t, s)
	must(t, b.BindCPUInput("X", tensor.Must(tensor.New(x, 3, 2))), b.BindOutput("Y", onward.Buffer{}), s.Close())
	if err := s.RunBinding(context.Background(), b, nil); err == nil ||
		!strings.Contains(err.Error(), "the session is closed") {
		t.Errorf("a run of a closed session: %v", err)
	}
}

// A context stops a bound run.
func TestBindingStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := endless(t, &cancel)
	b := newBinding(t, s)
	must(t, b.BindInput("x", buffer(make([]float32, 1), 1)), b.BindOutput("y", onward.Buffer{}))
	if err := s.RunBinding(ctx, b, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the run was cancelled", err)
	}
}

// perceptron returns a random perceptron with wide outputs per row.
func perceptron(rng *rand.Rand, in, layers int) (m *onnx.Model, wide int) {
	b := onnx.NewModel("mlp").Opset("", 17)
	b.Input("x", onnx.Float, "N", in)
	prev, wide := "x", in
	for i := range layers {
		n := 1 + rng.IntN(40)
		w := make([]float32, wide*n)
		for k := range w {
			w[k] = float32(rng.NormFloat64()) / 4
		}
		name := fmt.Sprint("w", i)
		b.Initializer(name, w, int64(wide), int64(n))
		b.Node("MatMul", []string{prev, name}, []string{name + "x"})
		b.Node([]string{"Relu", "Tanh", "Sigmoid", "Neg"}[rng.IntN(4)], []string{name + "x"}, []string{name + "y"})
		prev, wide = name+"y", n
	}
	b.Node("Reshape", []string{prev, "shape"}, []string{"y"})
	b.Initializer("shape", []int64{-1, int64(wide)}, 2)
	b.Output("y", onnx.Float, "N", wide).Output(prev, onnx.Float, nil, nil)
	return b.Must(), wide
}

// Bound runs compute what Run does.
func TestRandomBindings(t *testing.T) {
	c := config(t)
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(3, rapid.Uint64().Draw(t, "seed")))
		in := rapid.IntRange(1, 20).Draw(t, "in")
		m, wide := perceptron(rng, in, rapid.IntRange(1, 4).Draw(t, "layers"))
		s, err := onward.OpenModel(t.Context(), m,
			&onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{c}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b, err := s.NewBinding()
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			rows := rapid.IntRange(1, 9).Draw(t, "rows")
			x, y := make([]float32, rows*in), make([]float32, rows*wide)
			err := errors.Join(b.BindInput("x", buffer(x, rows, in)))
			given := rapid.Bool().Draw(t, "given")
			if given {
				err = errors.Join(err, b.BindOutput("y", buffer(y, rows, wide)))
			} else {
				err = errors.Join(err, b.BindOutput("y", onward.Buffer{}))
			}
			err = errors.Join(err, b.BindOutput(s.Outputs()[1].Name, onward.Buffer{}))
			if err != nil {
				t.Fatal(err)
			}
			for range rapid.IntRange(1, 4).Draw(t, "runs") {
				for i := range x {
					x[i] = float32(rng.NormFloat64())
				}
				want, err := s.Run(context.Background(), onward.Values{"x": tensor.Must(tensor.New(x, rows, in))}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.RunBinding(context.Background(), b, nil); err != nil {
					t.Fatal(err)
				}
				out, err := b.CopyOutputsToCPU()
				if err != nil {
					t.Fatal(err)
				}
				for k, name := range b.OutputNames() {
					if err := tensor.AllClose(out[k], want[name], 0, 0); err != nil {
						t.Fatalf("output %s: %v", name, err)
					}
				}
				if given {
					if err := tensor.AllClose(tensor.Must(tensor.New(y, rows, wide)), want["y"], 0, 0); err != nil {
						t.Fatalf("in place: %v", err)
					}
				}
			}
		}
	})
}

// Bindings of one session run side by side, and outlive it.
func TestBindingsAtOnce(t *testing.T) {
	m, wide := perceptron(rand.New(rand.NewPCG(1, 2)), 5, 3)
	s := openModel(t, m)
	var wg sync.WaitGroup
	for g := range 4 {
		b := newBinding(t, s)
		wg.Go(func() {
			x, y := []float32{1, 2, 3, 4, float32(g)}, make([]float32, wide)
			want, err := s.Run(context.Background(), onward.Values{"x": tensor.Must(tensor.New(x, 1, 5))}, nil)
			err = errors.Join(err, b.BindInput("x", buffer(x, 1, 5)), b.BindOutput("y", buffer(y, 1, wide)))
			for range 50 {
				clear(y)
				err = errors.Join(err, s.RunBinding(context.Background(), b, nil),
					tensor.AllClose(tensor.Must(tensor.New(y, 1, wide)), want["y"], 0, 0))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	must(t, s.Close()) // the bindings are closed later
	for range 50 {
		s := openModel(t, m)
		b, err := s.NewBinding()
		must(t, err, b.BindInput("x", buffer(make([]float32, 5), 1, 5)), s.Close())
	}
	runtime.GC() // runs the cleanups of these
	runtime.GC()
}

// Sparse inputs keep their format.
func TestSparseOrtValues(t *testing.T) {
	b := onnx.NewModel("sparse").Opset("", 17).Opset("com.microsoft", 1)
	b.InputType("a", onnx.NewType(tensor.SparseType(tensor.TypeFloat32)))
	b.Input("b", onnx.Float, 3, 2).Output("y", onnx.Float, 3, 2)
	b.Node("SparseToDenseMatMul", []string{"a", "b"}, []string{"y"}).Domain("com.microsoft")
	m := b.Must()
	s := openModel(t, m)
	ints := func(v []int64, shape ...int) *tensor.Tensor { return tensor.Must(tensor.New(v, shape...)) }
	// [[0 1 0] [2 0 3] [0 0 4]]
	values := tensor.Must(tensor.New([]float32{1, 2, 3, 4}))
	coo, err := tensor.NewSparse(values, ints([]int64{0, 1, 1, 0, 1, 2, 2, 2}, 4, 2), 3, 3)
	must(t, err)
	csr, err := tensor.NewSparseCSR([]int{3, 3}, values, ints([]int64{1, 0, 2, 2}, 4), ints([]int64{0, 1, 3, 4}, 4))
	must(t, err)
	x := tensor.Must(tensor.New([]float32{1, 2, 3, 4, 5, 6}, 3, 2))
	want := tensor.Must(tensor.New([]float32{3, 4, 17, 22, 20, 24}, 3, 2))
	for _, sp := range []*tensor.Sparse{coo, csr} {
		a, err := onward.NewOrtValue(sp)
		must(t, err)
		dense, err := onward.NewOrtValue(x)
		must(t, err)
		out, err := s.RunWithOrtValues(context.Background(), map[string]*onward.OrtValue{"a": a, "b": dense}, nil)
		if err != nil {
			t.Errorf("%s: %v", sp.Format, err)
			continue
		}
		y, err := out["y"].Tensor()
		must(t, err)
		if err := tensor.AllClose(y, want, 0, 0); err != nil {
			t.Errorf("%s: %v", sp.Format, err)
		}
	}
}

// ONNX Runtime's states are copied after each run.
func TestStates(t *testing.T) { states.Check(t, config(t)) }
