// Package seeds tests the session API on every provider: the Go engine and the native libraries
// that this machine has. docs/seeds.md names the tests.
package seeds

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/internal/testing/openvinolib"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/provider/openvino"
	"github.com/onward-ml/onward/provider/ort"
	"github.com/onward-ml/onward/tensor"
)

func onProviders(t *testing.T, test func(t *testing.T, provider string)) {
	for _, p := range []string{"reference", "cpu", "ort", "openvino"} {
		t.Run(p, func(t *testing.T) {
			switch p {
			case "ort":
				t.Setenv(ort.Env, ortlib.Path(t))
			case "openvino":
				t.Setenv(openvino.Env, openvinolib.Path(t))
			}
			test(t, p)
		})
	}
}

func on(provider string) *onward.SessionOptions {
	return &onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: provider}}, Threads: 1}
}

func open(t testing.TB, m *onnx.Model, o *onward.SessionOptions) *onward.Session {
	t.Helper()
	s, err := onward.OpenModel(t.Context(), m, o)
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

func vector(x ...float32) *tensor.Tensor { return tensor.Must(tensor.New(x, len(x))) }

func wantEqual(t testing.TB, got, want tensor.Value) {
	t.Helper()
	must(t, tensor.AllClose(got, want, 1e-5, 1e-6))
}

// scaled is y = x·w + 1 and z = −y, for x of [n,3].
func scaled() *onnx.Model {
	b := onnx.NewModel("scaled").Opset("", 17).IRVersion(8).Producer("seeds", "3").Doc("a model").
		Metadata("author", "somebody")
	b.Input("x", onnx.Float, "n", 3).Output("y", onnx.Float, "n", 3).Output("z", onnx.Float, "n", 3)
	b.Initializer("w", []float32{1, 2, 3}, 3).Initializer("one", []float32{1}, 1)
	b.Node("Mul", []string{"x", "w"}, []string{"xw"})
	b.Node("Add", []string{"xw", "one"}, []string{"y"})
	b.Node("Neg", []string{"y"}, []string{"z"})
	m := b.Must()
	m.Domain, m.ModelVersion = "org.example", 7
	return m
}

func row(x ...float32) *tensor.Tensor { return tensor.Must(tensor.New(x, len(x)/3, 3)) }

// TestDatasets runs the example models of ONNX Runtime's backend page.
func TestDatasets(t *testing.T) {
	onProviders(t, func(t *testing.T, p string) {
		b, opts := backend.Provider(p), &backend.Options{Device: "CPU"}
		for name, c := range map[string]struct{ x, want *tensor.Tensor }{
			"mul_1.onnx":   {tensor.Must(tensor.New([]float32{1, 2, 3, 4, 5, 6}, 3, 2)), tensor.Must(tensor.New([]float32{1, 4, 9, 16, 25, 36}, 3, 2))},
			"sigmoid.onnx": {tensor.Must(tensor.Zeros(tensor.TypeFloat32, 3, 4, 5)), nil},
		} {
			data, err := datasets.Get(name)
			must(t, err)
			r, err := backend.Prepare(t.Context(), data, b, opts)
			must(t, err)
			out, err := r.Run(t.Context(), backend.One(c.x), nil)
			must(t, err, r.Close())
			if c.want != nil {
				wantEqual(t, out.Tensor(0), c.want)
			} else if y := tensor.MustData[float32](out.Tensor(0)); len(y) != 60 || y[59] != 0.5 {
				t.Errorf("sigmoid: %v", y)
			}
		}
		data, err := datasets.Get("logreg_iris.onnx")
		must(t, err)
		r, err := backend.Prepare(t.Context(), data, b, opts)
		if p == "openvino" {
			if !errors.Is(err, backend.ErrSkip) || !errors.Is(err, onward.ErrNotImplemented) {
				t.Errorf("a model with maps: %v", err)
			}
			return
		}
		must(t, err)
		defer r.Close()
		out, err := r.Run(t.Context(), backend.One(tensor.Must(tensor.New([]float32{1, 2, 3, 4, 5, 6}, 3, 2))), nil)
		must(t, err)
		rows, err := tensor.Maps[int64, float32](out.Values[1])
		must(t, err)
		if labels := tensor.MustData[int64](out.Tensor(0)); !slices.Equal(labels, []int64{0, 0, 0}) || len(rows) != 3 ||
			rows[1][0] < 0.9 {
			t.Errorf("labels %v, probabilities %v", labels, rows)
		}
		// The error of the page, word for word.
		_, err = r.Run(t.Context(), backend.One(tensor.Must(tensor.New([]float32{1, 2}, 1, 2))), nil)
		want := "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for input: float_input for the " +
			"following indices\n" +
			" index: 0 Got: 1 Expected: 3\n Please fix either the inputs or the model."
		if !errors.Is(err, onward.ErrInvalidArgument) || err.Error() != want {
			t.Errorf("wrong dimensions: %v, want %s", err, want)
		}
	})
}

// TestSessionDescribes opens a file and bytes, and reads the metadata of the session.
func TestSessionDescribes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.onnx")
	must(t, onnx.WriteFile(path, scaled(), nil))
	data, err := os.ReadFile(path)
	must(t, err)
	onProviders(t, func(t *testing.T, p string) {
		ofFile, err := onward.Open(t.Context(), path, on(p))
		must(t, err)
		defer ofFile.Close()
		ofBytes, err := onward.OpenBytes(t.Context(), data, on(p))
		must(t, err)
		defer ofBytes.Close()
		for _, s := range []*onward.Session{ofFile, ofBytes} {
			if in, out := s.Inputs(), s.Outputs(); len(in) != 1 || in[0].String() != "x: tensor(float)[n,3]" ||
				in[0].Type != "tensor(float)" || len(out) != 2 || out[1].Name != "z" {
				t.Errorf("inputs %v, outputs %v", in, out)
			}
			md := s.Metadata()
			if md.ProducerName != "seeds" || md.GraphName != "scaled" || md.Domain != "org.example" ||
				md.Version != 7 || md.Description != "a model" || md.Custom["author"] != "somebody" {
				t.Errorf("metadata %+v", md)
			}
			if s.Provider() != p || !slices.Equal(s.Providers(), []string{p}) || s.ProviderOptions()[p] == nil ||
				s.Options().Threads != 1 {
				t.Errorf("provider %s, %v, %v", s.Provider(), s.Providers(), s.ProviderOptions())
			}
			out, err := s.Run(t.Context(), onward.Values{"x": row(1, 1, 1)}, nil)
			must(t, err)
			wantEqual(t, out["y"], row(2, 3, 4))
		}
		must(t, ofFile.SetProviders(t.Context(), []onward.ProviderConfig{{Name: "reference"}}))
		if ofFile.Provider() != "reference" {
			t.Errorf("after SetProviders the provider is %s", ofFile.Provider())
		}
	})
}

