package ort_test

import (
	"context"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestRandomNetworksAgree runs random convolutional networks on reference, cpu and
// ONNX Runtime with its own optimizer: fusions and layouts of either side must not
// change what a chain of operators gives.
func TestRandomNetworksAgree(t *testing.T) {
	ort := config(t)
	opfuzz.Reproducible(t, "500")
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		m, x := opfuzz.Network(t)
		if m == nil {
			return
		}
		feed := onward.Values{"x": x}
		run := func(p onward.ProviderConfig) onward.Values {
			s, err := onward.OpenModel(t.Context(), m,
				&onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{p}})
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			defer s.Close()
			out, err := s.Run(context.Background(), feed, nil)
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			return out
		}
		want := run(ort)
		for _, engine := range []string{"reference", "cpu"} {
			got := run(onward.ProviderConfig{Name: engine})
			if len(got) != len(want) {
				t.Fatalf("%s has %d outputs, ONNX Runtime %d", engine, len(got), len(want))
			}
			for name, w := range want {
				var most float64 // the error of float32 sums is relative to the largest element
				for _, v := range tensor.MustData[float32](w.(*tensor.Tensor)) {
					most = max(most, float64(v), -float64(v))
				}
				if err := tensor.AllClose(got[name], w, 2e-3, 1e-4*most+1e-6); err != nil {
					t.Fatalf("%s against ONNX Runtime: output %s: %v", engine, name, err)
				}
			}
		}
		compared++
	})
	if compared == 0 {
		t.Error("no network was compared")
	}
	t.Logf("%d networks compared", compared)
}

// TestOptimizedNetworksAgree runs random networks in the form in which ONNX Runtime's
// optimizer saves them, with its own operators for blocked layouts, on reference and
// cpu.
func TestOptimizedNetworksAgree(t *testing.T) {
	ort := config(t)
	opfuzz.Reproducible(t, "100")
	file := filepath.Join(t.TempDir(), "optimized.onnx")
	blocked := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		m, x := opfuzz.Network(t)
		if m == nil {
			return
		}
		feed := onward.Values{"x": x}
		s, err := onward.OpenModel(t.Context(), m,
			&onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{ort}, OptimizedModelPath: file})
		if err != nil {
			t.Fatal(err)
		}
		want, err := s.Run(context.Background(), feed, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		saved, err := onnx.ReadFile(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range saved.Graph.Nodes {
			if n.Domain == kit.DomainNchwc {
				blocked[n.OpType]++
			}
		}
		for _, engine := range []string{"reference", "cpu"} {
			s, err := onward.OpenModel(t.Context(), saved,
				&onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{{Name: engine}}})
			if err != nil {
				t.Fatalf("%s: %v", engine, err)
			}
			got, err := s.Run(context.Background(), feed, nil)
			if err != nil {
				t.Fatalf("%s: %v", engine, err)
			}
			s.Close()
			for name, w := range want {
				var most float64
				for _, v := range tensor.MustData[float32](w.(*tensor.Tensor)) {
					most = max(most, float64(v), -float64(v))
				}
				if err := tensor.AllClose(got[name], w, 2e-3, 1e-4*most+1e-6); err != nil {
					t.Fatalf("%s on what ONNX Runtime saved: output %s: %v", engine, name, err)
				}
			}
		}
	})
	t.Logf("blocked operators: %v", blocked)
	for _, op := range []string{"Conv", "ReorderInput", "ReorderOutput"} {
		if blocked[op] == 0 {
			t.Errorf("no network had %s in blocks", op)
		}
	}
}
