package onward_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func newBinding(t testing.TB, s *onward.Session) *onward.Binding {
	t.Helper()
	b, err := s.NewBinding()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func buffer(v []float32, shape ...int) onward.Buffer {
	return onward.Buffer{Type: tensor.TypeFloat32, Shape: shape, Pointer: unsafe.Pointer(unsafe.SliceData(v))}
}

// This test runs the scenarios of ONNX Runtime's API summary on both providers.
func TestBindingScenarios(t *testing.T) {
	for _, provider := range []string{"cpu", "reference"} {
		t.Run(provider, func(t *testing.T) {
			s := example(t, "mul_1.onnx", enginetest.On(provider))
			x, want := []float32{1, 2, 3, 4, 5, 6}, []float32{1, 4, 9, 16, 25, 36}
			for i := range 6 { // runs are planned, captured, replayed
				b := newBinding(t, s)
				for range i {
					enginetest.Must(t, b.BindCPUInput("X", tensor.Must(tensor.New(x, 3, 2))),
						b.BindOutput("Y", onward.Buffer{}),
						s.RunBinding(context.Background(), b, nil))
				}
				enginetest.Must(t, b.BindCPUInput("X", tensor.Must(tensor.New(x, 3, 2))),
					b.BindOutput("Y", onward.Buffer{}),
					s.RunBinding(context.Background(), b, nil))
				out, err := b.CopyOutputsToCPU()
				enginetest.Must(t, err)
				equal(t, out[0], want)

				y := make([]float32, 6)
				enginetest.Must(t, b.BindInput("X", buffer(x, 3, 2)), b.BindOutput("Y", buffer(y, 3, 2)))
				for range 6 {
					clear(y)
					enginetest.Must(t, s.RunBinding(context.Background(), b, nil))
					equal(t, tensor.Must(tensor.New(y, 3, 2)), want)
					x[0]++
					want[0] = x[0]
				}
				x[0], want[0] = 1, 1
			}
		})
	}
}

func equal(t testing.TB, got tensor.Value, want []float32) {
	t.Helper()
	g, err := tensor.Data[float32](got)
	enginetest.Must(t, err)
	for i, w := range want {
		if g[i] != w {
			t.Fatalf("got %v, want %v", g, want)
		}
	}
}

// This test checks that binding an invalid value fails with ONNX Runtime's message.
func TestBindingMisuse(t *testing.T) {
	x := make([]float32, 8)
	xt := tensor.Must(tensor.New(x[:6], 3, 2))
	with := func(b onward.Buffer, change func(*onward.Buffer)) onward.Buffer { change(&b); return b }
	cases := []struct {
		name, want string
		code       onward.Code
		do         func(s *onward.Session, b *onward.Binding) error
	}{
		{"input name of a value", "Failed to find NodeArg with name: nope in the def list", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error { return b.BindCPUInput("nope", xt) }},
		{"input name of a buffer", "Error when binding input: Failed to find input name in the mapping: nope", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error { return b.BindInput("nope", buffer(x, 3, 2)) }},
		{"output name", "Invalid output name: nope", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error { return b.BindOutput("nope", onward.Buffer{}) }},
		{"output name of a buffer", "Failed to find NodeArg with name: nope in the def list", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error { return b.BindOutput("nope", buffer(x, 3, 2)) }},
		{"device type", "Unsupported device type: tpu", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error {
				return b.BindInput("X", with(buffer(x, 3, 2), func(b *onward.Buffer) { b.Device.Type = "tpu" }))
			}},
		{"device type of an output", "Unsupported device type: tpu", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error {
				return b.BindOutput("Y", onward.Buffer{Device: onward.Device{Type: "tpu"}})
			}},
		{"device id", "device cpu:1 does not exist", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error {
				return b.BindOutput("Y", onward.Buffer{Device: onward.Device{ID: 1}})
			}},
		{"device of another provider", "open the session with a provider for that device, such as ort:cuda", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error {
				return b.BindInput("X", with(buffer(x, 3, 2), func(b *onward.Buffer) { b.Device.Type = "cuda" }))
			}},
		{"output on the device of another provider", "not of cuda:0", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error {
				return b.BindOutput("Y", onward.Buffer{Device: onward.Device{Type: "cuda"}})
			}},
		{"memory without type and shape", "`element_type` and `shape` are to be provided if pre-allocated memory is provided", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error {
				return b.BindOutput("Y", onward.Buffer{Pointer: unsafe.Pointer(&x[0])})
			}},
		{"null input", "Pointer to data memory is not valid", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error { return b.BindInput("X", buffer(nil, 3, 2)) }},
		{"null output", "Pointer to data memory is not valid", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error { return b.BindOutput("Y", buffer(nil, 3, 2)) }},
		{"address between elements", "is not a multiple of 4", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error {
				return b.BindInput("X", with(buffer(x, 3, 2), func(b *onward.Buffer) {
					b.Pointer = unsafe.Add(b.Pointer, 2)
				}))
			}},
		{"shape that overflows", "overflows", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error { return b.BindInput("X", buffer(x, 1<<40, 1<<40)) }},
		{"bytes that overflow", "overflows", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error {
				return b.BindOutput("Y", buffer(x, 1<<31, 1<<31))
			}},
		{"negative dimension", "dimension 1 is negative: -2", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error { return b.BindInput("X", buffer(x, 3, -2)) }},
		{"type of an input", "Unexpected input data type. Actual: (tensor(int32)) , expected: (tensor(float))", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error {
				return b.BindInput("X", with(buffer(x, 3, 2), func(b *onward.Buffer) { b.Type = tensor.TypeInt32 }))
			}},
		{"type of an output", "Unexpected output data type. Actual: (tensor(int32)) , expected: (tensor(float))", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error {
				return b.BindOutput("Y", with(buffer(x, 3, 2), func(b *onward.Buffer) {
					b.Type = tensor.TypeInt32
				}))
			}},
		{"rank of an input", "Invalid rank for input: X Got: 1 Expected: 2 Please fix either the inputs/outputs or the model.", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error { return b.BindInput("X", buffer(x, 6)) }},
		{"rank of an output", "Invalid rank for output: Y Got: 1 Expected: 2 Please fix either the inputs/outputs or the model.", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error { return b.BindOutput("Y", buffer(x, 6)) }},
		{"dimensions of an input", "Got invalid dimensions for input: X for the following indices\n index: 0 Got: 4 Expected: 3\n Please fix either the inputs or the model.", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error { return b.BindInput("X", buffer(x, 4, 2)) }},
		{"dimensions of an output", "Got invalid dimensions for output: Y for the following indices\n index: 0 Got: 4 Expected: 3\n Please fix either the inputs/outputs or the model.", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error { return b.BindOutput("Y", buffer(x, 4, 2)) }},
		{"no output", "At least one output should be requested.", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error {
				enginetest.Must(t, b.BindCPUInput("X", xt))
				return s.RunBinding(context.Background(), b, nil)
			}},
		{"no input", "Required inputs (['X']) are missing from input feed ([]).", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error {
				enginetest.Must(t, b.BindOutput("Y", onward.Buffer{}))
				return s.RunBinding(context.Background(), b, nil)
			}},
		{"input that was cleared", "Required inputs (['X']) are missing from input feed ([]).", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error {
				enginetest.Must(t, b.BindCPUInput("X", xt), b.BindOutput("Y", onward.Buffer{}),
					s.RunBinding(context.Background(), b, nil), b.ClearInputs())
				return s.RunBinding(context.Background(), b, nil)
			}},
		{"output that was cleared", "At least one output should be requested.", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error {
				enginetest.Must(t, b.BindCPUInput("X", xt), b.BindOutput("Y", onward.Buffer{}),
					s.RunBinding(context.Background(), b, nil), b.ClearOutputs())
				return s.RunBinding(context.Background(), b, nil)
			}},
		{"outputs before a run", "the binding has not run since its outputs were bound", onward.CodeFail,
			func(s *onward.Session, b *onward.Binding) error {
				enginetest.Must(t, b.BindOutput("Y", onward.Buffer{}))
				_, err := b.Outputs()
				return err
			}},
		{"binding of another session", "IOBinding must be used with the session that created it.", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error {
				return example(t, "mul_1.onnx", enginetest.On("cpu")).RunBinding(context.Background(), b, nil)
			}},
		{"no binding", "IOBinding must be used with the session that created it.", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error { return s.RunBinding(context.Background(), nil, nil) }},
		{"names of outputs in the options", "RunOptions.Outputs must be nil", onward.CodeInvalidArgument,
			func(s *onward.Session, b *onward.Binding) error {
				enginetest.Must(t, b.BindCPUInput("X", xt), b.BindOutput("Y", onward.Buffer{}))
				return s.RunBinding(context.Background(), b, &onward.RunOptions{Outputs: []string{"Y"}})
			}},
		{"cancelled context", "context canceled", onward.CodeFail,
			func(s *onward.Session, b *onward.Binding) error {
				enginetest.Must(t, b.BindCPUInput("X", xt), b.BindOutput("Y", onward.Buffer{}))
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				return s.RunBinding(ctx, b, nil)
			}},
		{"closed binding", "the binding is closed", onward.CodeFail,
			func(s *onward.Session, b *onward.Binding) error {
				enginetest.Must(t, b.Close(), b.Close())
				return b.BindOutput("Y", onward.Buffer{})
			}},
		{"closed session", "the session is closed", onward.CodeFail,
			func(s *onward.Session, b *onward.Binding) error {
				enginetest.Must(t, b.BindCPUInput("X", xt), b.BindOutput("Y", onward.Buffer{}), s.Close())
				return s.RunBinding(context.Background(), b, nil)
			}},
		{"new binding of a closed session", "the session is closed", onward.CodeFail,
			func(s *onward.Session, b *onward.Binding) error {
				enginetest.Must(t, s.Close())
				_, err := s.NewBinding()
				return err
			}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := example(t, "mul_1.onnx", enginetest.On("cpu"))
			err := c.do(s, newBinding(t, s))
			var st *onward.StatusError
			if !errors.As(err, &st) || st.Code != c.code || !strings.Contains(st.Message, c.want) {
				t.Errorf("got %v, want %s: %q", err, c.code, c.want)
			}
		})
	}
}

