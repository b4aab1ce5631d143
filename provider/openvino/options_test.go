package openvino_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/internal/testing/nativetest"
	"github.com/onward-ml/onward/internal/testing/openvinolib"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/preset"
	"github.com/onward-ml/onward/provider/openvino"
	"github.com/onward-ml/onward/tensor"
)

// TestOptions opens and runs a model with each option.
func TestOptions(t *testing.T) {
	cache := t.TempDir()
	for _, o := range [][]string{
		{"device", "cpu"}, {"device", "AUTO"}, {"device", "auto:cpu"}, {"hint", "throughput"}, {"hint", "throughput", "requests", "3"}, {"streams", "2"}, {"streams", "auto"},
		{"precision", "bf16"}, {"precision", "f16"}, {"precision", "device"}, {"threads", "2"}, {"execution_mode", "accuracy"},
		{"cache_dir", cache}, {"cache_dir", cache}, {"ENABLE_CPU_PINNING", "NO"},
		{"streams", "1", "threads", "1", "hint", "latency", "precision", "f32", "execution_mode", "accuracy", "cache_dir", cache, "ENABLE_CPU_PINNING", "NO"},
	} {
		s, err := open(t, nativetest.Scale("n", 2), o...)
		if err != nil {
			t.Errorf("%v: %v", o, err)
			continue
		}
		y := run(t, s, tensor.Must(tensor.New([]float32{1, 2, 3, 4}, 2, 2)))
		if got := fmt.Sprint(tensor.MustData[float32](y.(*tensor.Tensor))); got != "[2 4 6 8]" {
			t.Errorf("%v: %s", o, got)
		}
		s.Close()
	}
	if files, err := os.ReadDir(cache); err != nil || len(files) == 0 {
		t.Errorf("cache_dir holds %v, %v", files, err)
	}
}

// TestPrecision checks that the default computes in float32 on processors with
// bfloat16 instructions too, and that SessionOptions.Precision selects bfloat16.
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
	rounded, err := onward.OpenModel(t.Context(), m,
		&onward.SessionOptions{Threads: 1, Precision: onward.PrecisionBFloat16,
			Providers: []onward.ProviderConfig{config(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer rounded.Close()
	got := run(t, rounded, x)
	if err := tensor.AllClose(got, run(t, openModel(t, m, "precision", "bf16"), x), 0, 0); err != nil {
		t.Errorf("SessionOptions.Precision is not the option precision: %v", err)
	}
	if err := tensor.AllClose(got, want, 2e-2, 0.1); err != nil {
		t.Error(err)
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
		s, err := onward.Open(t.Context(), p,
			&onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{config(t)}})
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		y := tensor.MustData[float32](run(t, s, tensor.Must(tensor.New([]float32{1}, 1))).(*tensor.Tensor))
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
	y := tensor.MustData[float32](run(t, openModel(t, m), tensor.Must(tensor.New([]float32{1}, 1))).(*tensor.Tensor))
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

// TestFreeDimensions fixes dimensions by name and by denotation: the outputs' shapes
// follow, and inputs of other shapes are rejected.
func TestFreeDimensions(t *testing.T) {
	m := nativetest.Scale("n", "m", 3)
	m.Graph.Inputs[0].Type.Tensor.Shape.Dims[1].Denotation = "WIDTH"
	s, err := onward.OpenModel(t.Context(), m, &onward.SessionOptions{FreeDimensions: map[string]int64{"n": 2},
		FreeDimensionsByDenotation: map[string]int64{"WIDTH": 4},
		Providers:                  []onward.ProviderConfig{config(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	y := run(t, s, tensor.Must(tensor.Zeros(tensor.TypeFloat32, 2, 4, 3)))
	if got := fmt.Sprint(y.(*tensor.Tensor).Shape()); got != "[2 4 3]" {
		t.Errorf("shape %s, want [2 4 3]", got)
	}
	if _, err := s.Run(context.Background(), onward.Values{"x": tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1, 4, 3))},
		nil); !errors.Is(err, onward.ErrInvalidArgument) {
		t.Errorf("another shape: %v, want status INVALID_ARGUMENT", err)
	}
}

func TestInitializers(t *testing.T) {
	s, err := onward.OpenModel(t.Context(), nativetest.Scale("n"),
		&onward.SessionOptions{Initializers: onward.Values{"two": tensor.Must(tensor.New([]float32{5}, 1))},
			Providers: []onward.ProviderConfig{config(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	y := run(t, s, tensor.Must(tensor.New([]float32{1, 2})))
	if got := fmt.Sprint(tensor.MustData[float32](y.(*tensor.Tensor))); got != "[5 10]" {
		t.Errorf("%s, want the replaced factor: [5 10]", got)
	}
}

func TestCustomOperators(t *testing.T) {
	c := onward.CustomOperator{Name: "Mul", Inputs: "x:float, y:float", Outputs: "z:float",
		Run: func(context.Context, onward.CustomCall) ([]tensor.Value, error) {
			return nil, errors.New("is not called")
		}}
	s, err := onward.OpenModel(t.Context(), nativetest.Scale(2),
		&onward.SessionOptions{CustomOperators: []onward.CustomOperator{c},
			Providers: []onward.ProviderConfig{config(t)}})
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