// TestErrorsOfARun compares the texts with ONNX Runtime's.
func TestErrorsOfARun(t *testing.T) {
	onProviders(t, func(t *testing.T, p string) {
		s := open(t, scaled(), on(p))
		x := row(1, 1, 1)
		for _, c := range []struct {
			feed    onward.Values
			outputs []string
			want    string
		}{
			{onward.Values{}, nil, "Required inputs (['x']) are missing from input feed ([])."},
			{onward.Values{"x": vector(1, 2, 3)}, nil, "Invalid rank for input: x Got: 1 Expected: 2 Please fix either the inputs/outputs or the model."},
			{onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2}, 1, 2))}, nil, "Got invalid dimensions for input: x for the following indices\n index: 1 Got: 2 Expected: 3"},
			{onward.Values{"x": tensor.Must(tensor.New([]float64{1, 2, 3}, 1, 3))}, nil, "Unexpected input data type. Actual: (tensor(double)) , expected: (tensor(float))"},
			{onward.Values{"x": x, "q": x}, nil, "Invalid input name: q"},
			{onward.Values{"x": x}, []string{"q"}, "Invalid output name:q"},
			{onward.Values{"x": x}, []string{}, "At least one output should be requested."},
		} {
			_, err := s.Run(t.Context(), c.feed, &onward.RunOptions{Outputs: c.outputs})
			if !errors.Is(err, onward.ErrInvalidArgument) ||
				!strings.HasPrefix(err.Error(), "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : "+c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		}
		out, err := s.Run(t.Context(), onward.Values{"x": x},
			&onward.RunOptions{Outputs: []string{"z"}, Tag: "run", OnlyPathToFetches: true})
		must(t, err)
		if len(out) != 1 {
			t.Errorf("outputs %v", out)
		}
		wantEqual(t, out["z"], row(-2, -3, -4))
		_, err = onward.Open(t.Context(), filepath.Join(t.TempDir(), "none.onnx"), on(p))
		_, err2 := onward.OpenBytes(t.Context(), []byte{0xff, 0xff}, on(p))
		if !errors.Is(err, onward.ErrNoSuchFile) || !errors.Is(err2, onward.ErrInvalidProtobuf) {
			t.Errorf("no file: %v; no model: %v", err, err2)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // the terminate flag of RunOptions
		if _, err := s.Run(ctx, onward.Values{"x": x}, nil); !errors.Is(err, context.Canceled) ||
			!errors.Is(err, onward.ErrFail) {
			t.Errorf("terminated: %v", err)
		}
	})
}

