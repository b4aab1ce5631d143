package goengine_test

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestSpecializedNetworks compares specialized plans of random networks with free heights and
// widths with general plans and with reference.
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
		rounding := map[string]float64{} // largest differences of the unoptimized engine
		plain := onward.SessionOptions{OptimizationLevel: onward.OptimizeNone, SpecializedShapes: -1}
		reference := onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: "reference"}}}
		for _, o := range []*onward.SessionOptions{&reference, &plain, {SpecializedShapes: -1}, {Deterministic: true}} {
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
					var most, diff float64
					for i, v := range tensor.MustData[float32](v.(*tensor.Tensor)) {
						w := tensor.MustData[float32](w)[i]
						most = max(most, math.Abs(float64(w)))
						if d := math.Abs(float64(v - w)); d > diff {
							diff = d
						}
					}
					// Activations such as Tanh reduce large values, but not their errors.
					atol := max(1e-4*most+1e-6, 8*rounding[name])
					if o == &plain {
						rounding[name], atol = diff, 1e-3*most+1e-6
					}
					if err := tensor.AllClose(v, w, 2e-3, atol); err != nil {
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

// TestSpecializedMappedWeights compiles specialized plans from mapped weights.
func TestSpecializedMappedWeights(t *testing.T) {
	const c = 64
	w := make([]float32, c*c*9)
	for i := range w {
		w[i] = float32(i%37)/64 - 0.3
	}
	b := onnx.NewModel("mapped").Opset("", 17)
	b.Input("x", onnx.Float, 1, c, "h", "w").Output("y", onnx.Float, nil, nil, nil, nil)
	b.Initializer("w", w, c, c, 3, 3)
	b.Node("Conv", []string{"x", "w"}, []string{"y"})
	file := filepath.Join(t.TempDir(), "mapped.onnx")
	if err := onnx.WriteFile(file, b.Must(), nil); err != nil {
		t.Fatal(err)
	}
	var want [2]*tensor.Tensor
	for _, mapped := range []bool{false, true} {
		s, err := onward.Open(t.Context(), file, &onward.SessionOptions{MapWeights: mapped, Deterministic: true})
		if err != nil {
			t.Fatal(err)
		}
		for k, size := range []int{12, 23} {
			x := tensor.Must(tensor.New(w[:c*size*size], 1, c, size, size))
			plan := ""
			o := &onward.RunOptions{Observe: func(n onward.NodeRun) { plan = n.Plan }}
			r, err := s.Run(t.Context(), onward.Values{"x": x}, o)
			if err != nil {
				t.Fatal(err)
			}
			if plan == "general" || plan == "" {
				t.Errorf("mapped %t: the run used the plan %q, want a specialized one", mapped, plan)
			}
			if want[k] == nil {
				want[k] = r["y"].(*tensor.Tensor)
			}
			if err := tensor.AllClose(r["y"], want[k], 0, 0); err != nil {
				t.Errorf("mapped %t, size %d: %v", mapped, size, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
