package goengine

import (
	"context"
	"errors"
	"testing"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// onProcessors compiles a model as on a machine with that many processors.
func onProcessors(t *testing.T, n int, m *onnx.Model, opts *driver.Options) *engine {
	t.Helper()
	was := exec.Processors
	exec.Processors = func() int { return n }
	defer func() { exec.Processors = was }()
	opts.Threads = n
	return freeEngine(t, m, opts, -1)
}

// TestDividedRuns checks into how many parts runs are divided, and that their results are those of
// one thread, in tensors of the caller and in new ones.
func TestDividedRuns(t *testing.T) {
	fixed := func(n int) func() *onnx.Model {
		return func() *onnx.Model {
			m := freeModel()
			for i, d := range []int64{int64(n), 3, 40, 40} {
				m.Graph.Inputs[0].Type.Tensor.Shape.Dims[i] = onnx.Dim{Kind: onnx.DimValue, Value: d}
			}
			return m
		}
	}
	free := func() *onnx.Model { return freeModel() }
	for _, c := range []struct {
		name           string
		model          func() *onnx.Model
		opts           driver.Options
		threads, batch int
		parts          int
	}{
		{name: "teams of two", model: free, threads: 16, batch: 8, parts: 8},
		{name: "two images each", model: free, threads: 12, batch: 8, parts: 4},
		{name: "one thread each", model: free, threads: 8, batch: 16, parts: 8},
		{name: "fixed batch", model: fixed(8), threads: 16, batch: 8, parts: 8},
		{name: "no common divisor", model: free, threads: 8, batch: 7},
		{name: "one image", model: free, threads: 16, batch: 1},
		{name: "few threads", model: free, threads: 4, batch: 8},
		{name: "deterministic", model: free, threads: 16, batch: 8, opts: driver.Options{Deterministic: true}},
		{name: "without passes", model: free, threads: 16, batch: 8, opts: driver.Options{OptimizationLevel: driver.OptimizeNone}},
	} {
		x := imageOf(c.batch, 40, 40)
		one := c.opts
		one.Threads = 1
		_, want, err := freeEngine(t, c.model(), &one, -1).ran(t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		e := onProcessors(t, c.threads, c.model(), &c.opts)
		parts := 0
		exec.Divided = func(n int) { parts = n }
		if err := e.Run(t.Context(), &driver.Request{In: []tensor.Value{x}, Out: make([]tensor.Value, len(want)),
			Options: &driver.RunOptions{}}); err != nil {
			t.Fatal(err)
		}
		if exec.Divided = nil; parts != c.parts && !checkDivision {
			t.Errorf("%s: %d parts, want %d", c.name, parts, c.parts)
		}
		given := make([]tensor.Value, len(want))
		for run := range 5 { // the third one is captured, and later ones replay it
			out := make([]tensor.Value, len(want))
			if run > 0 {
				copy(out, given)
			}
			if err := e.Run(t.Context(), &driver.Request{In: []tensor.Value{x}, Out: out,
				Options: &driver.RunOptions{}}); err != nil {
				t.Fatal(err)
			}
			for i := range out {
				if err := tensor.AllClose(out[i], want[i], 1e-5, 1e-6); err != nil {
					t.Errorf("%s, run %d: output %d: %v", c.name, run, i, err)
				}
				if run > 0 && out[i] != given[i] {
					t.Errorf("%s, run %d: output %d is not the tensor of the caller", c.name, run, i)
				}
				given[i] = out[i]
			}
		}
	}
}

// TestDividedRunsEnd checks that a divided run ends with the error of its context, and that one
// whose parts exceed their part of the memory limit succeeds as a whole.
func TestDividedRunsEnd(t *testing.T) {
	e := onProcessors(t, 16, freeModel(), &driver.Options{})
	x := imageOf(8, 40, 40)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req := &driver.Request{In: []tensor.Value{x}, Out: make([]tensor.Value, 2), Options: &driver.RunOptions{}}
	if err := e.Run(ctx, req); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v", err)
	}
	if err := e.Run(t.Context(), req); err != nil {
		t.Error(err)
	}
	whole := onProcessors(t, 4, freeModel(), &driver.Options{}) // too few threads for a division
	least := int64(1 << 20)
	for ; ; least += least / 16 {
		whole.limit = least
		if err := whole.Run(t.Context(), req); err == nil {
			break
		} else if !errors.Is(err, exec.ErrMemoryLimit) {
			t.Fatal(err)
		}
	}
	if e.limit = least; e.Run(t.Context(), req) != nil {
		t.Errorf("a limit of %d bytes is enough without a division, and not with one", least)
	}
}
