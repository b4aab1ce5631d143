package passes

import (
	"context"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// allBut returns the names of all passes but one.
func allBut(name string) (r []string) {
	for _, p := range onward.OptimizationPasses() {
		if p.Name != name {
			r = append(r, p.Name)
		}
	}
	return r
}

// This test checks that every pass preserves the results if it runs alone: without earlier
// passes, which produce the form that it expects, and without later dead-code elimination.
func TestEachPassAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, x := opfuzz.Network(t)
		if m == nil {
			return
		}
		passAlone(t, m, onward.Values{"x": x}, 1)
	})
	rapid.Check(t, func(t *rapid.T) {
		e := encoder{rng: rand.New(rand.NewPCG(2, rapid.Uint64().Draw(t, "seed"))), heads: rapid.IntRange(1, 3).
			Draw(t, "heads"), size: rapid.IntRange(1, 9).Draw(t, "size"),
			modern: rapid.Bool().Draw(t, "modern"), tanh: rapid.Bool().Draw(t, "tanh"), scaleQ: rapid.Bool().Draw(t, "scaleQ")}
		opset := int64(17)
		if e.modern {
			opset = 20
		}
		m := encoderModel(e, opset)
		// LayerNormalization of few numbers that are nearly equal magnifies errors
		passAlone(t, m, onward.Values{"x": enginetest.Normal(e.rng, 2, rapid.IntRange(1, 9).Draw(t, "length"),
			e.heads*e.size)}, 30)
	})
	for _, c := range smallModels(t) {
		if c.name != "quantized" { // alone, fold-quantized and fuse-quantized round differently
			passAlone(t, c.m, c.feed, 1)
		}
	}
}

func passAlone(t interface {
	Fatalf(string, ...any)
}, m *onnx.Model, feed onward.Values, loose float64) {
	run := func(what string, o *onward.SessionOptions) onward.Values {
		s, err := onward.OpenModel(context.Background(), m, o)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		defer s.Close()
		out, err := s.Run(context.Background(), feed, nil)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return out
	}
	want := run("reference", enginetest.On("reference"))
	for _, p := range onward.OptimizationPasses() {
		got := run(p.Name, &onward.SessionOptions{DisabledPasses: allBut(p.Name)})
		for name, w := range want {
			tol := 2e-3
			if x, ok := w.(*tensor.Tensor); ok && x.DType() == tensor.TypeFloat32 {
				tol = loose * enginetest.Tolerance(x)
			}
			if err := tensor.AllClose(got[name], w, 2e-3, tol); err != nil {
				t.Fatalf("pass %s alone: output %s: %v", p.Name, name, err)
			}
		}
	}
}
