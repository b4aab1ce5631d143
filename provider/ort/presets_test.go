package ort_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/testing/openvinolib"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/preset"
	_ "github.com/onward-ml/onward/provider/openvino"
	"github.com/onward-ml/onward/provider/ort"
	"github.com/onward-ml/onward/tensor"
)

// libraries sets the environment so that the presets find the libraries of the tests.
func libraries(t testing.TB) {
	t.Helper()
	t.Setenv(ort.Env, ortlib.Path(t))
	if lib, err := openvinolib.Find(); err == nil {
		t.Setenv(openvinolib.Env, lib)
	} else {
		t.Setenv(openvinolib.Env, filepath.Join(t.TempDir(), "none"))
		t.Logf("without OpenVINO: %v", err)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // engines of TensorRT
}

func haveOpenVINO() bool {
	return driver.Lookup("openvino").Available(driver.Config{Name: "openvino"}) == nil
}

// two is y = x·w + b, z = sum of y's rows; x is [batch, ?, 3], b is [batch, 1, 2].
func two() *onnx.Model {
	b := onnx.NewModel("two").Opset("", 13).IRVersion(8)
	b.Input("x", onnx.Float, "batch", nil, 3).Input("b", onnx.Float, "batch", 1, 2)
	b.Output("y", onnx.Float, "batch", nil, 2).Output("z", onnx.Float, "batch", nil, 1)
	b.Initializer("w", []float32{1, 2, 3, 4, 5, 6}, 3, 2).Initializer("axes", []int64{2}, 1)
	b.Node("MatMul", []string{"x", "w"}, []string{"xw"})
	b.Node("Add", []string{"xw", "b"}, []string{"y"})
	b.Node("ReduceSum", []string{"y", "axes"}, []string{"z"})
	return b.Must()
}

func ramp(shape ...int) *tensor.Tensor {
	n, _ := tensor.Elements(shape)
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i%7) - 3
	}
	return tensor.Must(tensor.New(x, shape...))
}

// TestPresets runs the presets that need no GPU on the libraries themselves: models
// and inputs in all of their forms, and the error for an input of another shape.
func TestPresets(t *testing.T) {
	libraries(t)
	m := two()
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "two.onnx")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	x, b := ramp(2, 5, 3), ramp(2, 1, 2)
	example := backend.List{x, b}
	reference, err := preset.OnwardReference{Model: preset.From(m)}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer reference.Close()
	want, err := reference.Run(t.Context(), example, nil)
	if err != nil {
		t.Fatal(err)
	}
	for form, model := range map[string]preset.Model{"path": preset.From(path), "bytes": preset.From(data),
		"model": preset.From(m)} {
		presets := []preset.Preset{
			preset.Onward{Model: model}, preset.OrtCPU{Model: model}, preset.OrtCPU{Model: model, InterOpThreads: 2, IntraOpThreads: 1},
			preset.Ort{Model: model, ProviderOptions: map[string]string{"graph_optimization_level": "basic"}},
			preset.Ort{Model: model, Provider: "CPUExecutionProvider", InputExample: example},
			preset.Registered{Provider: "ort", Model: model, InputExample: example},
		}
		if haveOpenVINO() {
			presets = append(presets, preset.OpenVINO{Model: model, InputExample: example, Threads: 1})
		}
		for _, p := range presets {
			t.Run(p.Name()+"/"+form, func(t *testing.T) {
				r, err := p.Open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				for _, in := range []backend.Inputs{example, backend.Named{"x": x, "b": b}} {
					got, err := r.Run(t.Context(), in, nil)
					if err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(got.Names, want.Names) {
						t.Errorf("outputs %v, want %v", got.Names, want.Names)
					}
					for i := range want.Values {
						if err := tensor.AllClose(got.Values[i], want.Values[i], 1e-5, 1e-5); err != nil {
							t.Errorf("%s: %v", want.Names[i], err)
						}
					}
				}
				if _, err := r.Run(t.Context(), backend.One(x), nil); err == nil ||
					!strings.Contains(err.Error(), "Expecting one input not 2.") {
					t.Errorf("a bare value for two inputs: %v", err)
				}
				other := backend.List{ramp(3, 4, 3), ramp(3, 1, 2)}
				bound := fmt.Sprint(r.Inputs()) == "[x: tensor(float)[2,5,3] b: tensor(float)[2,1,2]]"
				switch o, err := r.Run(t.Context(), other, nil); {
				case bound && !errors.Is(err, onward.ErrInvalidArgument):
					t.Errorf("another shape: %v", err)
				case !bound && (err != nil || !slices.Equal(o.Tensor(0).Shape(), []int{3, 4, 2})):
					t.Errorf("another shape: %v", err)
				}
				if wantBound := strings.Contains(p.Name(), "CPUE") || strings.Contains(p.Name(), "OpenVINO") ||
					p.Name() == "ort"; bound != wantBound {
					t.Errorf("inputs are %v", r.Inputs())
				}
			})
		}
	}
}

