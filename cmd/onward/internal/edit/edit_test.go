package edit

import (
	"path/filepath"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backendtest"
	"github.com/onward-ml/onward/cmd/onward/internal/inputs"
	"github.com/onward-ml/onward/cmd/onward/internal/layers"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/onnx"
)

// TestExtractOutputs checks that the node models of the suite keep their results if some of their
// outputs are extracted, for each subset. The models are written and read again.
func TestExtractOutputs(t *testing.T) {
	cases, err := backendtest.LoadModelTests(suite.Dir(t), "node")
	if err != nil {
		t.Fatal(err)
	}
	extracted := 0
	for _, c := range cases {
		if _, random := backendtest.RandomChecks[c.Name]; random {
			continue
		}
		m, err := onnx.ReadFile(filepath.Join(c.ModelDir, "model.onnx"), nil)
		if err != nil {
			t.Fatal(err)
		}
		for subset := 1; subset < 1<<len(m.Graph.Outputs)-1; subset++ {
			var names []string
			for i, v := range m.Graph.Outputs {
				if subset>>i&1 != 0 {
					names = append(names, v.Name)
				}
			}
			if err := extract(t, m, names, filepath.Join(c.ModelDir, "test_data_set_0")); err != nil {
				t.Errorf("%s, outputs %q: %v", c.Name, names, err)
			}
			extracted++
		}
	}
	if extracted < 1000 {
		t.Errorf("%d models are extracted, want at least 1000", extracted)
	}
}

// extract compares the named outputs with those of the whole model.
func extract(t *testing.T, m *onnx.Model, names []string, data string) error {
	d, err := onward.Describe(m)
	if err != nil {
		return err
	}
	feed, err := inputs.ReadFolder(data, d.Inputs)
	if err != nil {
		return err
	}
	part, err := Extract(m, nil, names)
	if err != nil {
		return err
	}
	written, err := part.Marshal()
	if err != nil {
		return err
	}
	if part, err = onnx.Unmarshal(written, nil); err != nil {
		return err
	}
	if err := onnx.Check(part, &onnx.CheckOptions{Schema: onward.OperatorSchema}); err != nil {
		return err
	}
	all, err := Verify(t.Context(), m, part, nil, feed, layers.Tolerance{Rtol: 1e-5, Atol: 1e-7})
	if err != nil {
		return err
	}
	if len(all) != len(names) {
		t.Errorf("%s: %d outputs, want %q", data, len(all), names)
	}
	for i, x := range all {
		if x.Name != names[i] || !x.Agree {
			t.Errorf("%s: output %q of %q: %+v", data, x.Name, names, x.Difference)
		}
	}
	return nil
}
