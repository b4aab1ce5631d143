//go:build !core

package backendtest_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/backendtest"
	"github.com/onward-ml/onward/calibration"
	"github.com/onward-ml/onward/internal/opset"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/onnx"
	_ "github.com/onward-ml/onward/provider/ort"
)

// The tag core leaves out native providers, so that the tests run in emulators, which
// have no system loader.

// saved runs what a writer makes of a model, written and read again, on an engine without passes.
// ONNX Runtime must open it too if it opens the original.
type saved struct {
	write  writer
	engine backend.Provider
	ort    *onward.SessionOptions // nil: without ONNX Runtime
}

// writer changes a model, but not its results.
type writer func(ctx context.Context, m *onnx.Model, opts *onward.SessionOptions) (*onnx.Model, error)

func optimized(ctx context.Context, m *onnx.Model, opts *onward.SessionOptions) (*onnx.Model, error) {
	r, _, err := onward.OptimizeModel(ctx, m, opts)
	return r, err
}

// writers has the writers of onward optimize, quantize and edit. The models of nodes have no
// weights to quantize.
var writers = map[string]writer{
	"optimize": optimized,
	"quantize": func(_ context.Context, m *onnx.Model, _ *onward.SessionOptions) (*onnx.Model, error) {
		return calibration.QuantizeDynamic(m, nil)
	},
	"convert": func(_ context.Context, m *onnx.Model, _ *onward.SessionOptions) (*onnx.Model, error) {
		v, _ := m.OpsetVersion("")
		return opset.Convert(m, max(v, 21)) // ONNX Runtime does not load the newest opset
	},
}

func (saved) Name() string                          { return "saved" }
func (saved) SupportsDevice(d backend.Device) error { return backend.Reference.SupportsDevice(d) }

// opens returns the error of opening a model.
func opens(ctx context.Context, m *onnx.Model, opts *onward.SessionOptions) error {
	s, err := onward.OpenModel(ctx, m, opts)
	if err == nil {
		err = s.Close()
	}
	return err
}

func (b saved) NewSession(ctx context.Context, m *onnx.Model, d backend.Device,
	opts *onward.SessionOptions) (*onward.Session, error) {
	r, err := b.write(ctx, m, opts)
	if err != nil {
		return nil, err
	}
	data, err := r.Marshal()
	if err != nil {
		return nil, err
	}
	again, err := onnx.Unmarshal(data, nil)
	if err != nil {
		return nil, err
	}
	if err := onnx.Check(again, &onnx.CheckOptions{Schema: onward.OperatorSchema}); err != nil {
		return nil, fmt.Errorf("the written model is invalid: %w", err)
	}
	if b.ort != nil {
		if err := opens(ctx, again, b.ort); err != nil && opens(ctx, m, b.ort) == nil {
			return nil, fmt.Errorf("ONNX Runtime opens the model, but not the written one: %w", err)
		}
	}
	plain := onward.SessionOptions{}
	if opts != nil {
		plain = *opts
	}
	plain.OptimizationLevel = onward.OptimizeNone
	return b.engine.NewSession(ctx, again, d, &plain)
}

// onORT returns the options of a session on ONNX Runtime. It returns nil and counts a skipped test
// if its library is not on this machine.
func onORT(t *testing.T) *onward.SessionOptions {
	lib, err := ortlib.Find()
	if err != nil {
		t.Run("ort", func(t *testing.T) { ortlib.Path(t) })
		return nil
	}
	return &onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{
		{Name: "ort", Options: map[string]string{"library": lib, "graph_optimization_level": "basic"}}}}
}

// savedCases is the number of cases that must pass: all but the two of gradients, whose
// operators have no ONNX form and which are skipped.
var savedCases = map[string]int{"OnnxBackendNodeModelTest": 1765, "OnnxBackendRealModelTest": 9,
	"OnnxBackendSimpleModelTest":           21,
	"OnnxBackendPyTorchConvertedModelTest": 82, "OnnxBackendPyTorchOperatorModelTest": 35}