// TestPresetsSayWhatIsMissing opens the presets whose execution providers the CPU build of
// ONNX Runtime does not have.
func TestPresetsSayWhatIsMissing(t *testing.T) {
	libraries(t)
	m := two()
	example := backend.List{ramp(2, 5, 3), ramp(2, 1, 2)}
	for _, c := range []struct {
		preset preset.Preset
		wants  []string
	}{
		{preset.OrtCUDA{Model: preset.From(m)}, []string{"onnxruntime-gpu", "CUDA 12 or 13", "cuDNN 9"}},
		{preset.OrtTensorRT{Model: preset.From(m), InputExample: example}, []string{"onnxruntime-gpu", "TensorRT 10"}},
		{preset.OrtTensorRTFloat{Model: preset.From(m), InputExample: example}, []string{"TensorRT 10"}},
		{preset.OrtTensorRTFloatOptim{Model: preset.From(m), InputExample: example}, []string{"TensorRT 10"}},
		{preset.OrtTensorRTInt8{Model: preset.From(m), InputExample: example, Table: preset.TableFile("table.flatbuffers")}, []string{"TensorRT 10"}},
		{preset.OrtTensorRTInt8QDQ{Model: preset.From(m), InputExample: example}, []string{"TensorRT 10"}},
		{preset.OrtOpenVINO{Model: preset.From(m), InputExample: example}, []string{"no OpenVINOExecutionProvider", "pip install onnxruntime-openvino openvino"}},
		{preset.OrtOpenVINOFloat{Model: preset.From(m), InputExample: example}, []string{"onnxruntime-openvino"}},
		{preset.OrtOpenVINOInt8{Model: preset.From(m), InputExample: example}, []string{"onnxruntime-openvino"}},
		{preset.Ort{Model: preset.From(m), Provider: "XnnpackExecutionProvider"}, []string{"XnnpackExecutionProvider execution provider is not supported in this build"}},
		{preset.OrtTensorRT{Model: preset.From(m), InputExample: example, ProviderOptions: map[string]string{"trt_log_level": "1"}}, []string{"Invalid TensorRT EP option: trt_log_level"}},
		{preset.OrtOpenVINO{Model: preset.From(m), InputExample: example, ProviderOptions: map[string]string{"device_type": "TPU"}}, []string{`"TPU" is not a device`}},
	} {
		_, isOpenVINO := c.preset.(preset.OrtOpenVINOInt8)
		if isOpenVINO && driver.Lookup("ort:openvino").Available(driver.Config{Name: "ort:openvino"}) == nil {
			continue
		}
		r, err := c.preset.Open(t.Context())
		if err == nil {
			r.Close()
			t.Logf("%s is here", c.preset.Name())
			continue
		}
		for _, want := range append(c.wants, c.preset.Name()+": ") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in %v", c.preset.Name(), want, err)
			}
		}
	}
	if runs, err := os.ReadDir(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "onward")); err == nil {
		t.Errorf("presets that cannot work have left %v", runs)
	}
}

// TestAuto lets Auto choose among the Go engine and the native libraries.
func TestAuto(t *testing.T) {
	libraries(t)
	a := preset.Auto{Model: preset.From(two()), InputExample: backend.List{ramp(2, 5, 3), ramp(2, 1, 2)},
		MinDuration: 30 * time.Millisecond, CacheDir: t.TempDir()}
	best, report, err := a.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer best.Close()
	t.Log("\n" + report.String())
	for _, r := range report.Results {
		here := r.Name == "Onward" || r.Name == "OrtCPU" || r.Name == "OpenVINO" && haveOpenVINO()
		if here && (r.Status != preset.StatusOK || r.MaxError > 1e-5) || !here && r.Status == preset.StatusWrong {
			t.Errorf("%+v", r)
		}
	}
	again, report2, err := a.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if decided := len(report.Undecided) == 0; report2.Cached != decided || decided && report2.Best != report.Best {
		t.Errorf("the second time: %+v", report2)
	}
}
