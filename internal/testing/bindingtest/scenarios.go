package bindingtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tensor"
)

// Scenarios runs the scenarios of ONNX Runtime's IOBinding with changing contents on a device:
// from the CPU, and with memory on the device given as a value and by its address. The
// session's model copies a float vector from x to y.
func Scenarios(t *testing.T, s *onward.Session, device onward.Device) {
	t.Helper()
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	const n = 100
	numbers := func(seed int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32((i*7+seed)%23) - 11
		}
		return x
	}
	b, err := s.NewBinding()
	must(err)
	defer b.Close()
	x := tensor.Must(tensor.New(numbers(0), n))
	in, err := s.NewOrtValue(x, device)
	must(err)
	out, err := s.NewOrtValueOf(device, tensor.TypeFloat32, n)
	must(err)
	buffer := func(v *onward.OrtValue) onward.Buffer {
		return onward.Buffer{Device: device, Type: tensor.TypeFloat32, Shape: []int{n}, Pointer: v.Pointer()}
	}
	for name, bind := range map[string]func() error{
		"from the CPU": func() error { return errors.Join(b.BindCPUInput("x", x), b.BindOutput("y", onward.Buffer{})) },
		"input by address": func() error {
			return errors.Join(b.BindInput("x", buffer(in)), b.BindOutput("y", onward.Buffer{}))
		},
		"to the device": func() error {
			return errors.Join(b.BindInputValue("x", in), b.BindOutput("y", onward.Buffer{Device: device}))
		},
		"both by address": func() error {
			return errors.Join(b.BindInput("x", buffer(in)), b.BindOutput("y", buffer(out)))
		},
		"both as values": func() error { return errors.Join(b.BindInputValue("x", in), b.BindOutputValue("y", out)) },
		"device to device": func() error {
			return errors.Join(b.BindInput("x", buffer(in)), b.BindOutputValue("y", out))
		},
	} {
		for i := range 4 {
			copy(tensor.MustData[float32](x), numbers(i+1))
			must(in.UpdateInPlace(x))
			if i == 0 || name == "from the CPU" { // which is copied when it is bound
				must(bind())
			}
			must(b.SynchronizeInputs(), s.RunBinding(context.Background(), b, nil), b.SynchronizeOutputs())
			list, err := b.CopyOutputsToCPU()
			if err != nil {
				t.Fatalf("%s, %s: %v", s.Provider(), name, err)
			}
			if y := tensor.MustData[float32](list[0].(*tensor.Tensor)); !slices.Equal(y, tensor.MustData[float32](x)) {
				t.Errorf("%s, %s, run %d: got %v, want %v", s.Provider(), name, i, y[:4],
					tensor.MustData[float32](x)[:4])
			}
			bound, err := b.Outputs()
			must(err)
			if want := strings.Contains(name, "CPU") || name == "input by address"; bound[0].Device().IsCPU() != want {
				t.Errorf("%s, %s: the output is on %s", s.Provider(), name, bound[0].Device())
			}
		}
	}
	v, err := s.OrtValueOfBuffer(buffer(in))
	must(err)
	must(v.UpdateInPlace(tensor.Must(tensor.New(numbers(9), n))))
	got, err := in.Tensor()
	must(err)
	if y := tensor.MustData[float32](got); !slices.Equal(y, numbers(9)) {
		t.Errorf("%s: memory that was written by its address holds %v, want %v", s.Provider(), y[:4], numbers(9)[:4])
	}
}