// TestRunForms runs asynchronously and with OrtValues.
func TestRunForms(t *testing.T) {
	onProviders(t, func(t *testing.T, p string) {
		s := open(t, scaled(), on(p))
		type result struct {
			out onward.Values
			err error
		}
		done := make(chan result, 1)
		s.RunAsync(t.Context(), onward.Values{"x": row(1, 1, 1)}, nil, func(out onward.Values, err error) {
			done <- result{out, err}
		})
		r := <-done
		must(t, r.err)
		wantEqual(t, r.out["y"], row(2, 3, 4))
		list, err := s.RunList(t.Context(), []tensor.Value{row(0, 0, 0)}, nil)
		must(t, err)
		wantEqual(t, list[1], row(-1, -1, -1))

		x, err := onward.NewOrtValue(row(2, 2, 2))
		must(t, err)
		out, err := s.RunWithOrtValues(t.Context(), map[string]*onward.OrtValue{"x": x}, nil)
		must(t, err)
		y := out["y"]
		if y.DataType() != "tensor(float)" || !y.IsTensor() || !y.HasValue() || y.IsSparseTensor() ||
			y.DeviceName() != "cpu" || !slices.Equal(y.Shape(), []int{1, 3}) {
			t.Errorf("%s", y)
		}
		v, err := y.Tensor()
		must(t, err)
		wantEqual(t, v, row(3, 5, 7))
		must(t, x.UpdateInPlace(row(0, 0, 0)))
		if out, err = s.RunWithOrtValues(t.Context(), map[string]*onward.OrtValue{"x": x}, nil); err == nil {
			v, err = out["y"].Tensor()
		}
		must(t, err)
		wantEqual(t, v, row(1, 1, 1))
	})
}

// TestBindingScenarios runs the three scenarios of ONNX Runtime's API summary, with the CPU as
// the device: the input from the CPU, the input on the device, input and output on the device.
func TestBindingScenarios(t *testing.T) {
	onProviders(t, func(t *testing.T, p string) {
		s := open(t, scaled(), on(p))
		b, err := s.NewBinding()
		must(t, err)
		defer b.Close()
		first := func() tensor.Value {
			must(t, b.SynchronizeInputs(), s.RunBinding(t.Context(), b, nil), b.SynchronizeOutputs())
			out, err := b.CopyOutputsToCPU()
			must(t, err)
			return out[0]
		}
		x := []float32{1, 1, 1}
		must(t, b.BindCPUInput("x", row(x...)), b.BindOutput("y", onward.Buffer{}))
		wantEqual(t, first(), row(2, 3, 4))

		device := onward.Buffer{Device: onward.Device{Type: "cpu"}, Type: tensor.TypeFloat32, Shape: []int{1, 3},
			Pointer: unsafe.Pointer(&x[0])}
		must(t, b.ClearInputs(), b.ClearOutputs(), b.BindInput("x", device), b.BindOutput("y", onward.Buffer{}))
		x[2] = 2
		wantEqual(t, first(), row(2, 3, 7))

		y := make([]float32, 3)
		result := device
		result.Pointer = unsafe.Pointer(&y[0])
		must(t, b.ClearOutputs(), b.BindOutput("y", result))
		wantEqual(t, first(), row(2, 3, 7))
		wantEqual(t, row(y...), row(2, 3, 7))
		values, err := b.Outputs()
		must(t, err)
		if len(values) != 1 || values[0].Pointer() != unsafe.Pointer(&y[0]) {
			t.Errorf("outputs %v", values)
		}
		result.Shape = nil
		if err := b.BindOutput("y", result); !errors.Is(err, onward.ErrInvalidArgument) {
			t.Errorf("a buffer without a shape: %v", err)
		}
		if err := b.BindOutput("y", onward.Buffer{Device: onward.Device{Type: "tpu"}}); !errors.Is(err,
			onward.ErrInvalidArgument) ||
			!strings.Contains(err.Error(), "Unsupported device type: tpu") {
			t.Errorf("an unknown device: %v", err)
		}
	})
}

