package presets_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/calibration"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/preset"
	"github.com/onward-ml/onward/tensor"
)

// fake stands for a provider with a native library: it records its calls and computes with
// the reference engine.
type fake struct {
	name    string
	missing error

	mu     sync.Mutex
	config driver.Config
	opts   driver.Options
	model  *onnx.Model
	path   string
}

func (d *fake) Name() string                  { return d.name }
func (d *fake) Available(driver.Config) error { return d.missing }

func (d *fake) Traits() driver.Traits {
	t := driver.Traits{AppliesOptions: true, ReadsFiles: true}
	if d.name == "ort:cuda" || d.name == "ort:tensorrt" {
		t.Device = "cuda"
	}
	return t
}

func (d *fake) Compile(ctx context.Context, m *driver.Model, opts *driver.Options,
	c driver.Config) (driver.Engine, error) {
	read := *m
	if m.Path != "" {
		var err error
		if read.Model, err = onnx.ReadFile(m.Path, nil); err != nil {
			return nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.config, d.opts, d.model, d.path = c, *opts, read.Model, m.Path
	return driver.Lookup("reference").Compile(ctx, &read, opts, driver.Config{Name: "reference"})
}

var drivers = map[string]*fake{}

func init() {
	for _, n := range []string{"ort", "ort:cpu", "ort:cuda", "ort:tensorrt", "ort:openvino", "openvino"} {
		drivers[n] = &fake{name: n}
		driver.Register(drivers[n])
	}
}

func vector(x ...float32) *tensor.Tensor { return tensor.Must(tensor.New(x, len(x))) }

func matrix() *tensor.Tensor { return tensor.Must(tensor.New([]float32{1, 1, 2, 3}, 2, 2)) }

// linear is y = relu(x·w + b).
func linear() *onnx.Model {
	b := onnx.NewModel("linear")
	b.Input("x", onnx.Float, "n", 2).Output("y", onnx.Float, "n", 2)
	b.Initializer("w", []float32{1, 2, 3, 4}, 2, 2).Initializer("b", []float32{-10, 0.1}, 2)
	b.Node("MatMul", []string{"x", "w"}, []string{"xw"})
	b.Node("Add", []string{"xw", "b"}, []string{"h"})
	b.Node("Relu", []string{"h"}, []string{"y"})
	return b.Must()
}

var linearResult = tensor.Must(tensor.New([]float32{0, 6.1, 1, 16.1}, 2, 2))

func wantEqual(t testing.TB, got, want tensor.Value) {
	t.Helper()
	if err := tensor.AllClose(got, want, 1e-5, 1e-6); err != nil {
		t.Error(err)
	}
}

// flexible is y = relu(x) and z = k for x of shape [n, ?, 2] and k of shape [n].
func flexible(t testing.TB) *onnx.Model {
	b := onnx.NewModel("flexible")
	b.Input("x", onnx.Float, "n", nil, 2).Input("k", onnx.Float, "n").Output("y", onnx.Float, "n", nil, 2).
		Output("z", onnx.Float, "n")
	b.Node("Relu", []string{"x"}, []string{"y"})
	b.Node("Identity", []string{"k"}, []string{"z"})
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var flexibleExample = backend.List{tensor.Must(tensor.Zeros(tensor.TypeFloat32, 3, 5, 2)), vector(1, 2, 3)}

// quantized is linear with its input going through a QuantizeLinear pair.
func quantized() *onnx.Model {
	b := onnx.NewModel("quantized")
	b.Input("x", onnx.Float, "n", 2).Output("y", onnx.Float, "n", 2)
	b.Initializer("s", []float32{0.5})
	b.Initializer("zero", []uint8{128})
	b.Node("QuantizeLinear", []string{"x", "s", "zero"}, []string{"q"})
	b.Node("DequantizeLinear", []string{"q", "s", "zero"}, []string{"y"})
	return b.Must()
}

func modelFile(t testing.TB, m *onnx.Model) string {
	t.Helper()
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

type table string

func (s table) WriteFlatBuffers(w io.Writer) error {
	_, err := io.WriteString(w, string(s))
	return err
}

// TestPresets opens each preset from each form of a model, checks the options that reach
// the provider, and runs the three forms of inputs.
func TestPresets(t *testing.T) {
	example := backend.One(matrix())
	cache := t.TempDir()
	engines := map[string]string{"trt_engine_cache_enable": "True", "trt_engine_cache_prefix": "2x2"}
	with := func(o map[string]string, kv ...string) map[string]string {
		o = maps.Clone(o)
		for i := 0; i < len(kv); i += 2 {
			o[kv[i]] = kv[i+1]
		}
		return o
	}
	type m = map[string]string
	for _, c := range []struct {
		preset   func(model preset.Model) preset.Preset
		name     string
		provider string
		options  m
		threads  int
		inter    int
		bound    bool
		qdq      bool
	}{
		{func(x preset.Model) preset.Preset { return preset.Ort{Model: x} }, "Ort", "ort:cpu", nil, 0, 0, false, false},
		{func(x preset.Model) preset.Preset {
			return preset.Ort{Model: x, Provider: "CUDAExecutionProvider", ProviderOptions: m{"device_id": "1"},
				Session: &onward.SessionOptions{Threads: 3}}
		}, "Ort CUDAExecutionProvider", "ort:cuda", m{"device_id": "1"}, 3, 0, false, false},
		{func(x preset.Model) preset.Preset {
			return preset.Ort{Model: x, Provider: "ort:cpu", InputExample: example}
		}, "Ort ort:cpu", "ort:cpu", nil, 0, 0, true, false},
		{func(x preset.Model) preset.Preset {
			return preset.Ort{Model: x, Provider: "XNNPACK", InputExample: example}
		}, "Ort XNNPACK", "ort", m{"execution_provider": "XNNPACK"}, 0, 0, true, false},
		{func(x preset.Model) preset.Preset {
			return preset.OpenVINO{Model: x, InputExample: example, Threads: 2, ProviderOptions: m{"device": "GPU"}}
		}, "OpenVINO", "openvino", m{"device": "GPU"}, 2, 0, true, false},
		{func(x preset.Model) preset.Preset {
			return preset.OrtCPU{Model: x, InterOpThreads: 2, IntraOpThreads: 3}
		}, "OrtCPU", "ort:cpu", nil, 3, 2, false, false},
		{func(x preset.Model) preset.Preset {
			return preset.OrtCUDA{Model: x, ProviderOptions: m{"device_id": "0"}}
		}, "OrtCUDA", "ort:cuda", m{"device_id": "0"}, 0, 0, false, false},
		{func(x preset.Model) preset.Preset {
			return preset.OrtOpenVINO{Model: x, InputExample: example, ProviderOptions: m{"device_type": "GPU"},
				IntraOpThreads: 1}
		}, "OrtOpenVINO", "ort:openvino", m{"device_type": "GPU"}, 1, 0, true, false},
		{func(x preset.Model) preset.Preset {
			return preset.OrtOpenVINOFloat{Model: x, InputExample: example, OpenVINOThreads: 4}
		}, "OrtOpenVINOFloat", "ort:openvino", m{"device_type": "CPU", "precision": "FP32", "num_of_threads": "4"}, 0, 0, true, false},
		{func(x preset.Model) preset.Preset { return preset.OrtOpenVINOInt8{Model: x, InputExample: example} }, "OrtOpenVINOInt8", "ort:openvino", m{"device_type": "CPU", "precision": "ACCURACY"}, 0, 0, true, true},
		{func(x preset.Model) preset.Preset {
			return preset.OrtTensorRT{Model: x, InputExample: example, CacheDir: cache,
				ProviderOptions: m{"device_id": "0"}}
		}, "OrtTensorRT", "ort:tensorrt", with(engines, "device_id", "0"), 0, 0, true, false},
		{func(x preset.Model) preset.Preset {
			return preset.OrtTensorRTFloat{Model: x, InputExample: example, CacheDir: cache}
		}, "OrtTensorRTFloat", "ort:tensorrt", engines, 0, 0, true, false},
		{func(x preset.Model) preset.Preset {
			return preset.OrtTensorRTFloatOptim{Model: x, InputExample: example, CacheDir: cache}
		}, "OrtTensorRTFloatOptim", "ort:tensorrt", with(engines, "trt_fp16_enable", "True"), 0, 0, true, false},
		{func(x preset.Model) preset.Preset {
			return preset.OrtTensorRTInt8{Model: x, InputExample: example, CacheDir: cache,
				Table: table("a table of ranges")}
		}, "OrtTensorRTInt8", "ort:tensorrt", with(engines, "trt_int8_enable", "True", "trt_fp16_enable", "True", "trt_int8_use_native_calibration_table", "False",
			"trt_int8_calibration_table_name", "calibration-45a2ef6d74dc1a1e.flatbuffers", "trt_engine_cache_prefix", "int8-45a2ef6d74dc1a1e_2x2"), 0, 0, true, false},
		{func(x preset.Model) preset.Preset {
			return preset.OrtTensorRTInt8QDQ{Model: x, InputExample: example, CacheDir: cache, NoFP16: true}
		}, "OrtTensorRTInt8QDQ", "ort:tensorrt", with(engines, "trt_int8_enable", "True", "trt_fp16_enable", "False"), 0, 0, true, true},
		{func(x preset.Model) preset.Preset {
			return preset.Onward{Model: x, InputExample: example, Threads: 2}
		}, "Onward", "cpu", nil, 2, 0, false, false},
		{func(x preset.Model) preset.Preset { return preset.OnwardReference{Model: x} }, "OnwardReference", "reference", nil, 0, 0, false, false},
		{func(x preset.Model) preset.Preset {
			return preset.Registered{Provider: "ort:cpu", Model: x, InputExample: example,
				ProviderOptions: m{"graph_optimization_level": "basic"}}
		}, "ort:cpu", "ort:cpu", m{"graph_optimization_level": "basic"}, 0, 0, true, false},
	} {
		model := linear()
		want := tensor.Value(linearResult)
		if c.qdq {
			model, want = quantized(), matrix()
		}
		data, err := model.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		path := modelFile(t, model)
		for form, x := range map[string]preset.Model{"path": preset.From(path), "bytes": preset.From(data),
			"model": preset.From(model)} {
			t.Run(c.name+"/"+form, func(t *testing.T) {
				p := c.preset(x)
				if p.Name() != c.name {
					t.Errorf("it is named %q", p.Name())
				}
				r, err := p.Open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				if got := r.Session.Provider(); got != c.provider {
					t.Errorf("it runs on %q, want %q", got, c.provider)
				}
				wantArgs := "[x: tensor(float)[n,2]] [y: tensor(float)[n,2]]"
				if c.bound {
					wantArgs = strings.ReplaceAll(wantArgs, "n,", "2,")
				}
				if got := fmt.Sprint(r.Inputs(), r.Outputs()); got != wantArgs {
					t.Errorf("inputs and outputs are %s, want %s", got, wantArgs)
				}
				for _, in := range []backend.Inputs{backend.One(matrix()), backend.List{matrix()},
					backend.Named{"x": matrix()}} {
					out, err := r.Run(t.Context(), in, nil)
					if err != nil {
						t.Fatalf("%T: %v", in, err)
					}
					wantEqual(t, out.Tensor(0), want)
				}
				d := drivers[c.provider]
				if d == nil {
					return
				}
				options := maps.Clone(d.config.Options)
				if folder := options["trt_engine_cache_path"]; c.provider == "ort:tensorrt" {
					if filepath.Dir(folder) != cache {
						t.Errorf("the engines are in %q, want a folder in %q", folder, cache)
					}
					if name := options["trt_int8_calibration_table_name"]; name != "" {
						if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil ||
							string(got) != "a table of ranges" {
							t.Errorf("the table is %q, %v", got, err)
						}
					}
					delete(options, "trt_engine_cache_path")
				}
				if diff := cmp.Diff(c.options, options); diff != "" && len(c.options)+len(options) > 0 {
					t.Errorf("options (-want +got):\n%s", diff)
				}
				if d.opts.Threads != c.threads || d.opts.InterOpThreads != c.inter ||
					c.inter > 0 != (d.opts.ExecutionMode == onward.ExecutionParallel) {
					t.Errorf("threads %d, %d, mode %v", d.opts.Threads, d.opts.InterOpThreads, d.opts.ExecutionMode)
				}
				wantDims := map[string]int64(nil)
				if c.bound {
					wantDims = map[string]int64{"n": 2}
				}
				if diff := cmp.Diff(wantDims, d.opts.FreeDimensions); diff != "" {
					t.Errorf("free dimensions (-want +got):\n%s", diff)
				}
				if (form == "path") != (d.path == path) {
					t.Errorf("the provider read the file %q", d.path)
				}
				gpu := strings.HasSuffix(c.provider, ":cuda") || strings.HasSuffix(c.provider, ":tensorrt")
				if gpu != !r.Device.IsCPU() || gpu && fmt.Sprint(r.Device.ID) != max(c.options["device_id"], "0") {
					t.Errorf("the device is %s", r.Device)
				}
			})
		}
	}
}

// TestDynamicAxesNeedAnExample checks the nine presets that demand an example for
// models with dynamic axes.
func TestDynamicAxesNeedAnExample(t *testing.T) {
	x := flexible(t)
	const want = `InputExample is required, since the model has dynamic axes: input "x" axes 0 (n), 1 (?); input "k" axis 0 (n)`
	for _, p := range []preset.Preset{
		preset.OrtOpenVINO{Model: preset.From(x)}, preset.OrtOpenVINOFloat{Model: preset.From(x)}, preset.OrtOpenVINOInt8{Model: preset.From(x)},
		preset.OrtTensorRT{Model: preset.From(x)}, preset.OrtTensorRTFloat{Model: preset.From(x)}, preset.OrtTensorRTFloatOptim{Model: preset.From(x)},
		preset.OrtTensorRTInt8{Model: preset.From(x), Table: table("t")}, preset.OrtTensorRTInt8QDQ{Model: preset.From(x)}, preset.OpenVINO{Model: preset.From(x)},
	} {
		if _, err := p.Open(t.Context()); err == nil || err.Error() != p.Name()+": "+want {
			t.Errorf("%s: %v", p.Name(), err)
		}
	}
	for _, p := range []preset.Preset{preset.Ort{Model: preset.From(x)}, preset.OrtCPU{Model: preset.From(x)},
		preset.OrtCUDA{Model: preset.From(x)}, preset.Onward{Model: preset.From(x)}} {
		r, err := p.Open(t.Context())
		if err != nil {
			t.Errorf("%s: %v", p.Name(), err)
			continue
		}
		r.Close()
	}
}

// TestExampleFixesAxes checks that dimensions without a name are fixed in a copy of
// the model.
func TestExampleFixesAxes(t *testing.T) {
	model := flexible(t)
	for form, x := range map[string]preset.Model{"model": preset.From(model),
		"path": preset.From(modelFile(t, model))} {
		r, err := preset.OrtOpenVINO{Model: x, InputExample: flexibleExample}.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(r.Inputs()); got != "[x: tensor(float)[3,5,2] k: tensor(float)[3]]" {
			t.Errorf("%s: inputs are %s", form, got)
		}
		if _, err := r.Run(t.Context(), flexibleExample, nil); err != nil {
			t.Error(err)
		}
		other := backend.List{tensor.Must(tensor.Zeros(tensor.TypeFloat32, 3, 4, 2)), vector(1, 2, 3)}
		if _, err := r.Run(t.Context(), other, nil); !errors.Is(err, onward.ErrInvalidArgument) ||
			!strings.Contains(fmt.Sprint(err), "index: 1 Got: 4 Expected: 5") {
			t.Errorf("%s: an input of another shape gives %v", form, err)
		}
		if d := model.Graph.Inputs[0].Type.Tensor.Shape.Dims[1]; d.Kind != onnx.DimUnknown {
			t.Error("the caller's model was changed")
		}
		r.Close()
	}
}

func TestPresetErrors(t *testing.T) {
	x := flexible(t)
	long := tensor.Must(tensor.Zeros(tensor.TypeFloat32, 4, 5, 2))
	good := flexibleExample
	folder := t.TempDir()
	open := func(p preset.Preset) preset.Preset { return p }
	if err := os.WriteFile(filepath.Join(folder, "short"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		p    preset.Preset
		want string
	}{
		{open(preset.Onward{}), "Onward: the field Model is not set"},
		{preset.Onward{Model: preset.From("no such file")}, "Onward: [ONNXRuntimeError] : 3 : NO_SUCHFILE : Load model failed: open no such file"},
		{preset.Registered{Provider: "nothing", Model: preset.From(x)}, `nothing: provider "nothing" is not registered: there are "`},
		{preset.OrtOpenVINO{Model: preset.From(x), InputExample: backend.One(long)}, "OrtOpenVINO: InputExample: Expecting one input not 2."},
		{preset.OrtOpenVINO{Model: preset.From(x), InputExample: backend.List{long}}, "Required inputs (['k']) are missing"},
		{preset.OrtOpenVINO{Model: preset.From(x), InputExample: backend.List{long, vector(1, 2, 3)}}, `InputExample: dimension "n" is 4 at axis 0 of "x" and 3 at axis 0 of "k"`},
		{preset.OrtOpenVINO{Model: preset.From(x), InputExample: backend.List{vector(1), vector(1)}}, "Invalid rank for input: x Got: 1 Expected: 3"},
		{preset.OrtOpenVINO{Model: preset.From(x), InputExample: backend.Named{"x": long, "k": vector(1), "w": long}}, `the model has no input "w"`},
		{preset.OrtOpenVINO{Model: preset.From(x), InputExample: backend.List{tensor.Must(tensor.New([]int64{1}, 1)), vector(1)}}, "Unexpected input data type. Actual: (tensor(int64)) , expected: (tensor(float))"},
		{preset.OrtOpenVINOInt8{Model: preset.From(x), InputExample: good}, "no QuantizeLinear or DequantizeLinear node"},
		{preset.OrtTensorRTInt8QDQ{Model: preset.From(x), InputExample: good, CacheDir: folder}, "no QuantizeLinear or DequantizeLinear node"},
		{preset.OrtTensorRTInt8{Model: preset.From(x), InputExample: good, CacheDir: folder}, "calibration table: the field Table is not set"},
		{preset.OrtTensorRTInt8{Model: preset.From(x), InputExample: good, CacheDir: folder, Table: preset.TableFile(filepath.Join(folder, "none"))}, "no such file"},
		{preset.OrtTensorRTInt8{Model: preset.From(x), InputExample: good, CacheDir: folder, Table: preset.TableFile(folder)}, "is not a regular file"},
		{preset.OrtTensorRTInt8{Model: preset.From(x), InputExample: good, CacheDir: folder, Table: preset.TableFile(filepath.Join(folder, "short"))}, "has 1 bytes, want 12 to 268435456"},
		{preset.OrtTensorRTFloat{Model: preset.From(x), InputExample: good, CacheDir: folder, Profile: map[string]preset.ShapeRange{"w": {}}}, `Profile: the model has no input "w"`},
		{preset.OrtTensorRTFloat{Model: preset.From(x), InputExample: good, CacheDir: folder, Profile: map[string]preset.ShapeRange{"x": {Min: []int{1}, Max: []int{2}}}}, `input "x" has rank 3, got Min [1] and Max [2]`},
		{preset.OrtTensorRTFloat{Model: preset.From(x), InputExample: good, CacheDir: folder, Profile: map[string]preset.ShapeRange{"x": {Min: []int{1, 6, 2}, Max: []int{9, 9, 2}}}}, `axis 1 of input "x" is 5 in the InputExample, want 6 to 9`},
		{preset.OrtTensorRTFloat{Model: preset.From(x), InputExample: good, CacheDir: folder, Profile: map[string]preset.ShapeRange{"x": {Min: []int{1, 1, 1}, Max: []int{9, 9, 2}}}}, `axis 2 of input "x" has the fixed size 2, got the range 1 to 2`},
	} {
		r, err := c.p.Open(t.Context())
		if err == nil {
			r.Close()
		}
		if !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v\nwant %s", c.p.Name(), err, c.want)
		}
	}
	drivers["ort:cuda"].missing = errors.New("there is no GPU")
	defer func() { drivers["ort:cuda"].missing = nil }()
	if _, err := (preset.OrtCUDA{Model: preset.From(x)}).Open(t.Context()); err == nil ||
		err.Error() != "OrtCUDA: there is no GPU" {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (preset.OrtCPU{Model: preset.From(x)}).Open(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v", err)
	}
}

func TestTensorRTProfile(t *testing.T) {
	r, err := preset.OrtTensorRTFloat{Model: preset.From(flexible(t)), InputExample: flexibleExample,
		CacheDir: t.TempDir(), Profile: map[string]preset.ShapeRange{
			"x": {Min: []int{1, 1, 2}, Max: []int{8, 64, 2}}, "k": {Min: []int{1}, Max: []int{8}},
		}}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got := fmt.Sprint(r.Inputs()); got != "[x: tensor(float)[n,?,2] k: tensor(float)[n]]" {
		t.Errorf("inputs are %s", got)
	}
	d := drivers["ort:tensorrt"]
	if len(d.opts.FreeDimensions) != 0 {
		t.Errorf("free dimensions are %v", d.opts.FreeDimensions)
	}
	for name, want := range map[string]string{"min": "k:1,x:1x1x2", "opt": "k:3,x:3x5x2", "max": "k:8,x:8x64x2"} {
		if got := d.config.Options["trt_profile_"+name+"_shapes"]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// TestTensorRTFolders checks that engines of models that differ in their weights are
// kept apart, and that a folder that other users can write is rejected.
func TestTensorRTFolders(t *testing.T) {
	cache := t.TempDir()
	folder := func(m *onnx.Model) string {
		r, err := preset.OrtTensorRTFloat{Model: preset.From(m), InputExample: backend.One(matrix()),
			CacheDir: cache}.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		return drivers["ort:tensorrt"].config.Options["trt_engine_cache_path"]
	}
	a, b := linear(), linear()
	b.Graph.Initializers[0] = onnx.FromTensor(tensor.Must(tensor.New([]float32{1, 2, 3, 5}, 2, 2)))
	b.Graph.Initializers[0].Name = "w"
	first, second := folder(a), folder(b)
	if first == second || first != folder(linear()) {
		t.Errorf("the folders are %q and %q", first, second)
	}
	if err := os.Chmod(first, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := (preset.OrtTensorRTFloat{Model: preset.From(a), InputExample: backend.One(matrix()), CacheDir: cache}).
		Open(t.Context()); err == nil || !strings.Contains(err.Error(), "can be changed by other users") {
		t.Errorf("a folder open to all gives %v", err)
	}
}

// TestTensorRTShapes checks that engines of one model for other shapes have other names,
// also below a prefix of the caller.
func TestTensorRTShapes(t *testing.T) {
	names := map[string]string{}
	prefix := func(p preset.Preset) string {
		r, err := p.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		o := drivers["ort:tensorrt"].config.Options
		at := filepath.Join(o["trt_engine_cache_path"], o["trt_engine_cache_prefix"])
		if names[at] != "" {
			t.Errorf("the engines of %s and of the preset before have the name %q", p.Name(), at)
		}
		names[at] = p.Name()
		return o["trt_engine_cache_prefix"]
	}
	cache := t.TempDir()
	rows := func(n int) backend.Inputs { return backend.One(tensor.Must(tensor.Zeros(tensor.TypeFloat32, n, 2))) }
	for _, n := range []int{1, 2, 30} {
		prefix(preset.OrtTensorRTFloat{Model: preset.From(linear()), InputExample: rows(n), CacheDir: cache})
	}
	own := map[string]string{"trt_engine_cache_prefix": "mine"}
	if got := prefix(preset.OrtTensorRT{Model: preset.From(linear()), InputExample: rows(4), CacheDir: cache,
		ProviderOptions: own}); got != "mine_4x2" {
		t.Errorf("the prefix is %q, want mine_4x2", got)
	}
	if own["trt_engine_cache_prefix"] != "mine" {
		t.Error("the caller's options have changed")
	}
	for _, most := range []int{8, 16} {
		got := prefix(preset.OrtTensorRTFloat{Model: preset.From(linear()), InputExample: rows(4), CacheDir: cache,
			Profile: map[string]preset.ShapeRange{"x": {Min: []int{1, 2}, Max: []int{most, 2}}}})
		if want := fmt.Sprintf("1x2-4x2-%dx2", most); got != want {
			t.Errorf("the prefix is %q, want %q", got, want)
		}
	}
	deep := make([]int, 60)
	for i := range deep {
		deep[i] = 1
	}
	b := onnx.NewModel("deep")
	b.InputType("x", &onnx.Type{Tensor: &onnx.TensorType{ElemType: onnx.Float}}).
		OutputType("y", &onnx.Type{Tensor: &onnx.TensorType{ElemType: onnx.Float}})
	b.Node("Identity", []string{"x"}, []string{"y"})
	got := prefix(preset.OrtTensorRTFloat{Model: preset.From(b.Must()),
		InputExample: backend.One(tensor.Must(tensor.Zeros(tensor.TypeFloat32, deep...))), CacheDir: cache})
	if !strings.HasPrefix(got, "shapes-") || len(got) != len("shapes-")+16 {
		t.Errorf("the prefix of a shape of 60 dimensions is %q, want its hash", got)
	}
}

func TestCreate(t *testing.T) {
	for _, c := range []struct{ typ, provider string }{
		{"CPU", "cpu"}, {"REFERENCE", "reference"}, {"ORT_CPU", "ort:cpu"}, {"ORT_OPENVINO", "ort:openvino"}, {"ORT_CUDA", "ort:cuda"},
		{"ORT_TENSORRT", "ort:tensorrt"}, {"ORT_TENSORRT_FP16", "ort:tensorrt"}, {"ORT_TENSORRT_INT8", "ort:tensorrt"}, {"OPENVINO", "openvino"},
	} {
		typ, err := preset.ParseType(c.typ)
		if err != nil {
			t.Fatal(err)
		}
		r, err := preset.Create(t.Context(), linear(), typ, &preset.CreateOptions{InputExample: backend.One(matrix()),
			Table: table("t"), DeviceID: 1, IntraOpThreads: 2, CacheDir: t.TempDir()})
		if err != nil {
			t.Errorf("%s: %v", c.typ, err)
			continue
		}
		if got := r.Session.Provider(); got != c.provider {
			t.Errorf("%s runs on %s", c.typ, got)
		}
		if !r.Device.IsCPU() && r.Device.ID != 1 {
			t.Errorf("%s is on %s", c.typ, r.Device)
		}
		r.Close()
	}
}

// TestCalibratedTable follows a table from the calibration to the folder where the
// execution provider looks for it, as an object and as a file.
func TestCalibratedTable(t *testing.T) {
	m := linear()
	made, err := calibration.Calibrate(t.Context(), m, calibration.Batches(onward.Values{"x": matrix()}), nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "table.flatbuffers")
	if err := made.WriteFile(file, calibration.FlatBuffers); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	cache := t.TempDir()
	for _, table := range []preset.CalibrationTable{made, preset.TableFile(file)} {
		r, err := preset.OrtTensorRTInt8{Model: preset.From(m), Table: table, InputExample: backend.One(matrix()),
			CacheDir: cache, NoFP16: true}.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		o := drivers["ort:tensorrt"].config.Options
		path := filepath.Join(o["trt_engine_cache_path"], o["trt_int8_calibration_table_name"])
		names[path] = true
		got, err := calibration.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Names(), made.Names()) || len(got.Names()) == 0 {
			t.Errorf("the table has %v, want %v", got.Names(), made.Names())
		}
		for _, n := range made.Names() {
			a, _ := made.Lookup(n)
			b, _ := got.Lookup(n)
			if a.Dynamic() != b.Dynamic() {
				t.Errorf("%s: %v, want %v", n, b, a)
			}
		}
	}
	if len(names) != 1 {
		t.Errorf("one table is in %d files: %v", len(names), names)
	}
}
