package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/calibration"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/testing/scores"
	"github.com/onward-ml/onward/internal/testing/store"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/preset"
	_ "github.com/onward-ml/onward/provider/ort"
	"github.com/onward-ml/onward/tensor"
)

// target is a provider to check.
type target struct {
	provider string
	memory   onward.Device // for bindings
	least    int           // minimum number of passing cases
	copies   int           // minimum number of passing cases that only copy
}

// copying matches the cases of the suite whose operators only copy.
const copying = `^test_(identity|reshape|squeeze_|unsqueeze|flatten|shape|size|sequence_insert|optional)`

// The minimum is low because the release passes some cases on the CPU provider only, which runs
// what a GPU provider does not support.
var targets = []target{
	{"ort:cuda", onward.Device{Type: "cuda"}, 1600, 57},
	{"ort:tensorrt", onward.Device{Type: "cuda"}, 1500, 57},
}

// gpuOf returns nil if the machine has an NVIDIA GPU and its driver.
func gpuOf(ctx context.Context) error {
	nodes, _ := filepath.Glob("/dev/nvidia[0-9]*")
	_, err := os.Stat("/proc/driver/nvidia/version")
	if len(nodes) > 0 && err == nil {
		return nil
	}
	if _, err := store.Run(ctx, "", "nvidia-smi", "-L"); err == nil { // Windows has no device files
		return nil
	}
	return errors.New("there is no NVIDIA GPU: no /dev/nvidia0, and nvidia-smi finds none")
}

