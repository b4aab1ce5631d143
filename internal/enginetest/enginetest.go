// Package enginetest holds what the tests of whole models share. Its folders test the Go engines by
// subject:
//
//   - passes: graph optimizations and the operators that they fuse
//   - gradients: the Gradient operator
//   - operators: recorded and random cases of every operator
//   - chains: random graphs of operators, and control flow
//   - states: states of bindings, on any provider
//   - hostile: models that must not hang, panic or exceed the memory limit
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	_ "github.com/onward-ml/onward/imagecodec/jpeg2000" // decoder for the cases of ImageDecoder
	_ "github.com/onward-ml/onward/imagecodec/webp"
	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Engines lists the providers written in Go. The first is the oracle.
var Engines = []string{"reference", "cpu"}

// Main runs the tests of a package. A panic of an operator ends the program, with its stack.
func Main(m *testing.M) {
	exec.CrashOnPanic()
	os.Exit(m.Run())
}

// On returns options that select a provider.
func On(provider string) *onward.SessionOptions {
	return &onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: provider}}}
}

// Open opens a model until the end of the test.
func Open(t testing.TB, m *onnx.Model, o *onward.SessionOptions) *onward.Session {
	t.Helper()
	s, err := onward.OpenModel(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Must ends the test if one of the errors is not nil.
func Must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// Floats returns the elements of a float32 tensor.
func Floats(t testing.TB, v tensor.Value) []float32 {
	t.Helper()
	x, err := tensor.Data[float32](v)
	Must(t, err)
	return x
}

// Flowers returns inputs for logreg_iris.onnx.
func Flowers() onward.Values {
	return onward.Values{"float_input": tensor.Must(tensor.New([]float32{5.1, 3.5, 6.2, 2.9, 5.9, 3}, 3, 2))}
}

// Normal returns a float32 tensor of normally distributed numbers.
func Normal(rng *rand.Rand, dims ...int) *tensor.Tensor {
	n := 1
	for _, d := range dims {
		n *= d
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(rng.NormFloat64())
	}
	return tensor.Must(tensor.New(data, dims...))
}

// AddWeights adds an initializer of normally distributed numbers times scale. It returns its name.
func AddWeights(b *onnx.GraphBuilder, rng *rand.Rand, name string, scale float32, dims ...int) string {
	t := Normal(rng, dims...)
	d := tensor.MustData[float32](t)
	for i := range d {
		d[i] *= scale
	}
	shape := make([]int64, len(dims))
	for i, x := range dims {
		shape[i] = int64(x)
	}
	b.Initializer(name, d, shape...)
	return name
}

// Tolerance is the allowed difference of sums of float32, relative to the largest element.
func Tolerance(t *tensor.Tensor) float64 {
	var most float64
	for _, v := range tensor.MustData[float32](t) {
		most = max(most, float64(v), -float64(v))
	}
	return 1e-4*most + 1e-6
}

// CompareValues compares outputs, whose elements may differ by tol absolutely and relatively.
func CompareValues(t *testing.T, what string, got, want onward.Values, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d outputs, want %d", what, len(got), len(want))
	}
	for name, w := range want {
		if err := tensor.AllClose(got[name], w, tol, tol); err != nil {
			t.Errorf("%s: %s: %v", what, name, err)
		}
	}
}

// CheckBinding compares runs of a session of one input with and without a binding.
func CheckBinding(t *rapid.T, s *onward.Session, b *onward.Binding, x *tensor.Tensor) {
	ctx := context.Background()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", s.Provider(), err)
		}
	}
	for round := range rapid.IntRange(1, 3).Draw(t, "rounds") {
		x := x.Clone()
		in := s.Inputs()[0].Name
		check(b.BindCPUInput(in, x))
		want, err := s.Run(ctx, onward.Values{in: x}, nil)
		check(err)
		given := map[string]*tensor.Tensor{}
		if rapid.Bool().Draw(t, "clear") {
			check(b.ClearOutputs())
		}
		for _, o := range s.Outputs() {
			switch rapid.IntRange(0, 3).Draw(t, "bind") {
			case 0:
				check(b.BindOutput(o.Name, onward.Buffer{}))
			case 1, 2:
				y := want[o.Name].(*tensor.Tensor).Clone()
				given[o.Name] = y
				check(b.BindCPUOutput(o.Name, y))
			case 3:
				if round == 0 {
					check(b.BindOutput(o.Name, onward.Buffer{})) // at least one output must be bound
				}
			}
		}
		if len(b.OutputNames()) == 0 {
			check(b.BindOutput(s.Outputs()[0].Name, onward.Buffer{}))
		}
		for range rapid.IntRange(1, 6).Draw(t, "runs") {
			for i, d := 0, tensor.MustData[float32](x); i < len(d); i++ {
				d[i] = -d[i] + 0.25
			}
			for _, y := range given {
				clear(y.Bytes())
			}
			want, err := s.Run(ctx, onward.Values{in: x}, nil)
			check(err)
			check(s.RunBinding(ctx, b, nil))
			out, err := b.CopyOutputsToCPU()
			check(err)
			views, err := b.Outputs()
			check(err)
			for k, name := range b.OutputNames() {
				check(Same(out[k], want[name], name))
				v, err := views[k].Tensor()
				check(err)
				check(Same(v, want[name], name))
				if y := given[name]; y != nil {
					check(Same(y, want[name], name+" in place"))
				}
			}
		}
	}
}

// Same returns an error if the values of an output differ.
func Same(got, want tensor.Value, name string) error {
	if err := tensor.AllClose(got, want, 0, 0); err != nil {
		return fmt.Errorf("output %s: %w", name, err)
	}
	return nil
}
