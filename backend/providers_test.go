package backend_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/internal/testing/openvinolib"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/provider/openvino"
	"github.com/onward-ml/onward/provider/ort"
)

// onProviders runs a test on the Go engine and on the native libraries that this machine has.
func onProviders(t *testing.T, test func(t *testing.T, b backend.Provider)) {
	for _, b := range []backend.Provider{backend.Reference, backend.CPU, "ort", "openvino"} {
		t.Run(b.Name(), func(t *testing.T) {
			switch b {
			case "ort":
				t.Setenv(ort.Env, ortlib.Path(t))
			case "openvino":
				t.Setenv(openvino.Env, openvinolib.Path(t))
			}
			test(t, b)
		})
	}
}

// notReleased is ONNX Runtime's text for opset 1000.
const notReleased = "Skipping this test as only released onnx opsets are supported." +
	"To run this test set env variable ALLOW_RELEASED_ONNX_OPSET_ONLY to 0. Got Domain 'ai.onnx' version '1000'."

// TestReleasedOpsets prepares a model of an opset that is not released. All providers give
// ONNX Runtime's text; without the check, each decides: the Go engine and ONNX Runtime, which
// reads the environment variable itself, refuse the model, OpenVINO takes it.
func TestReleasedOpsets(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 1000).IRVersion(10)
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("Relu", []string{"x"}, []string{"y"})
	future, allowed := b.Must(), false
	onProviders(t, func(t *testing.T, b backend.Provider) {
		_, err := backend.Prepare(t.Context(), future, b, nil)
		if !errors.Is(err, backend.ErrSkip) || !errors.Is(err, onward.ErrNotImplemented) || !strings.Contains(err.Error(), notReleased) {
			t.Errorf("by default: %v", err)
		}
		want := map[backend.Provider]string{"cpu": "versions 1 to ", "reference": "versions 1 to ", "ort": "Opset 1000 is under development"}[b]
		r, err := backend.Prepare(t.Context(), future, b, &backend.Options{ReleasedOpsetsOnly: &allowed, SkipCheck: true})
		if want != "" {
			if !errors.Is(err, backend.ErrSkip) || !strings.Contains(err.Error(), want) {
				t.Errorf("allowed: %v, want %q", err, want)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		out, err := r.Run(t.Context(), backend.One(vector(-1, 2)), nil)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, out.Tensor(0), vector(0, 2))
	})
}

// TestInvalidModelIsNotSkipped prepares models that OpenVINO does not convert, with the same
// status as for operators that it lacks.
func TestInvalidModelIsNotSkipped(t *testing.T) {
	models := map[string]*onnx.Model{}
	for name, inputs := range map[string][]string{"one input of two": {"x"}, "an input without a name": {"", "x"}} {
		b := onnx.NewModel(name)
		b.Input("x", onnx.Float, 2, 2).Output("y", onnx.Float, 2, 2)
		b.Node("MatMul", inputs, []string{"y"})
		models[name] = b.Must()
	}
	b := onnx.NewModel("shapes")
	b.Input("x", onnx.Float, 2, 3).Output("y", onnx.Float, 2, 3)
	b.Node("MatMul", []string{"x", "x"}, []string{"y"})
	models["shapes that do not fit"] = b.Must()
	onProviders(t, func(t *testing.T, b backend.Provider) {
		for name, m := range models {
			_, err := backend.Prepare(t.Context(), m, b, &backend.Options{SkipCheck: true})
			if err == nil || errors.Is(err, backend.ErrSkip) {
				t.Errorf("%s: %v, want an error that is not ErrSkip", name, err)
			}
		}
	})
}