// This test checks that every model of the suite can be optimized and saved, and keeps its
// results. The light models, which take a minute on the reference engine, run on cpu.
func TestSuiteSaved(t *testing.T) {
	dir := suite.Dir(t)
	found, err := suite.Find()
	if err != nil {
		t.Fatal(err)
	}
	cases := os.Getenv("ONWARD_CASES")
	whole := cases == "" && suite.Verify(found.Dir) == nil
	ort := onORT(t)
	kinds, err := backendtest.Kinds(dir)
	if err != nil {
		t.Fatal(err)
	}
	passed := map[string]int{}
	for _, kind := range kinds {
		b := saved{optimized, backend.Reference, ort}
		if kind == "real" {
			b.engine = backend.CPU
		}
		r, err := backendtest.New(b,
			&backendtest.Options{Dir: dir, Kinds: []string{kind}, Devices: []string{"CPU"}, Runs: 1})
		if err != nil {
			t.Fatal(err)
		}
		if cases != "" {
			r.Include(cases)
		}
		for category, c := range r.Run(t) {
			passed[category] += c.Passed
		}
	}
	for category, n := range savedCases {
		if whole && passed[category] < n {
			t.Errorf("%s: %d passed, want at least %d", category, passed[category], n)
		}
	}
}

// This test checks that the node models of the suite keep their results if they are written with
// some of their outputs only, for each writer and subset. ONNX Runtime must run the written model
// too if it runs the original.
func TestSuiteSavedOutputs(t *testing.T) {
	for name, w := range writers {
		t.Run(name, func(t *testing.T) { savedOutputs(t, w) })
	}
}

func savedOutputs(t *testing.T, w writer) {
	cases, err := backendtest.LoadModelTests(suite.Dir(t), "node")
	if err != nil {
		t.Fatal(err)
	}
	ort := onORT(t)
	r, err := backendtest.New(saved{w, backend.Reference, ort}, &backendtest.Options{Devices: []string{"CPU"}, Runs: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if _, random := backendtest.RandomChecks[c.Name]; random {
			continue
		}
		m, sets, err := c.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, fed, err := c.Load(t.Context()) // BatchNormalization of ONNX Runtime overwrites its inputs
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w(t.Context(), m, nil); err != nil {
			continue // such as an opset that has no quantized operators
		}
		for subset := 1; subset < 1<<len(m.Graph.Outputs)-1; subset++ {
			g, data := *m.Graph, slices.Clone(sets)
			g.Outputs = chosen(g.Outputs, subset)
			for i := range data {
				data[i].Outputs = chosen(data[i].Outputs, subset)
			}
			part := *m
			part.Graph = &g
			sub := backendtest.TestCase{
				Name: fmt.Sprintf("%s_outputs_%b", c.Name, subset), Kind: "node", Model: &part, DataSets: data, Rtol: c.Rtol, Atol: c.Atol}
			if err := r.Add(sub); err != nil {
				t.Fatal(err)
			}
			if ort == nil || runs(t.Context(), &part, ort, fed[0]) != nil {
				continue
			}
			written, err := w(t.Context(), &part, nil)
			if err == nil {
				err = runs(t.Context(), written, ort, fed[0])
			}
			if err != nil {
				t.Errorf("%s: ONNX Runtime runs the model, but not the written one: %v", sub.Name, err)
			}
		}
	}
	for _, c := range r.Run(t) {
		if c.Passed < 1000 {
			t.Errorf("%s, want at least 1000 passed", c)
		}
	}
}

// runs returns the error of opening a model and running it once.
func runs(ctx context.Context, m *onnx.Model, opts *onward.SessionOptions, data backendtest.DataSet) error {
	s, err := onward.OpenModel(ctx, m, opts)
	if err != nil {
		return err
	}
	defer s.Close()
	feed := onward.Values{}
	for i, x := range data.Inputs {
		if x != nil {
			feed[m.Graph.Inputs[i].Name] = x
		}
	}
	_, err = s.Run(ctx, feed, nil)
	return err
}

// chosen returns the elements of list whose bits are set.
func chosen[T any](list []T, bits int) (r []T) {
	for i, x := range list {
		if bits>>i&1 != 0 {
			r = append(r, x)
		}
	}
	return r
}
