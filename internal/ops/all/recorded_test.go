package all

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/internal/testing/recorded"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestRecorded replays every recorded case without graphs. TestRecordedModels of
// internal/enginetest/operators replays all of them.
func TestRecorded(t *testing.T) {
	files, err := recorded.Load("testdata/recorded")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		t.Run(file, func(t *testing.T) {
			for i, c := range files[file] {
				if !slices.ContainsFunc(slices.Collect(maps.Values(c.Attrs)),
					func(a recorded.Attr) bool { return a.Graph != nil }) {
					t.Run(fmt.Sprintf("%d_%s", i, c.Op), func(t *testing.T) { replay(t, c) })
				}
			}
		})
	}
}

func replay(t *testing.T, c *recorded.Case) {
	attrs := map[string]any{}
	for name, a := range c.Attrs {
		attrs[name] = a.Value()
		if tp, ok := attrs[name].(*onnx.Type); ok {
			v, err := tp.ValueType()
			if err != nil {
				t.Fatal(err)
			}
			attrs[name] = ir.FromTensorType(v)
		}
	}
	in := make([]tensor.Value, len(c.In))
	for i, v := range c.In {
		in[i] = v.Value()
	}
	got, err := optest.RunN(t, len(c.Out), c.Op, c.Opset, attrs, in...)
	if err != nil {
		t.Fatal(err)
	}
	tol := c.Tol
	if tol == 0 {
		tol = 1e-3
	}
	for i, v := range c.Out {
		if want := v.Value(); want != nil && !optest.Same(got[i], want, tol) {
			t.Errorf("%s-%d %v %v: output %d is %s, want %s by %s: %s", c.Op, c.Opset, attrs, in, i,
				optest.Show(got[i]), optest.Show(want), c.By, c.Note)
		}
	}
}

// TestVersionsAreThoseOfONNX compares the versions of every operator with those of
// ONNX's schemas, in versions.json, which record_versions.py writes.
func TestVersionsAreThoseOfONNX(t *testing.T) {
	b, err := os.ReadFile("testdata/versions.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string][]int
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	known := map[string]string{
		"GroupNormalization":                "version 18 is deprecated",
		"ai.onnx.ml.TreeEnsembleClassifier": "version 5 only deprecates it",
		"ai.onnx.ml.TreeEnsembleRegressor":  "version 5 only deprecates it",
		"SimplifiedLayerNormalization":      "ONNX Runtime's own in the domain of ONNX",
		"ThresholdedRelu":                   "version 1 was experimental",
		"MeanVarianceNormalization":         "version 1 was experimental",
		"LayerNormalization":                "version 1 is ONNX Runtime's own in the domain of ONNX",
	}
	for _, name := range []string{"Affine", "ConstantFill", "Crop", "DynamicSlice", "ImageScaler", "ParametricSoftplus",
		"Scale", "ScaledTanh"} {
		known[name] = "one of those experiments that ONNX removed with opset 10"
	}
	for _, d := range kit.All() {
		name := kit.QualifiedName(d.Domain, d.Name)
		if slices.Contains([]string{kit.DomainMicrosoft, kit.DomainNchwc, kit.DomainInternal}, d.Domain) ||
			known[name] != "" {
			continue
		}
		if !slices.Equal(d.Since.List(), want[name]) {
			t.Errorf("%s has versions %v, in ONNX %v", name, d.Since.List(), want[name])
		}
	}
	for name := range want {
		domain, op := optest.SplitOpName(name)
		if kit.Registered(domain, op) == nil {
			t.Errorf("operator %s of ONNX is not registered", name)
		}
	}
}

func TestModGivesZeroTheSignOfTheDivisor(t *testing.T) {
	got, err := optest.Run(t, "Mod", 28, nil, optest.Tensor([]float32{0, float32(math.Copysign(0, -1)), -6}),
		optest.Tensor([]float32{-3, 3, 3}))
	if err != nil {
		t.Fatal(err)
	}
	for i, neg := range []bool{true, false, false} {
		if v := tensor.MustData[float32](got[0].(*tensor.Tensor))[i]; v != 0 || math.Signbit(float64(v)) != neg {
			t.Errorf("element %d is %v, want a zero of the divisor's sign", i, v)
		}
	}
}