// This test checks that a shape known only at run time is compared after the run.
func TestBindingOfUnknownShape(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17)
	b.Input("x", onnx.Float, "n").Output("y", onnx.Int64, "r", "k")
	b.Node("NonZero", []string{"x"}, []string{"y"}, nil)
	for _, provider := range enginetest.Engines {
		s := enginetest.Open(t, b.Must(), enginetest.On(provider))
		bd := newBinding(t, s)
		x := []float32{0, 5, 0, 7}
		y := tensor.Must(tensor.New(make([]int64, 2), 1, 2))
		enginetest.Must(t, bd.BindInput("x", buffer(x, 4)), bd.BindCPUOutput("y", y),
			s.RunBinding(context.Background(), bd, nil))
		if got := tensor.MustData[int64](y); got[0] != 1 || got[1] != 3 {
			t.Errorf("%s: got %v, want [1 3]", provider, got)
		}
		x[0] = 1
		err := s.RunBinding(context.Background(), bd, nil)
		if !errors.Is(err, onward.ErrInvalidArgument) || !strings.Contains(err.Error(), "int64[1 3]") {
			t.Errorf("%s: got %v, want a refusal of int64[1 3]", provider, err)
		}
		enginetest.Must(t, bd.BindOutput("y", onward.Buffer{}))
		for _, want := range []int{3, 3, 2, 4, 4, 4, 4, 1} {
			clear(x)
			for i := range want {
				x[i] = 1
			}
			enginetest.Must(t, s.RunBinding(context.Background(), bd, nil))
			out, err := bd.Outputs()
			enginetest.Must(t, err)
			if sh := out[0].Shape(); sh[1] != want {
				t.Errorf("%s: shape %v, want [1 %d]", provider, sh, want)
			}
		}
	}
}

// TestMissingInputNamesBoundInputs checks that the error for a missing input lists
// those that are bound.
func TestMissingInputNamesBoundInputs(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17)
	b.Input("x", onnx.Float, 2).Input("y", onnx.Float, 2).Input("z", onnx.Float, 2).Output("s", onnx.Float, 2)
	b.Node("Sum", []string{"x", "y", "z"}, []string{"s"})
	s := enginetest.Open(t, b.Must(), nil)
	bound := newBinding(t, s)
	x := tensor.Must(tensor.New([]float32{1, 2}, 2))
	enginetest.Must(t, bound.BindCPUInput("z", x), bound.BindCPUInput("x", x), bound.BindOutput("s", onward.Buffer{}))
	_, want := s.Run(t.Context(), onward.Values{"x": x, "z": x}, nil)
	if err := s.RunBinding(t.Context(), bound, nil); err == nil || want == nil || err.Error() != want.Error() ||
		!strings.Contains(err.Error(), "(['x', 'z'])") {
		t.Errorf("error is %v, want %v", err, want)
	}
}
