package fakecuda_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/internal/testing/bindingtest"
	"github.com/onward-ml/onward/internal/testing/fakecuda"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/onnx"
	_ "github.com/onward-ml/onward/provider/ort"
	"github.com/onward-ml/onward/tensor"
)

func TestMain(m *testing.M) { fakecuda.Main(m) }

var gpu = onward.Device{Type: "cuda"}

// options returns session options for a provider with options of its own, name by value.
func options(provider string, nameValue ...string) *onward.SessionOptions {
	config := onward.ProviderConfig{Name: provider, Options: map[string]string{}}
	for i := 0; i < len(nameValue); i += 2 {
		config.Options[nameValue[i]] = nameValue[i+1]
	}
	return &onward.SessionOptions{Threads: 1, DisableFallback: true, Providers: []onward.ProviderConfig{config}}
}

func open(t testing.TB, m *onnx.Model, provider string, nameValue ...string) *onward.Session {
	t.Helper()
	fakecuda.Use(t)
	s, err := onward.OpenModel(t.Context(), m, options(provider, nameValue...))
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func count(t testing.TB) fakecuda.Counters {
	t.Helper()
	c, err := fakecuda.Count()
	must(t, err)
	return c
}

// identity copies a vector.
func identity(elem tensor.DType) *onnx.Model {
	b := onnx.NewModel("m").Opset("", 19).IRVersion(9)
	b.Input("x", onnx.DataType(elem), "n").Output("y", onnx.DataType(elem), "n")
	b.Node("Identity", []string{"x"}, []string{"y"})
	return b.Must()
}

// pattern returns n elements with bytes that are valid for every type.
func pattern(d tensor.DType, n, seed int) *tensor.Tensor {
	x := tensor.Must(tensor.Zeros(d, n))
	for i := range x.Bytes() {
		x.Bytes()[i] = byte((i*7 + seed) & 1)
	}
	return x
}

func same(t testing.TB, got tensor.Value, want *tensor.Tensor) {
	t.Helper()
	if y, ok := got.(*tensor.Tensor); !ok || y.DType() != want.DType() || !bytes.Equal(y.Bytes(), want.Bytes()) {
		t.Errorf("got %v, want the %d bytes of %s", got, len(want.Bytes()), want)
	}
}

var numeric = []tensor.DType{tensor.TypeFloat32, tensor.TypeFloat64, tensor.TypeFloat16, tensor.TypeBFloat16,
	tensor.TypeInt8, tensor.TypeInt16,
	tensor.TypeInt32, tensor.TypeInt64, tensor.TypeUint8, tensor.TypeUint16, tensor.TypeUint32, tensor.TypeUint64, tensor.TypeBool}

func TestIdentity(t *testing.T) {
	for _, p := range []string{"ort:cuda", "ort:tensorrt"} {
		for _, d := range numeric {
			s := open(t, identity(d), p)
			before := count(t)
			for n := range 5 {
				x := pattern(d, 1000*n, n)
				out, err := s.Run(context.Background(), onward.Values{"x": x}, nil)
				must(t, err)
				same(t, out["y"], x)
			}
			if c := count(t); c.ToDevice == before.ToDevice || c.ToHost == before.ToHost {
				t.Errorf("%s on %s did not run on the device: %+v", d, p, c)
			}
		}
	}
	if c := count(t); c.Misuses != 0 {
		t.Errorf("%d misuses of CUDA", c.Misuses)
	}
}

// TestMoves runs operators that change shapes only, and sequences.
func TestMoves(t *testing.T) {
	b := onnx.NewModel("moves").Opset("", 17).IRVersion(8)
	b.Input("x", onnx.Float, 4, "n").Output("y", onnx.Float, "n", 1, 4).Output("first", onnx.Float, 4, "n").
		Output("len", onnx.Int64)
	b.Initializer("shape", []int64{-1, 4}, 2).Initializer("axes", []int64{1}, 1).Initializer("zero", []int64{0})
	b.Node("Reshape", []string{"x", "shape"}, []string{"r"})
	b.Node("Unsqueeze", []string{"r", "axes"}, []string{"u"})
	b.Node("Identity", []string{"u"}, []string{"y"})
	b.Node("SequenceConstruct", []string{"x", "x"}, []string{"seq"})
	b.Node("SequenceAt", []string{"seq", "zero"}, []string{"first"})
	b.Node("SequenceLength", []string{"seq"}, []string{"len"})
	s := open(t, b.Must(), "ort:cuda")
	for _, n := range []int{1, 7, 300} {
		x := pattern(tensor.TypeFloat32, 4*n, n)
		x.Reset(tensor.TypeFloat32, x.Bytes(), []int{4, n})
		out, err := s.Run(context.Background(), onward.Values{"x": x}, nil)
		must(t, err)
		same(t, out["y"], x)
		same(t, out["first"], x)
		if got := tensor.MustData[int64](out["len"].(*tensor.Tensor)); got[0] != 2 {
			t.Errorf("the sequence has %d items, want 2", got[0])
		}
	}
}

// TestSequenceOutput checks sequences as outputs: of a run, and bound to the device, which
// ONNX Runtime leaves on the CPU.
func TestSequenceOutput(t *testing.T) {
	b := onnx.NewModel("seq").Opset("", 17).IRVersion(8)
	x := pattern(tensor.TypeFloat32, 6, 1)
	b.Input("x", onnx.Float, "n").
		OutputType("s", onnx.NewType(tensor.SequenceOf(tensor.TensorType(tensor.TypeFloat32))))
	b.Node("SequenceConstruct", []string{"x", "x"}, []string{"s"})
	s := open(t, b.Must(), "ort:cuda")
	out, err := s.Run(context.Background(), onward.Values{"x": x}, nil)
	must(t, err)
	items := out["s"].(*tensor.Sequence).Items
	if len(items) != 2 {
		t.Fatalf("%d items", len(items))
	}
	same(t, items[1], x)
}

func TestBinding(t *testing.T) {
	for _, p := range []string{"ort:cuda", "ort:tensorrt"} {
		bindingtest.Scenarios(t, open(t, identity(tensor.TypeFloat32), p), gpu)
	}
}

// TestDeviceTensors copies tensors of all types to the device and back, several at a time.
func TestDeviceTensors(t *testing.T) {
	s := open(t, identity(tensor.TypeFloat32), "ort:cuda", "enable_cuda_graph", "True")
	types := append(slices.Clone(numeric), tensor.TypeFloat8E4M3FN, tensor.TypeFloat8E5M2, tensor.TypeUint4,
		tensor.TypeInt4)
	var wg sync.WaitGroup
	for _, d := range types {
		for range 4 {
			wg.Go(func() {
				for i := range 20 {
					x := pattern(d, 1+i*37, i)
					v, err := s.NewOrtValue(x, gpu)
					if err != nil {
						t.Errorf("%s: %v", d, err)
						return
					}
					y, err := v.Tensor()
					if err != nil {
						t.Errorf("%s: %v", d, err)
						return
					}
					same(t, y, x)
					if err := v.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	// From the device to itself and to the CPU, and from the CPU to the device.
	x := pattern(tensor.TypeInt4, 9, 4)
	src, err := s.NewOrtValue(x, gpu)
	must(t, err)
	onDevice, err := s.NewOrtValueOf(gpu, tensor.TypeInt4, 9)
	must(t, err)
	onCPU, err := onward.NewOrtValueOf(tensor.TypeInt4, 9)
	must(t, err)
	before := count(t)
	must(t, onward.CopyTensors([]*onward.OrtValue{onDevice, onCPU}, []*onward.OrtValue{src, onDevice}))
	y, err := onCPU.Tensor()
	must(t, err)
	same(t, y, x)
	if c := count(t); c.OnDevice == before.OnDevice {
		t.Error("a copy on the device went through the CPU")
	}
	other, err := s.NewOrtValueOf(gpu, tensor.TypeInt4, 11)
	must(t, err)
	if err := onward.CopyTensors([]*onward.OrtValue{other}, []*onward.OrtValue{src}); !errors.Is(err,
		onward.ErrInvalidArgument) {
		t.Errorf("a copy to another size: %v", err)
	}

	v, err := s.NewOrtValueOf(gpu, tensor.TypeFloat32, 3)
	must(t, err, v.Close(), v.Close())
	if _, err := v.Tensor(); !errors.Is(err, onward.ErrInvalidArgument) {
		t.Errorf("a closed tensor can be read: %v", err)
	}
}

// TestConcurrent runs sessions and bindings in many goroutines.
func TestConcurrent(t *testing.T) {
	s := open(t, identity(tensor.TypeFloat32), "ort:cuda")
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			b, err := s.NewBinding()
			if err != nil {
				t.Error(err)
				return
			}
			defer b.Close()
			for i := range 40 {
				x := pattern(tensor.TypeFloat32, 1+(g*41+i*13)%500, g+i)
				var y tensor.Value
				if g%2 == 0 {
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
				same(t, y, x)
			}
		})
	}
	wg.Wait()
	if c := count(t); c.Misuses != 0 {
		t.Errorf("%d misuses of CUDA", c.Misuses)
	}
}

// TestNoLeaks checks that a binding that is used again with other inputs and shapes does not
// collect memory of the device, which the garbage collector would not free in time, and that
// everything is freed at the end.
func TestNoLeaks(t *testing.T) {
	fakecuda.Use(t)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	// kSameAsRequested: one allocation of CUDA for each size.
	s, err := onward.OpenModel(t.Context(), identity(tensor.TypeFloat32),
		options("ort:cuda", "arena_extend_strategy", "kSameAsRequested"))
	must(t, err)
	before := count(t)
	b, err := s.NewBinding()
	must(t, err)
	const size = 1 << 20
	must(t, b.BindOutput("y", onward.Buffer{Device: gpu}))
	var after fakecuda.Counters
	for i := range 200 {
		x := pattern(tensor.TypeFloat32, size-i%4, i)
		must(t, b.BindCPUInput("x", x), s.RunBinding(context.Background(), b, nil))
		v, err := s.NewOrtValue(x, gpu)
		must(t, err, v.Close())
		if i == 20 {
			after = count(t)
		}
	}
	const slack = 10 // ONNX Runtime's arena may be fragmented
	if c := count(t); c.Mallocs > after.Mallocs+slack {
		t.Errorf("%d allocations of 20 runs became %d after 200", after.Mallocs-before.Mallocs,
			c.Mallocs-before.Mallocs)
	}
	must(t, b.Close(), s.Close())
	c := count(t)
	if c.Mallocs-before.Mallocs == 0 {
		t.Error("nothing was allocated")
	}
	for range 100 {
		if c = count(t); c.Mallocs == c.Frees && c.HostMallocs == c.HostFrees && c.Streams == c.DestroyedStreams {
			return
		}
		runtime.GC() // sessions of earlier tests
	}
	t.Errorf("after closing: %+v", c)
}

// samples are values for options that are not booleans.
var samples = map[string][]string{
	"device_id": {"0"}, "gpu_mem_limit": {"1073741824"}, "arena_extend_strategy": {"kNextPowerOfTwo", "kSameAsRequested"},
	"cudnn_conv_algo_search": {"EXHAUSTIVE", "HEURISTIC", "DEFAULT"}, "tunable_op_max_tuning_duration_ms": {"10"}, "sdpa_kernel": {"0", "1"},
	"trt_max_partition_iterations": {"10"}, "trt_min_subgraph_size": {"5"}, "trt_max_workspace_size": {"1073741824"}, "trt_dla_core": {"0"},
	"trt_builder_optimization_level": {"0", "5"}, "trt_auxiliary_streams": {"-1", "2"}, "trt_tactic_sources": {"-CUDNN,+CUBLAS"},
	// The C API of ONNX Runtime 1.31 accepts and drops these three: with functions of the test
	// they are not called.
	"gpu_external_alloc": {"0"}, "gpu_external_free": {"0"}, "gpu_external_empty_cache": {"0"},
	"trt_engine_cache_prefix": {"p"}, "trt_ep_context_embed_mode": {"0", "1"}, "trt_op_types_to_exclude": {"Identity"},
}

// folders are options whose value is a folder or a file in it.
var folders = []string{"trt_engine_cache_path", "trt_timing_cache_path", "trt_onnx_model_folder_path",
	"trt_ep_context_file_path"}

// apart are options that need more than a value: addresses and graphs, which have tests of
// their own, libraries, files, and a model that TensorRT supports.
var apart = []string{"user_compute_stream", "has_user_compute_stream", "enable_cuda_graph",
	"trt_int8_calibration_table_name", "trt_engine_decryption_enable", "trt_engine_decryption_lib_path", "trt_extra_plugin_lib_paths", "trt_preview_features",
	"trt_profile_min_shapes", "trt_profile_max_shapes", "trt_profile_opt_shapes", "trt_onnx_bytestream", "trt_onnx_bytestream_size",
	"trt_cuda_graph_enable", "trt_external_data_bytestream", "trt_external_data_bytestream_size", "trt_load_user_initializer", "trt_weight_stripped_engine_enable"}

// TestOptions passes every option to the providers themselves, which reject unknown ones.
func TestOptions(t *testing.T) {
	fakecuda.Use(t)
	x := pattern(tensor.TypeFloat32, 10, 1)
	for _, p := range []string{"ort:cuda", "ort:tensorrt"} {
		for _, name := range ortlib.Options(t, p) {
			values := samples[name]
			switch {
			case slices.Contains(apart, name):
				continue
			case slices.Contains(folders, name):
				values = []string{t.TempDir()}
			case values == nil:
				values = []string{"True", "False"}
			}
			for _, v := range values {
				s, err := onward.OpenModel(t.Context(), identity(tensor.TypeFloat32), options(p, name, v))
				if err != nil {
					t.Errorf("%s: %s=%s: %v", p, name, v, err)
					continue
				}
				out, err := s.Run(context.Background(), onward.Values{"x": x}, nil)
				if err != nil {
					t.Errorf("%s: %s=%s: %v", p, name, v, err)
				} else {
					same(t, out["y"], x)
				}
				s.Close()
			}
		}
	}
	_, err := onward.OpenModel(t.Context(), identity(tensor.TypeFloat32), options("ort:cuda", "unchecked:blob", "1"))
	if err == nil {
		t.Error("CUDA's provider accepts an unknown option")
	}
	if _, err := onward.OpenModel(t.Context(), identity(tensor.TypeFloat32),
		options("ort:cuda", "device_id", "7")); err == nil || !strings.Contains(err.Error(), "device") {
		t.Errorf("a session on device 7 of 1: %v", err)
	}
}

// function returns the address of a function of the stand-in's CUDA runtime.
func function(t testing.TB, name string) uintptr {
	t.Helper()
	l, err := dl.Open("the stand-in for CUDA", []dl.Place{{Path: "libcudart.so.13"}}, nil)
	must(t, err)
	f, err := l.Symbol(name)
	must(t, err)
	return f
}

// TestUserStream runs a session on a stream of the caller.
func TestUserStream(t *testing.T) {
	open(t, identity(tensor.TypeFloat32), "ort:cuda") // which loads the stand-in
	stream := new(uintptr)
	if st := dl.Call(function(t, "cudaStreamCreate"), uintptr(unsafe.Pointer(stream))); st != 0 {
		t.Fatalf("cudaStreamCreate returned %d", st)
	}
	for _, p := range []string{"ort:cuda", "ort:tensorrt"} {
		before := count(t)
		s := open(t, identity(tensor.TypeFloat32), p, "has_user_compute_stream", "True", "user_compute_stream",
			fmt.Sprint(*stream))
		x := pattern(tensor.TypeFloat32, 100, 3)
		out, err := s.Run(context.Background(), onward.Values{"x": x}, nil)
		must(t, err)
		same(t, out["y"], x)
		must(t, s.Close())
		if c := count(t); c.DestroyedStreams-before.DestroyedStreams > c.Streams-before.Streams {
			t.Errorf("%s destroyed the caller's stream", p)
		}
	}
}

// TestGraphNeedsABinding checks that a session that replays a graph refuses memory that the
// graph would not read or write.
func TestGraphNeedsABinding(t *testing.T) {
	s := open(t, identity(tensor.TypeFloat32), "ort:cuda", "enable_cuda_graph", "True")
	x := pattern(tensor.TypeFloat32, 10, 1)
	if _, err := s.Run(context.Background(), onward.Values{"x": x}, nil); !errors.Is(err, onward.ErrInvalidArgument) {
		t.Errorf("a run without a binding: %v", err)
	}
	b, err := s.NewBinding()
	must(t, err)
	defer b.Close()
	in, err := s.NewOrtValue(x, gpu)
	must(t, err)
	out, err := s.NewOrtValueOf(gpu, tensor.TypeFloat32, 10)
	must(t, err, b.BindInputValue("x", in), b.BindOutput("y", onward.Buffer{Device: gpu}))
	if err := s.RunBinding(context.Background(), b, nil); !errors.Is(err, onward.ErrInvalidArgument) {
		t.Errorf("a run with an output that ONNX Runtime allocates: %v", err)
	}
	must(t, b.BindOutputValue("y", out), s.RunBinding(context.Background(), b, nil))
	y, err := out.Tensor()
	must(t, err)
	same(t, y, x)
}

// TestOneHost checks that the execution providers of a second ONNX Runtime are refused, which
// would call the first one.
func TestOneHost(t *testing.T) {
	open(t, identity(tensor.TypeFloat32), "ort:cuda")
	err := driver.Lookup("ort:openvino").
		Available(driver.Config{Name: "ort:openvino", Options: map[string]string{"library": ortlib.OpenVINO.Path(t)}})
	if err == nil || !strings.Contains(err.Error(), "can use those of one ONNX Runtime only") {
		t.Errorf("a second ONNX Runtime: %v", err)
	}
}

// TestCopiesOfTensorRT checks that copies run on the CUDA provider without the options that
// concern the session's own model.
func TestCopiesOfTensorRT(t *testing.T) {
	dir := t.TempDir()
	s := open(t, identity(tensor.TypeFloat32), "ort:tensorrt", "device_id", "0", "trt_engine_cache_enable", "True",
		"trt_engine_cache_path", dir,
		"profile_file_prefix", filepath.Join(dir, "profile"), "optimized_model_filepath",
		filepath.Join(dir, "model.onnx"))
	x := pattern(tensor.TypeFloat32, 5, 3)
	v, err := s.NewOrtValue(x, gpu)
	must(t, err)
	y, err := v.Tensor()
	must(t, err)
	same(t, y, x)
	profiles, err := filepath.Glob(filepath.Join(dir, "profile*"))
	if err != nil || len(profiles) != 1 {
		t.Errorf("profiles %v, %v, want one", profiles, err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "model.onnx"))
	if err != nil || bytes.Contains(data, []byte("copy")) {
		t.Errorf("the saved model is that of the copies: %v", err)
	}
}
