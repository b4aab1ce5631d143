package webgpu_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/internal/testing/bindingtest"
	"github.com/onward-ml/onward/internal/testing/lavapipe"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/preset"
	_ "github.com/onward-ml/onward/provider/ort"
	"github.com/onward-ml/onward/tensor"
)

// name is the provider under test.
const name = "ort:webgpu"

var gpu = onward.Device{Type: "webgpu"}

func TestMain(m *testing.M) { lavapipe.Main(m) }

// builds are ONNX Runtime with WebGPU built in, and without it but with the plug-in. Each
// returns provider options, or skips the test.
var builds = map[string]func(t testing.TB) map[string]string{
	"built in": func(t testing.TB) map[string]string {
		lavapipe.Use(t)
		return map[string]string{"library": ortlib.Path(t)}
	},
	"plug-in": func(t testing.TB) map[string]string {
		lavapipe.Use(t)
		// Without it the plug-in offers no device on a machine without a GPU.
		if err := dl.SetEnv("ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER", "1"); err != nil {
			t.Fatal(err)
		}
		return map[string]string{"library": ortlib.GPU.Path(t), "execution_provider_library": ortlib.WebGPU.Path(t)}
	},
}

// forBuilds runs a test on each build.
func forBuilds(t *testing.T, test func(t *testing.T, open func(m *onnx.Model, nameValue ...string) *onward.Session)) {
	for build, options := range builds {
		t.Run(build, func(t *testing.T) {
			o := options(t)
			test(t, func(m *onnx.Model, nameValue ...string) *onward.Session {
				t.Helper()
				c := onward.ProviderConfig{Name: name, Options: map[string]string{}}
				for k, v := range o {
					c.Options[k] = v
				}
				for i := 0; i < len(nameValue); i += 2 {
					c.Options[nameValue[i]] = nameValue[i+1]
				}
				s, err := onward.OpenModel(t.Context(), m,
					&onward.SessionOptions{Threads: 1, DisableFallback: true, Providers: []onward.ProviderConfig{c}})
				must(t, err)
				t.Cleanup(func() { s.Close() })
				return s
			})
		})
	}
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// identity copies a vector.
func identity(elem tensor.DType) *onnx.Model {
	b := onnx.NewModel("m").Opset("", 19).IRVersion(9)
	b.Input("x", onnx.DataType(elem), "n").Output("y", onnx.DataType(elem), "n")
	b.Node("Identity", []string{"x"}, []string{"y"})
	return b.Must()
}

// layers multiplies a vector by a matrix several times: y = 16·x, with sums that are exact.
func layers(rows any) *onnx.Model {
	b := onnx.NewModel("layers").Opset("", 17).IRVersion(8)
	b.Input("x", onnx.Float, rows, 8).Output("y", onnx.Float, rows, 8)
	w := make([]float32, 64)
	for i := range 8 {
		w[i*8+i] = 2
	}
	b.Initializer("w", w, 8, 8)
	last := "x"
	for _, next := range []string{"a", "b", "c", "y"} {
		b.Node("MatMul", []string{last, "w"}, []string{next})
		last = next
	}
	return b.Must()
}

func rows(n, seed int) *tensor.Tensor {
	x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, n, 8))
	for i := range tensor.MustData[float32](x) {
		tensor.MustData[float32](x)[i] = float32((i*7+seed*13)%101) - 50
	}
	return x
}

// times16 reports whether y is 16·x.
func times16(x *tensor.Tensor, y tensor.Value) bool {
	t, ok := y.(*tensor.Tensor)
	if !ok || t.Len() != x.Len() {
		return false
	}
	for i, v := range tensor.MustData[float32](t) {
		if v != 16*tensor.MustData[float32](x)[i] {
			return false
		}
	}
	return true
}

func TestBinding(t *testing.T) {
	forBuilds(t, func(t *testing.T, open func(*onnx.Model, ...string) *onward.Session) {
		bindingtest.Scenarios(t, open(identity(tensor.TypeFloat32)), gpu)
	})
}

// TestDeviceTensors copies tensors to the device and back.
func TestDeviceTensors(t *testing.T) {
	types := []tensor.DType{tensor.TypeFloat32, tensor.TypeFloat16, tensor.TypeFloat64, tensor.TypeInt32,
		tensor.TypeInt64, tensor.TypeUint8, tensor.TypeBool,
		tensor.TypeFloat8E4M3FN, tensor.TypeInt4}
	forBuilds(t, func(t *testing.T, open func(*onnx.Model, ...string) *onward.Session) {
		s := open(identity(tensor.TypeFloat32))
		for _, d := range types {
			for _, n := range []int{1, 5, 1000} {
				x := tensor.Must(tensor.Zeros(d, n))
				for i := range x.Bytes() {
					x.Bytes()[i] = byte(i & 1)
				}
				v, err := s.NewOrtValue(x, gpu)
				must(t, err)
				other, err := s.NewOrtValueOf(gpu, d, n)
				must(t, err, onward.CopyTensors([]*onward.OrtValue{other}, []*onward.OrtValue{v}))
				y, err := other.Tensor()
				must(t, err)
				if y.DType() != d || !bytes.Equal(y.Bytes(), x.Bytes()) {
					t.Errorf("%d elements of %s came back as %s", n, d, y)
				}
				if dev := v.Device(); dev != gpu {
					t.Errorf("the tensor is on %s", dev)
				}
				must(t, v.Close(), other.Close())
			}
		}
	})
}

