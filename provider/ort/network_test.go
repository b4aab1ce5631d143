package ort_test

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/calls"
	"github.com/onward-ml/onward/tensor"
)

// TestRandomNetworksAgree runs random convolutional networks on reference, cpu and
// ONNX Runtime with its own optimizer: fusions and layouts of either side must not
// change what a chain of operators gives.
func TestRandomNetworksAgree(t *testing.T) {
	ort := config(t)
	calls.Repeat(t, "500")
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		m, x := calls.Network(t)
		if m == nil {
			return
		}
		feed := onward.Values{"x": x}
		run := func(p onward.ProviderConfig) onward.Values {
			s, err := onward.OpenModel(m, &onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{p}})
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
				var most float64 // sums of float32 differ by a part of the largest element
				for _, v := range tensor.Of[float32](w.(*tensor.Tensor)) {
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