func queryGPU(ctx context.Context) (string, error) {
	s, err := store.Run(ctx, "", "nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
	return strings.ReplaceAll(s, "\n", "; "), err
}

// all adds all rows.
func (c *checker) all() {
	if !c.copies {
		c.onGPU("machine", "NVIDIA GPU", queryGPU)
	}
	for _, name := range append([]string{"ort:cpu"}, c.providers()...) {
		c.add("doctor", name, func(context.Context) (string, error) {
			_, err := driver.Lookup(name).(driver.LibraryUser).Library(driver.Config{Name: name})
			return "its libraries load", err
		})
	}
	for _, t := range c.targets {
		c.onGPU("conformance", t.provider, func(ctx context.Context) (string, error) { return c.conformance(ctx, t) })
		for _, s := range scenarios {
			c.onGPU("binding", t.provider+", "+s.name, func(ctx context.Context) (string, error) {
				return c.bind(ctx, t, s)
			})
		}
	}
	if c.copies {
		return
	}
	for _, p := range presets() {
		c.onGPU("preset", p.Name(), func(ctx context.Context) (string, error) { return tryPreset(ctx, p) })
	}
	for _, m := range timed {
		c.onGPU("time", m, func(ctx context.Context) (string, error) { return c.time(ctx, m) })
	}
}

func (c *checker) providers() []string {
	var names []string
	for _, t := range c.targets {
		names = append(names, t.provider)
	}
	return names
}

func (c *checker) suite() (string, error) {
	if c.data != "" {
		s, err := suite.At(c.data)
		return s.Dir, err
	}
	s, err := suite.Find()
	if err != nil {
		return "", fmt.Errorf("%w; fetch it with `make suite`, or set its folder with -data", err)
	}
	return s.Dir, nil
}

// conformance runs the ONNX backend suite.
func (c *checker) conformance(ctx context.Context, t target) (string, error) {
	dir, err := c.suite()
	if err != nil {
		return "", err
	}
	least, include := t.least, []string(nil)
	if c.copies {
		least, include = t.copies, []string{copying}
	}
	r, err := scores.Run(ctx, dir, t.provider, include, nil)
	if err != nil {
		return "", err
	}
	all := r.All()
	text := fmt.Sprintf("%d of %d pass, %d refused, %d differ", all.Passed, all.Total(), all.Refused, all.Differ)
	if all.Passed < least {
		return "", fmt.Errorf("%s; want at least %d to pass; the first: %s", text, least, strings.Join(r.Errors, " | "))
	}
	return text, nil
}

// presets returns the presets for a GPU, for the example digits.onnx.
func presets() []preset.Preset {
	x := backend.One(digits(8))
	return []preset.Preset{
		preset.OrtCUDA{},
		preset.OrtTensorRT{InputExample: x},
		preset.OrtTensorRTFloat{InputExample: x},
		preset.OrtTensorRTFloatOptim{InputExample: x},
		preset.OrtTensorRTInt8{InputExample: x},
		preset.OrtTensorRTInt8QDQ{InputExample: x},
	}
}

// digits returns a batch of synthetic images.
func digits(n int) *tensor.Tensor {
	t := tensor.Must(tensor.Zeros(tensor.TypeFloat32, n, 1, 8, 8))
	for i := range tensor.MustData[float32](t) {
		tensor.MustData[float32](t)[i] = float32((i*7919)%17) / 16
	}
	return t
}

// tryPreset runs a preset on an example and compares the result with the Go engine's: with a small
// tolerance for float32, with a large one for types of fewer bits.
func tryPreset(ctx context.Context, p preset.Preset) (string, error) {
	data, err := datasets.Get("digits.onnx")
	if err != nil {
		return "", err
	}
	m, err := onnx.Unmarshal(data, nil)
	if err != nil {
		return "", err
	}
	x := onward.Values{"image": digits(8)}
	atol := 1e-3
	switch q := p.(type) {
	case preset.OrtTensorRTFloatOptim:
		atol, q.Model = 0.02, preset.From(m)
		p = q
	case preset.OrtTensorRTInt8:
		table, err := calibration.Calibrate(ctx, m, calibration.Batches(x), nil)
		if err != nil {
			return "", fmt.Errorf("calibrate: %w", err)
		}
		atol, q.Model, q.Table = 0.1, preset.From(m), table
		p = q
	case preset.OrtTensorRTInt8QDQ:
		if m, err = qdq(); err != nil {
			return "", err
		}
		atol, q.Model = 0.1, preset.From(m)
		p = q
	case preset.OrtTensorRT:
		q.Model = preset.From(m)
		p = q
	case preset.OrtTensorRTFloat:
		q.Model = preset.From(m)
		p = q
	case preset.OrtCUDA:
		q.Model = preset.From(m)
		p = q
	case preset.OrtCPU:
		q.Model = preset.From(m)
		p = q
	}
	ours, err := onward.OpenModel(ctx, m, nil)
	if err != nil {
		return "", err
	}
	defer ours.Close()
	want, err := ours.Run(ctx, x, nil)
	if err != nil {
		return "", err
	}
	start := time.Now()
	rep, err := p.Open(ctx)
	if err != nil {
		return "", err
	}
	defer rep.Close()
	loaded := time.Since(start)
	start = time.Now()
	got, err := rep.Run(ctx, backend.Named(x), nil)
	if err != nil {
		return "", err
	}
	first := time.Since(start)
	if err := tensor.AllClose(got.Get("probabilities"), want["probabilities"], 0, atol); err != nil {
		return "", err
	}
	return fmt.Sprintf("agrees within %g; opens in %v, first run %v", atol, loaded.Round(time.Millisecond),
		first.Round(time.Microsecond)), nil
}

// qdq returns a classifier of 8×8 images that is quantized with QuantizeLinear and
// DequantizeLinear.
func qdq() (*onnx.Model, error) {
	f := onnx.DataType(tensor.TypeFloat32)
	b := onnx.NewModel("qdq").Opset("", 13).IRVersion(8)
	b.Input("image", f, "batch", 1, 8, 8).Output("probabilities", f, "batch", 10)
	w := make([]int8, 64*10)
	for i := range w {
		w[i] = int8((i*31)%255 - 127)
	}
	weights, err := onnx.NewTensor("w", w, 64, 10)
	if err != nil {
		return nil, err
	}
	b.Initializer("scale", float32(1)/127).Initializer("zero", int8(0)).Initializer("wscale", float32(1)/1024)
	b.Node("Flatten", []string{"image"}, []string{"flat"})
	b.Node("QuantizeLinear", []string{"flat", "scale", "zero"}, []string{"q"})
	b.Node("DequantizeLinear", []string{"q", "scale", "zero"}, []string{"dq"})
	b.Node("DequantizeLinear", []string{"w", "wscale", "zero"}, []string{"dw"})
	b.Node("MatMul", []string{"dq", "dw"}, []string{"logits"})
	b.Node("Softmax", []string{"logits"}, []string{"probabilities"}, onnx.Attrs{"axis": int64(1)})
	m, err := b.Model()
	if err != nil {
		return nil, err
	}
	m.Graph.Initializers = append(m.Graph.Initializers, weights)
	return m, nil
}

// scenario is one of the three scenarios in ONNX Runtime's documentation of IOBinding.
type scenario struct {
	name    string
	in, out bool // on the device
}

var scenarios = []scenario{
	{"input from the CPU", false, false},
	{"input on the device", true, false},
	{"input and output on the device", true, true},
}

// bound returns the model for the scenarios: the elements times 1 to 6, or a copy of them.
func (c *checker) bound() (*onnx.Model, error) {
	if !c.copies {
		data, err := datasets.Get("mul_1.onnx")
		if err != nil {
			return nil, err
		}
		return onnx.Unmarshal(data, nil)
	}
	b := onnx.NewModel("copy").Opset("", 16).IRVersion(8)
	b.Input("X", onnx.Float, 3, 2).Output("Y", onnx.Float, 3, 2)
	b.Node("Identity", []string{"X"}, []string{"Y"})
	return b.Model()
}

// bind runs a scenario several times with changing inputs.
func (c *checker) bind(ctx context.Context, t target, s scenario) (string, error) {
	m, err := c.bound()
	if err != nil {
		return "", err
	}
	sess, err := onward.OpenModel(ctx, m,
		&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: t.provider}}})
	if err != nil {
		return "", err
	}
	defer sess.Close()
	b, err := sess.NewBinding()
	if err != nil {
		return "", err
	}
	defer b.Close()
	x := tensor.Must(tensor.New([]float32{1, 2, 3, 4, 5, 6}, 3, 2))
	var in *onward.OrtValue
	if s.in {
		if in, err = sess.NewOrtValue(x, t.memory); err != nil {
			return "", fmt.Errorf("copy the input to %s: %w", t.memory, err)
		}
		if err := b.BindInput("X", onward.Buffer{Device: t.memory, Type: tensor.TypeFloat32, Shape: []int{3, 2},
			Pointer: in.Pointer()}); err != nil {
			return "", err
		}
	}
	var out *onward.OrtValue
	switch {
	case s.out:
		if out, err = sess.NewOrtValueOf(t.memory, tensor.TypeFloat32, 3, 2); err != nil {
			return "", err
		}
		err = b.BindOutput("Y", onward.Buffer{Device: t.memory, Type: tensor.TypeFloat32, Shape: []int{3, 2},
			Pointer: unsafe.Pointer(out.Pointer())})
	default:
		err = b.BindOutput("Y", onward.Buffer{})
	}
	if err != nil {
		return "", err
	}
	const runs = 5
	for i := range runs {
		tensor.MustData[float32](x)[0] = float32(i)
		if in != nil {
			err = in.UpdateInPlace(x)
		} else {
			err = b.BindCPUInput("X", x)
		}
		if err = errors.Join(err, b.SynchronizeInputs()); err != nil {
			return "", err
		}
		if err := errors.Join(sess.RunBinding(ctx, b, nil), b.SynchronizeOutputs()); err != nil {
			return "", err
		}
		list, err := b.CopyOutputsToCPU()
		if err != nil {
			return "", err
		}
		for k, y := range tensor.MustData[float32](list[0].(*tensor.Tensor)) {
			want := tensor.MustData[float32](x)[k]
			if !c.copies {
				want *= float32(k + 1)
			}
			if y != want {
				return "", fmt.Errorf("run %d: element %d is %g, want %g", i, k, y, want)
			}
		}
	}
	return fmt.Sprintf("%d runs are right", runs), nil
}

