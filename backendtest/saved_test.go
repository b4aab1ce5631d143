//go:build !core

package backendtest_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/backendtest"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/onnx"
	_ "github.com/onward-ml/onward/provider/ort"
)

// The tag core leaves out native providers, so that the tests run in emulators, which have no system loader.

// saved runs the result of [onward.OptimizeModel], written and read again, on an engine without
// passes. ONNX Runtime must open it too if it opens the original.
type saved struct {
	engine backend.Provider
	ort    *onward.SessionOptions // nil: without ONNX Runtime
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

func (b saved) NewSession(ctx context.Context, m *onnx.Model, d backend.Device, opts *onward.SessionOptions) (*onward.Session, error) {
	r, _, err := onward.OptimizeModel(ctx, m, opts)
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
		return nil, fmt.Errorf("the optimized model is invalid: %w", err)
	}
	if b.ort != nil {
		if err := opens(ctx, again, b.ort); err != nil && opens(ctx, m, b.ort) == nil {
			return nil, fmt.Errorf("ONNX Runtime opens the model, but not the optimized one: %w", err)
		}
	}
	plain := onward.SessionOptions{}
	if opts != nil {
		plain = *opts
	}
	plain.OptimizationLevel = onward.OptimizeNone
	return b.engine.NewSession(ctx, again, d, &plain)
}

// savedCases is the number of cases that must pass: all but the two of gradients, whose
// operators have no ONNX form and which are skipped.
var savedCases = map[string]int{"OnnxBackendNodeModelTest": 1765, "OnnxBackendRealModelTest": 9, "OnnxBackendSimpleModelTest": 21,
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
	var ort *onward.SessionOptions
	if lib, err := ortlib.Find(); err == nil {
		ort = &onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{{Name: "ort", Options: map[string]string{"library": lib, "graph_optimization_level": "basic"}}}}
	} else {
		t.Run("ort", func(t *testing.T) { ortlib.Path(t) }) // counts as skipped
	}
	kinds, err := backendtest.Kinds(dir)
	if err != nil {
		t.Fatal(err)
	}
	passed := map[string]int{}
	for _, kind := range kinds {
		b := saved{backend.Reference, ort}
		if kind == "real" {
			b.engine = backend.CPU
		}
		r, err := backendtest.New(b, backendtest.Options{Dir: dir, Kinds: []string{kind}, Devices: []string{"CPU"}, Runs: 1})
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
