package openvino_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/openvinolib"
	"github.com/onward-ml/onward/onnx"
	_ "github.com/onward-ml/onward/provider/openvino"
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
	return onward.OpenModel(m, &onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{config(t, opts...)}})
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

// TestStrings hands strings over: OpenVINO has operators that look at their shape.
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

// TestOutputInPlace proves that a tensor that is given is filled, with a fixed
// shape by OpenVINO itself.
func TestOutputInPlace(t *testing.T) {
	for _, dims := range [][]any{{2, 2}, {"n", 2}} {
		p := onward.LookupProvider("openvino")
		e, err := p.Compile(context.Background(), scale(dims...), &onward.SessionOptions{Threads: 1}, config(t))
		if err != nil {
			t.Fatal(err)
		}
		y := tensor.Must(tensor.New([]float32{9, 9, 9, 9}, 2, 2))
		req := &onward.Request{In: []tensor.Value{tensor.Must(tensor.New([]float32{1, 2, 3, 4}, 2, 2))}, Out: []tensor.Value{y}, Options: &onward.RunOptions{}}
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
	p := onward.LookupProvider("openvino").(interface {
		AvailableFor(onward.ProviderConfig) error
	})
	if err := p.AvailableFor(config(t)); err != nil {
		t.Error(err)
	}
	err := p.AvailableFor(onward.ProviderConfig{Name: "openvino", Options: map[string]string{"library": "/nowhere/libopenvino_c.so"}})
	if !errors.Is(err, onward.ErrExecution) {
		t.Errorf("%v, want status EP_FAIL", err)
	}
}
