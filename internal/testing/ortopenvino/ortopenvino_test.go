package ortopenvino_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/internal/testing/scores"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/preset"
	_ "github.com/onward-ml/onward/provider/ort"
	"github.com/onward-ml/onward/tensor"
)

const name = "ort:openvino"

// use makes the provider find its build of ONNX Runtime, or skips the test.
func use(t testing.TB) {
	t.Helper()
	t.Setenv(ortlib.Env, ortlib.OpenVINO.Path(t))
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// dense is y = Relu(x·w + b) with x of shape [batch, 4].
func dense() *onnx.Model {
	b := onnx.NewModel("dense").Opset("", 13).IRVersion(8)
	b.Input("x", onnx.Float, "batch", 4).Output("y", onnx.Float, "batch", 2)
	b.Initializer("w", []float32{1, -2, 3, 4, -5, 6, 7, 8}, 4, 2).Initializer("b", []float32{0.5, -1}, 2)
	b.Node("MatMul", []string{"x", "w"}, []string{"xw"})
	b.Node("Add", []string{"xw", "b"}, []string{"h"})
	b.Node("Relu", []string{"h"}, []string{"y"})
	return b.Must()
}

// quantized is y = Relu(x) with x quantized to 8 bits.
func quantized() *onnx.Model {
	b := onnx.NewModel("quantized").Opset("", 13).IRVersion(8)
	b.Input("x", onnx.Float, "batch", 4).Output("y", onnx.Float, "batch", 4)
	b.Initializer("s", []float32{0.5}).Initializer("zero", []uint8{128})
	b.Node("QuantizeLinear", []string{"x", "s", "zero"}, []string{"q"})
	b.Node("DequantizeLinear", []string{"q", "s", "zero"}, []string{"d"})
	b.Node("Relu", []string{"d"}, []string{"y"})
	return b.Must()
}

func rows(n, seed int) *tensor.Tensor {
	x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, n, 4))
	for i := range tensor.MustData[float32](x) {
		tensor.MustData[float32](x)[i] = float32((i*7+seed)%9) - 4
	}
	return x
}

// want returns the result of the reference engine.
func want(t testing.TB, m *onnx.Model, x *tensor.Tensor) tensor.Value {
	t.Helper()
	s, err := onward.OpenModel(t.Context(), m,
		&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: "reference"}}})
	must(t, err)
	defer s.Close()
	out, err := s.Run(t.Context(), onward.Values{"x": x}, nil)
	must(t, err)
	return out["y"]
}

// TestPresets opens every preset of the provider from each form of a model.
func TestPresets(t *testing.T) {
	use(t)
	x := rows(3, 1)
	example := backend.One(x)
	for _, m := range []*onnx.Model{dense(), quantized()} {
		y := want(t, m, x)
		data, err := m.Marshal()
		must(t, err)
		path := filepath.Join(t.TempDir(), "model.onnx")
		must(t, os.WriteFile(path, data, 0o600))
		for form, model := range map[string]preset.Model{"path": preset.From(path), "bytes": preset.From(data),
			"model": preset.From(m)} {
			list := []preset.Preset{
				preset.OrtOpenVINO{Model: model, InputExample: example},
				preset.OrtOpenVINO{Model: model, InputExample: example, InterOpThreads: 2, IntraOpThreads: 2},
				preset.OrtOpenVINOFloat{Model: model, InputExample: example, OpenVINOThreads: 2},
				preset.Ort{Model: model, Provider: "OpenVINOExecutionProvider"},
				preset.Registered{Provider: name, Model: model, InputExample: example},
			}
			if m.Graph.Name == "quantized" {
				list = append(list, preset.OrtOpenVINOInt8{Model: model, InputExample: example, OpenVINOThreads: 1})
			} else if _, err := (preset.OrtOpenVINOInt8{Model: model, InputExample: example}).
				Open(t.Context()); err == nil {
				t.Errorf("OrtOpenVINOInt8 opens a model that is not quantized, from %s", form)
			}
			for _, p := range list {
				r, err := p.Open(t.Context())
				must(t, err)
				out, err := r.Run(t.Context(), example, nil)
				if err != nil {
					t.Errorf("%s of %s: %v", p.Name(), form, err)
				} else if err := tensor.AllClose(out.Values[0], y, 1e-5, 1e-5); err != nil {
					t.Errorf("%s of %s: %v", p.Name(), form, err)
				}
				must(t, r.Close())
			}
		}
	}
}

// samples are values for the options of the provider, which run on every machine.
var samples = map[string][]string{
	"device_type": {"CPU", "AUTO:CPU", "HETERO:CPU", "MULTI:CPU"}, "precision": {"FP32", "ACCURACY"}, "num_of_threads": {"1", "4"}, "num_streams": {"1", "2"},
	"model_priority": {"LOW", "MEDIUM", "HIGH", "DEFAULT"}, "enable_opencl_throttling": {"True", "False"}, "disable_dynamic_shapes": {"True", "False"},
	"enable_qdq_optimizer": {"True", "False"}, "reshape_input": {"x[3,4]"}, "layout": {"x[NC]"}, "load_config": {`{"CPU": {"INFERENCE_NUM_THREADS": "1"}}`}, "enable_causallm": {"False"},
}

// apart are options that name other devices: a part of a device_type, a LUID, a context of OpenCL.
var apart = []string{"device_id", "device_luid", "context"}