// TestSessionOptions sets options with an effect that can be seen on every provider.
func TestSessionOptions(t *testing.T) {
	onProviders(t, func(t *testing.T, p string) {
		o := on(p)
		o.FreeDimensions = map[string]int64{"n": 2}
		o.Initializers = onward.Values{"w": vector(0, 0, 5)}
		o.LogID, o.Deterministic, o.DisableMemoryPattern, o.DisableMemoryArena = "seeds", true, true, true
		o.OptimizationLevel, o.ExecutionMode, o.InterOpThreads = onward.OptimizeBasic, onward.ExecutionSequential, 1
		o.Config = map[string]string{"session.intra_op.allow_spinning": "0"}
		s := open(t, scaled(), o)
		if in := s.Inputs(); in[0].String() != "x: tensor(float)[2,3]" {
			t.Errorf("with a free dimension of 2: %v", in)
		}
		out, err := s.Run(t.Context(), onward.Values{"x": row(1, 1, 1, 2, 2, 2)}, nil)
		must(t, err)
		wantEqual(t, out["y"], row(1, 1, 6, 1, 1, 11))
	})
}

// TestVerboseLog logs runs in detail: records of nodes where the provider reports them.
func TestVerboseLog(t *testing.T) {
	onProviders(t, func(t *testing.T, p string) {
		var log bytes.Buffer
		o := on(p)
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.LogSeverity, o.LogVerbosity, o.LogID = onward.LogVerbose, 1, "seeds"
		s := open(t, scaled(), o)
		out, err := s.Run(t.Context(), onward.Values{"x": row(1, 1, 1)}, &onward.RunOptions{Tag: "first"})
		must(t, err, s.Close())
		wantEqual(t, out["y"], row(2, 3, 4))
		nodes := strings.Count(log.String(), "msg=node")
		if own := p == "cpu" || p == "reference"; own != (nodes > 0) ||
			!strings.Contains(log.String(), "session=seeds") || !strings.Contains(log.String(), "run=first") {
			t.Errorf("%d nodes in\n%s", nodes, &log)
		}
	})
}

// TestProfileFile reads the profile of a session: trace events with the nodes of both runs.
func TestProfileFile(t *testing.T) {
	onProviders(t, func(t *testing.T, p string) {
		o := on(p)
		o.EnableProfiling, o.ProfilePrefix = true, filepath.Join(t.TempDir(), "p")
		s := open(t, scaled(), o)
		for range 2 {
			_, err := s.Run(t.Context(), onward.Values{"x": row(1, 1, 1)}, nil)
			must(t, err)
		}
		if at, err := s.ProfilingStart(); err != nil || at <= 0 {
			t.Errorf("profiling began at %d, %v", at, err)
		}
		name, err := s.EndProfiling()
		must(t, err)
		data, err := os.ReadFile(name)
		must(t, err)
		var events []struct{ Cat, Name string }
		must(t, json.Unmarshal(data, &events))
		count := map[string]int{}
		for _, e := range events {
			count[e.Cat]++
			count[e.Name]++
		}
		if !strings.HasPrefix(name, o.ProfilePrefix) || count["Node"] < 2 || count["model_run"] != 2 {
			t.Errorf("%s has %v", name, count)
		}
	})
}