// timed lists the models of the suite that are measured.
var timed = []string{"light_resnet50", "light_vgg19", "light_densenet121", "light_squeezenet"}

// time measures a model on the Go engine, on ONNX Runtime's CPU provider and on the targets.
func (c *checker) time(ctx context.Context, model string) (string, error) {
	dir, err := c.suite()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "light", model+".onnx")
	var parts []string
	var failed []error
	for _, p := range append([]string{"cpu", "ort:cpu"}, c.providers()...) {
		median, err := measure(ctx, path, p, c.duration)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p, err))
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %.3g ms", p, float64(median.Microseconds())/1000))
	}
	text := strings.Join(parts, ", ")
	if len(failed) > 0 {
		return "", fmt.Errorf("%s; %w", text, errors.Join(failed...))
	}
	return text, nil
}

// measure returns the median time of a run.
func measure(ctx context.Context, path, provider string, limit time.Duration) (time.Duration, error) {
	s, err := onward.Open(ctx, path, &onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: provider}}})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	feed := onward.Values{}
	for _, a := range s.Inputs() {
		shape := make([]int, len(a.Shape))
		for i, d := range a.Shape {
			shape[i] = int(max(d.Value, 1))
		}
		x, err := tensor.Zeros(tensor.TypeFloat32, shape...)
		if err != nil {
			return 0, err
		}
		for i := range tensor.MustData[float32](x) {
			tensor.MustData[float32](x)[i] = float32(math.Mod(float64(i)*0.37, 1))
		}
		feed[a.Name] = x
	}
	const warm = 3 // the first run of TensorRT builds its engine
	for range warm {
		if _, err := s.Run(ctx, feed, nil); err != nil {
			return 0, err
		}
	}
	var times []time.Duration
	for end := time.Now().Add(limit); len(times) < 3 || time.Now().Before(end); {
		start := time.Now()
		if _, err := s.Run(ctx, feed, nil); err != nil {
			return 0, err
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}