// TestOptions passes every option to the provider.
func TestOptions(t *testing.T) {
	use(t)
	samples["cache_dir"] = []string{t.TempDir()}
	x := rows(3, 2)
	y := want(t, dense(), x)
	for _, option := range ortlib.Options(t, name) {
		if slices.Contains(apart, option) {
			continue
		}
		if samples[option] == nil {
			t.Errorf("option %s has no sample", option)
		}
		for _, v := range samples[option] {
			c := onward.ProviderConfig{Name: name, Options: map[string]string{option: v}}
			s, err := onward.OpenModel(t.Context(), dense(),
				&onward.SessionOptions{Threads: 1, DisableFallback: true, Providers: []onward.ProviderConfig{c}})
			if err != nil {
				t.Errorf("%s=%s: %v", option, v, err)
				continue
			}
			out, err := s.Run(t.Context(), onward.Values{"x": x}, nil)
			if err == nil {
				err = tensor.AllClose(out["y"], y, 1e-5, 1e-5)
			}
			if err != nil {
				t.Errorf("%s=%s: %v", option, v, err)
			}
			must(t, s.Close())
		}
	}
	if files, err := os.ReadDir(samples["cache_dir"][0]); err != nil || len(files) == 0 {
		t.Errorf("cache_dir is empty, %v", err)
	}
}

// TestChangingShapes runs one session with changing batches in several goroutines.
func TestChangingShapes(t *testing.T) {
	use(t)
	s, err := onward.OpenModel(t.Context(), dense(),
		&onward.SessionOptions{Threads: 1, DisableFallback: true, Providers: []onward.ProviderConfig{{Name: name}}})
	must(t, err)
	defer s.Close()
	results := map[int]tensor.Value{}
	for n := 1; n <= 5; n++ {
		results[n] = want(t, dense(), rows(n, n))
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 20 {
				n := 1 + (g+i)%5
				out, err := s.Run(t.Context(), onward.Values{"x": rows(n, n)}, nil)
				if err == nil {
					err = tensor.AllClose(out["y"], results[n], 1e-5, 1e-5)
				}
				if err != nil {
					t.Errorf("batch %d: %v", n, err)
				}
			}
		})
	}
	wg.Wait()
}

// differ are the cases in which ONNX Runtime 1.24.1 with its OpenVINO provider, OpenVINO 2025.4,
// differs from the suite. Its Python package gives the same results for Max and Sum of one input
// and for Tile; the others were not compared.
var differ = []scores.Class{
	{Why: "an operator of one input that copies it: the output is not written", Match: regexp.MustCompile(`^test_(max|min|sum)_one_input$`)},
	{Why: "repeats that are an input: the output is not written", Match: regexp.MustCompile(`^test_tile$`)},
	{Why: "transforms: rounding noise, the axis", Match: regexp.MustCompile(`^test_(dft|stft)(_|$)`)},
	{Why: "recurrent layers with the batch first", Match: regexp.MustCompile(`^test_(gru|lstm|simple_rnn)_batchwise$`)},
	{Why: "resizing: aligned corners, keep_aspect_ratio_policy", Match: regexp.MustCompile(`^test_resize_`)},
	{Why: "pooling: a shape rounded up beyond the input", Match: regexp.MustCompile(`^test_(max|average)pool_2d_ceil_`)},
	{Why: "the shape and the mask of attention", Match: regexp.MustCompile(`^test_attention_4d_`)},
	{Why: "blocked dequantization", Match: regexp.MustCompile(`^test_dequantizelinear_blocked$`)},
	{Why: "the rounding of halves", Match: regexp.MustCompile(`^test_dynamicquantizelinear`)},
	{Why: "the norm of zeros", Match: regexp.MustCompile(`^test_l2normalization_axis_0$`)},
	{Why: "the indices of unpooled values", Match: regexp.MustCompile(`^test_maxunpool_export_with_output_shape$`)},
	{Why: "an overlap that equals the threshold", Match: regexp.MustCompile(`^test_nonmaxsuppression_iou_threshold_boundary$`)},
	{Why: "Dropout without a seed", Match: regexp.MustCompile(`^test_training_dropout`)},
	{Why: "sums of numbers near float32's largest", Match: regexp.MustCompile(`^test_squeezenet$`), Some: true},
}

// refused are the cases that give an error, which OpenVINO or ONNX Runtime 1.24.1 returns.
var refused = []scores.Class{
	{Why: "operators, attributes and shapes that OpenVINO lacks", Match: regexp.MustCompile(`(?s)openvino|OpenVINO`)},
	{Why: "opsets and IR versions after the release's", Match: regexp.MustCompile(`is under development|Unsupported model IR version`)},
	{Why: "no kernel for the type or the version", Match: regexp.MustCompile(`(?s)Failed to find kernel|Could not find an implementation`)},
	{Why: "types that ONNX Runtime lacks", Match: regexp.MustCompile(`(?i)not currently registered or supported|unsupported data type|tensor\((u?int2|float8e8m0|float4e2m1)\)`)},
	{Why: "operators that ONNX Runtime lacks", Match: regexp.MustCompile(`is not a registered function/op`)},
	{Why: "locales that are not installed", Match: regexp.MustCompile(`(?i)string_?normalizer`)},
	{Why: "the inverse of a one-sided transform", Match: regexp.MustCompile(`is_onesided and inverse`)},
	{Why: "zero points per channel", Match: regexp.MustCompile(`ConvInteger`)},
	{Why: "layout of recurrent operators", Match: regexp.MustCompile(`test_(gru|lstm|simple_rnn)_batchwise: `)},
}

// TestSuite runs the ONNX suite. Each case that does not pass is of a class.
func TestSuite(t *testing.T) {
	if os.Getenv("ONWARD_LONG") == "" {
		t.Skip("the suite takes minutes; `make test-devices` runs it")
	}
	use(t)
	r, err := scores.Run(t.Context(), suite.Dir(t), name, nil, nil)
	must(t, err)
	r.Check(t, 1595, differ, refused)
}
