package ort_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
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
	if out, err := exec.CommandContext(t.Context(), cc, "-shared", "-fPIC", "-o", lib, filepath.Join("testdata", "customop.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b := onnx.NewModel("m").Opset("", 17).Opset("test.c", 1).IRVersion(8)
	b.Input("x", onnx.Float, 3).Output("y", onnx.Float, 3)
	b.Node("Times", []string{"x"}, []string{"y"}).Domain("test.c")
	open := func(options ...string) (*onward.Session, error) {
		return onward.OpenModel(t.Context(), b.Must(), &onward.SessionOptions{Providers: []onward.ProviderConfig{config(t, options...)}})
	}
	s, err := open("custom_op_libraries", lib, "test.factor", "2.5")
	must(t, err)
	defer s.Close()
	out, err := s.Run(context.Background(), onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2, 4}, 3))}, nil)
	must(t, err)
	if y := tensor.Of[float32](out["y"].(*tensor.Tensor)); y[0] != 2.5 || y[2] != 10 {
		t.Errorf("got %v, want the inputs times 2.5", y)
	}
	if _, err := open("custom_op_libraries", lib); err == nil || !strings.Contains(err.Error(), lib) {
		t.Errorf("without the entry that the library needs: %v", err)
	}
	if _, err := open("custom_op_libraries", filepath.Join(t.TempDir(), "none.so")); err == nil || !strings.Contains(err.Error(), "none.so") {
		t.Errorf("a library that does not exist: %v", err)
	}
}

func TestSelectionPolicyAndDynamicOptions(t *testing.T) {
	for _, policy := range []string{"default", "prefer_cpu", "max_performance", "min_overall_power"} {
		b := onnx.NewModel("m").Opset("", 17).IRVersion(8)
		b.Input("x", onnx.Float, 1).Output("y", onnx.Float, 1)
		b.Node("Neg", []string{"x"}, []string{"y"})
		s, err := onward.OpenModel(t.Context(), b.Must(), &onward.SessionOptions{Providers: []onward.ProviderConfig{config(t, "provider_selection_policy", policy)}})
		must(t, err)
		out, err := s.Run(context.Background(), onward.Values{"x": tensor.Must(tensor.New([]float32{3}, 1))}, nil)
		must(t, err)
		if y := tensor.Of[float32](out["y"].(*tensor.Tensor)); y[0] != -3 {
			t.Errorf("%s: got %v", policy, y)
		}
		must(t, s.SetDynamicOptions(map[string]string{"ep.dynamic.workload_type": "Efficient"}), s.Close())
		if err := s.SetDynamicOptions(nil); !errors.Is(err, onward.ErrFail) {
			t.Errorf("options of a closed session: %v", err)
		}
	}
	_, err := onward.OpenModel(t.Context(), onnx.NewModel("m").Must(), &onward.SessionOptions{Providers: []onward.ProviderConfig{config(t, "provider_selection_policy", "default", "execution_provider", "X")}})
	if !errors.Is(err, onward.ErrInvalidArgument) {
		t.Errorf("a policy beside an execution provider: %v", err)
	}
}
