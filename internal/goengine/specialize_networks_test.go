package goengine_test

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestSpecializedNetworks compares specialized plans of random networks with free heights and widths
// with general plans and with reference.
func TestSpecializedNetworks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, x := opfuzz.Network(t)
		if m == nil {
			return
		}
		dims := m.Graph.Inputs[0].Type.Tensor.Shape.Dims
		for i, name := range []string{"h", "w"}[:len(dims)-2] {
			dims[i+2] = onnx.Dim{Kind: onnx.DimParam, Param: name}
		}
		var want onward.Values
		reference := []onward.ProviderConfig{{Name: "reference"}}
		for _, o := range []*onward.SessionOptions{{Providers: reference}, {SpecializedShapes: -1}, {Deterministic: true}} {
			s, err := onward.OpenModel(t.Context(), m, o)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				got, err := s.Run(context.Background(), onward.Values{"x": x}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if want == nil {
					want = got
				}
				for name, v := range got {
					w := want[name].(*tensor.Tensor)
					var most float64
					for _, v := range tensor.Of[float32](w) {
						most = max(most, float64(v), -float64(v))
					}
					if err := tensor.AllClose(v, w, 2e-3, 1e-4*most+1e-6); err != nil {
						t.Fatalf("%+v: output %s: %v", o, name, err)
					}
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
