package ort_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestCustomOpLibrary runs an operator of a library in C, which reads a session configuration
// entry.
func TestCustomOpLibrary(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skipf("found no C compiler: %v", err)
	}
	lib := filepath.Join(t.TempDir(), "libtimes.so")
	if out, err := exec.CommandContext(t.Context(), cc, "-shared", "-fPIC", "-o", lib,
		filepath.Join("testdata", "customop.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b := onnx.NewModel("m").Opset("", 17).Opset("test.c", 1).IRVersion(8)
	b.Input("x", onnx.Float, 3).Output("y", onnx.Float, 3)
	b.Node("Times", []string{"x"}, []string{"y"}).Domain("test.c")
	open := func(options ...string) (*onward.Session, error) {
		return onward.OpenModel(t.Context(), b.Must(),
			&onward.SessionOptions{Providers: []onward.ProviderConfig{config(t, options...)}})
	}
	s, err := open("custom_op_libraries", lib, "test.factor", "2.5")
	must(t, err)
	defer s.Close()
	out, err := s.Run(context.Background(), onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2, 4}, 3))}, nil)
	must(t, err)
	if y := tensor.MustData[float32](out["y"].(*tensor.Tensor)); y[0] != 2.5 || y[2] != 10 {
		t.Errorf("got %v, want the inputs times 2.5", y)
	}
	if _, err := open("custom_op_libraries", lib); err == nil || !strings.Contains(err.Error(), lib) {
		t.Errorf("without the entry that the library needs: %v", err)
	}
	if _, err := open("custom_op_libraries", filepath.Join(t.TempDir(), "none.so")); err == nil ||
		!strings.Contains(err.Error(), "none.so") {
		t.Errorf("a library that does not exist: %v", err)
	}
}

func TestSelectionPolicyAndDynamicOptions(t *testing.T) {
	for _, policy := range []string{"default", "prefer_cpu", "max_performance", "min_overall_power"} {
		b := onnx.NewModel("m").Opset("", 17).IRVersion(8)
		b.Input("x", onnx.Float, 1).Output("y", onnx.Float, 1)
		b.Node("Neg", []string{"x"}, []string{"y"})
		s, err := onward.OpenModel(t.Context(), b.Must(),
			&onward.SessionOptions{Providers: []onward.ProviderConfig{config(t, "provider_selection_policy", policy)}})
		must(t, err)
		out, err := s.Run(context.Background(), onward.Values{"x": tensor.Must(tensor.New([]float32{3}, 1))}, nil)
		must(t, err)
		if y := tensor.MustData[float32](out["y"].(*tensor.Tensor)); y[0] != -3 {
			t.Errorf("%s: got %v", policy, y)
		}
		must(t, s.SetDynamicOptions(map[string]string{"ep.dynamic.workload_type": "Efficient"}), s.Close())
		if err := s.SetDynamicOptions(nil); !errors.Is(err, onward.ErrFail) {
			t.Errorf("options of a closed session: %v", err)
		}
	}
	_, err := onward.OpenModel(t.Context(), onnx.NewModel("m").Must(),
		&onward.SessionOptions{Providers: []onward.ProviderConfig{config(t, "provider_selection_policy", "default",
			"execution_provider", "X")}})
	if !errors.Is(err, onward.ErrInvalidArgument) {
		t.Errorf("a policy beside an execution provider: %v", err)
	}
}

// The three providers run all nodes unless OnlyPathToFetches is set, and an error of any node fails
// the run.
func TestUnneededNodeFailsRun(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17).IRVersion(8)
	b.Input("x", onnx.Float, nil).Input("shape", onnx.Int64, nil).Output("y", onnx.Float, nil).OutputType("z", nil)
	b.Node("Neg", []string{"x"}, []string{"y"})
	b.Node("Reshape", []string{"x", "shape"}, []string{"z"})
	feed := onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2}, 2)),
		"shape": tensor.Must(tensor.New([]int64{7}, 1))}
	for _, c := range []onward.ProviderConfig{{Name: "cpu"}, {Name: "reference"}, config(t)} {
		s, err := onward.OpenModel(t.Context(), b.Must(), &onward.SessionOptions{Providers: []onward.ProviderConfig{c}})
		must(t, err)
		defer s.Close()
		if _, err := s.Run(t.Context(), feed, &onward.RunOptions{Outputs: []string{"y"}}); err == nil {
			t.Errorf("%s: a run for y succeeded although the node of z fails", c.Name)
		}
	}
}

// The adapters are those of TestAdapters in the root package.
func TestAdapters(t *testing.T) {
	a, err := onward.LoadAdapter(filepath.Join("..", "..", "testdata", "lora.onnx_adapter"))
	must(t, err)
	b := onnx.NewModel("m").Opset("", 17).IRVersion(8)
	b.Input("x", onnx.Float, nil, 2).Input("lora_A", onnx.Float, 2, nil).Input("lora_B", onnx.Float, nil, 2).
		Output("y", onnx.Float, nil, 2)
	b.Initializer("lora_A", tensor.Must(tensor.New([]float32{}, 2, 0))).
		Initializer("lora_B", tensor.Must(tensor.New([]float32{}, 0, 2)))
	b.Node("MatMul", []string{"x", "lora_A"}, []string{"r"})
	b.Node("MatMul", []string{"r", "lora_B"}, []string{"y"})
	s := openModel(t, b.Must())
	feed := onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2, 5, 1}, 2, 2))}
	for _, c := range []struct {
		opts *onward.RunOptions
		want []float32
	}{{nil, []float32{0, 0, 0, 0}}, {&onward.RunOptions{Adapters: []*onward.Adapter{a}}, []float32{-10, -20, 40, 80}}} {
		out, err := s.Run(t.Context(), feed, c.opts)
		must(t, err)
		if y := tensor.MustData[float32](out["y"].(*tensor.Tensor)); !slices.Equal(y, c.want) {
			t.Errorf("got %v, want %v", y, c.want)
		}
	}
}