// TestConcurrent runs two sessions and their bindings in four goroutines, which share one
// WebGPU context.
func TestConcurrent(t *testing.T) {
	forBuilds(t, func(t *testing.T, open func(*onnx.Model, ...string) *onward.Session) {
		sessions := []*onward.Session{open(layers("n")), open(layers("n"))}
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				s := sessions[g%2]
				b, err := s.NewBinding()
				if err != nil {
					t.Error(err)
					return
				}
				defer b.Close()
				for i := range 50 {
					x := rows(1+(g*41+i*13)%64, g+i)
					var y tensor.Value
					if g < 2 {
						out, err := s.Run(context.Background(), onward.Values{"x": x}, nil)
						if err != nil {
							t.Error(err)
							return
						}
						y = out["y"]
					} else {
						if err := errors.Join(b.BindCPUInput("x", x), b.BindOutput("y", onward.Buffer{Device: gpu}),
							s.RunBinding(context.Background(), b, nil)); err != nil {
							t.Error(err)
							return
						}
						list, err := b.CopyOutputsToCPU()
						if err != nil {
							t.Error(err)
							return
						}
						y = list[0]
					}
					if !times16(x, y) {
						t.Errorf("goroutine %d, run %d: a wrong result", g, i)
					}
				}
			})
		}
		wg.Wait()
	})
}

// TestWaitingStops checks that a run stops waiting for the runs of other sessions.
func TestWaitingStops(t *testing.T) {
	o := builds["built in"](t)
	body := onnx.NewGraph("body")
	body.Input("i", onnx.Int64).Input("c", onnx.Bool).Input("a", onnx.Float, 1)
	body.Output("c2", onnx.Bool).Output("b", onnx.Float, 1)
	body.Node("Identity", []string{"c"}, []string{"c2"})
	body.Node("Step", []string{"a"}, []string{"b"}).Domain("acme")
	b := onnx.NewModel("endless").Opset("", 13).Opset("acme", 1).IRVersion(8)
	b.Input("x", onnx.Float, 1).Output("y", onnx.Float, 1)
	b.Initializer("n", int64(math.MaxInt32)).Initializer("yes", true)
	b.Node("Loop", []string{"n", "yes", "x"}, []string{"y"}, onnx.Attrs{"body": body})
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	op := onward.CustomOperator{Domain: "acme", Name: "Step", Inputs: "a:float", Outputs: "b:float",
		Run: func(_ context.Context, c onward.CustomCall) ([]tensor.Value, error) {
			begin()
			return c.In, nil
		}}
	config := []onward.ProviderConfig{{Name: name, Options: o}}
	long, err := onward.OpenModel(t.Context(), b.Must(),
		&onward.SessionOptions{Providers: config, CustomOperators: []onward.CustomOperator{op}})
	must(t, err)
	defer long.Close()
	s, err := onward.OpenModel(t.Context(), layers("n"), &onward.SessionOptions{Providers: config})
	must(t, err)
	defer s.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := long.Run(ctx, onward.Values{"x": tensor.Must(tensor.New([]float32{1}, 1))}, nil)
		ended <- err
	}()
	<-begun
	waiting, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		_, err := s.Run(waiting, onward.Values{"x": rows(1, 1)}, nil)
		result <- err
	}()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("a run that waits: %v, want that it was cancelled", err)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the long run: %v, want that it was cancelled", err)
	}
}

// samples are values for the options of the provider that are not 0 or 1.
var samples = map[string][]string{
	"preferredLayout": {"NCHW", "NHWC"}, "sessionBufferPoolGenerations": {"0", "2"}, "multiRotaryCacheConcatOffset": {"0"}, "kvCacheQuantizationBits": {"0", "4"},
	"dawnBackendType": {"Vulkan"}, "powerPreference": {"high-performance", "low-power"}, "deviceId": {"0"}, "enableGraphCapture": {"0"},
	"storageBufferCacheMode": {"disabled", "lazyRelease", "simple", "bucket"}, "uniformBufferCacheMode": {"disabled", "lazyRelease", "simple", "bucket"},
	"queryResolveBufferCacheMode": {"disabled", "lazyRelease", "simple", "bucket"}, "defaultBufferCacheMode": {"disabled", "lazyRelease", "simple", "bucket"},
	"validationMode": {"disabled", "wgpuOnly", "basic", "full"}, "forceCpuNodeNames": {"a"}, "maxStorageBufferBindingSize": {"134217728"}, "maxNumPendingDispatches": {"1", "64"},
}

// apart are options that are not tested: addresses of objects of Dawn, and a tool for Windows.
var apart = []string{"dawnProcTable", "webgpuInstance", "webgpuDevice", "enablePIXCapture"}

// TestOptions passes every option to the provider.
func TestOptions(t *testing.T) {
	x := rows(4, 1)
	forBuilds(t, func(t *testing.T, open func(*onnx.Model, ...string) *onward.Session) {
		for _, option := range ortlib.Options(t, name) {
			values := samples[option]
			if slices.Contains(apart, option) {
				continue
			}
			if values == nil {
				values = []string{"1", "0"}
			}
			for _, v := range values {
				s := open(layers(4), option, v)
				out, err := s.Run(context.Background(), onward.Values{"x": x}, nil)
				if err != nil || !times16(x, out["y"]) {
					t.Errorf("%s=%s: got %v, %v", option, v, out["y"], err)
				}
				must(t, s.Close())
			}
		}
	})
}

// TestGraphCapture replays a captured graph with changing contents of bound memory. Without
// memory of the device a replay would not read the inputs.
func TestGraphCapture(t *testing.T) {
	forBuilds(t, func(t *testing.T, open func(*onnx.Model, ...string) *onward.Session) {
		s := open(layers(4), "enableGraphCapture", "1")
		x := rows(4, 0)
		if _, err := s.Run(context.Background(), onward.Values{"x": x}, nil); !errors.Is(err,
			onward.ErrInvalidArgument) {
			t.Errorf("a run without a binding: %v", err)
		}
		b, err := s.NewBinding()
		must(t, err)
		defer b.Close()
		in, err := s.NewOrtValue(x, gpu)
		must(t, err)
		out, err := s.NewOrtValueOf(gpu, tensor.TypeFloat32, 4, 8)
		must(t, err, b.BindCPUInput("x", x), b.BindOutputValue("y", out))
		if err := s.RunBinding(context.Background(), b, nil); !errors.Is(err, onward.ErrInvalidArgument) {
			t.Errorf("a run with an input on the CPU: %v", err)
		}
		must(t, b.BindInputValue("x", in))
		for i := range 5 {
			x := rows(4, i)
			must(t, in.UpdateInPlace(x), s.RunBinding(context.Background(), b, nil))
			y, err := out.Tensor()
			if err != nil || !times16(x, y) {
				t.Errorf("run %d: a wrong result, %v", i, err)
			}
		}
	})
}

// TestNamed adds the plug-in to the provider ort by its name.
func TestNamed(t *testing.T) {
	o := builds["plug-in"](t)
	o["execution_provider"] = "WebGpuExecutionProvider"
	s, err := onward.OpenModel(t.Context(), layers("n"),
		&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: "ort", Options: o}}})
	must(t, err)
	defer s.Close()
	x := rows(3, 2)
	out, err := s.Run(context.Background(), onward.Values{"x": x}, nil)
	if err != nil || !times16(x, out["y"]) {
		t.Errorf("got %v, %v", out["y"], err)
	}
}

// TestPackage finds the plug-in in a Python environment by the name of its package.
func TestPackage(t *testing.T) {
	o := builds["plug-in"](t)
	site := filepath.Join(t.TempDir(), "lib", "python3", "site-packages")
	must(t, os.MkdirAll(filepath.Join(site, "onnxruntime_ep_webgpu"), 0o755),
		os.Symlink(o["execution_provider_library"],
			filepath.Join(site, "onnxruntime_ep_webgpu", "libonnxruntime_providers_webgpu.so")))
	t.Setenv("VIRTUAL_ENV", filepath.Dir(filepath.Dir(filepath.Dir(site))))
	delete(o, "execution_provider_library")
	must(t, driver.Lookup(name).Available(driver.Config{Name: name, Options: o}))
}

func TestPresets(t *testing.T) {
	o := builds["built in"](t)
	x := rows(3, 5)
	for _, p := range []preset.Preset{
		preset.OrtWebGPU{Model: preset.From(layers("n")), ProviderOptions: o},
		preset.OrtWebGPU{Model: preset.From(layers("n")), ProviderOptions: o, InputExample: backend.One(x)},
		preset.Ort{Model: preset.From(layers("n")), Provider: "WebGpuExecutionProvider", ProviderOptions: o},
	} {
		r, err := p.Open(t.Context())
		must(t, err)
		out, err := r.Run(t.Context(), backend.One(x), nil)
		if err != nil || !times16(x, out.Values[0]) {
			t.Errorf("%s: got %v, %v", p.Name(), out, err)
		}
		if r.Device != gpu {
			t.Errorf("%s is on %s", p.Name(), r.Device)
		}
		must(t, r.Close())
	}
}

// TestAvailable checks that the adapter is looked for, and the errors for options.
func TestAvailable(t *testing.T) {
	for build, options := range builds {
		t.Run(build, func(t *testing.T) {
			p, o := driver.Lookup(name), options(t)
			must(t, p.Available(driver.Config{Name: name, Options: o}))
			o["powerPreference"] = "low"
			if err := p.Available(driver.Config{Name: name, Options: o}); !errors.Is(err, onward.ErrInvalidArgument) {
				t.Errorf("powerPreference=low: %v", err)
			}
		})
	}
}
