package backendtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// lightURL is the prefix of the URL of a model that is part of the suite. These light models
// have the architectures of well-known image classifiers and constant weights, so that the files
// are small.
const lightURL = "onnx/backend/test/data/"

// lightPath returns the file of a light model, or an empty string for other cases.
func (c *TestCase) lightPath() string {
	rel, ok := strings.CutPrefix(c.URL, lightURL)
	if !ok || c.root == "" || !filepath.IsLocal(filepath.FromSlash(rel)) {
		return ""
	}
	return filepath.Join(c.root, filepath.FromSlash(rel))
}

// lightData returns the data set of a light model: inputs by countingInput, and the outputs in
// the files beside the model. Outputs is nil if there is no such file.
func lightData(path string, g *onnx.Graph) (DataSet, error) {
	initialized := map[string]bool{}
	for _, t := range g.Initializers {
		initialized[t.Name] = true
	}
	var s DataSet
	for _, in := range g.Inputs {
		if initialized[in.Name] {
			s.Inputs = append(s.Inputs, nil)
			continue
		}
		t, err := countingInput(in)
		if err != nil {
			return s, err
		}
		s.Inputs = append(s.Inputs, t)
	}
	base := strings.TrimSuffix(path, filepath.Ext(path))
	for i, out := range g.Outputs {
		v, err := readValue(fmt.Sprintf("%s_output_%d.pb", base, i), out.Type)
		if i == 0 && errors.Is(err, fs.ErrNotExist) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		s.Outputs = append(s.Outputs, v)
	}
	return s, nil
}

// oracle returns the provider whose results replace missing expected outputs: reference, and cpu
// for reference itself.
func oracle(b backend.Backend) backend.Provider {
	if b.Name() == backend.Reference.Name() {
		return backend.CPU
	}
	return backend.Reference
}

// expect computes the outputs of data sets that have none.
func expect(ctx context.Context, by backend.Provider, m *onnx.Model, sets []DataSet) error {
	rep, err := backend.Prepare(ctx, m, by, nil)
	if err != nil {
		return err
	}
	defer rep.Close()
	for i, s := range sets {
		feed, err := named(m.Graph, s.Inputs)
		if err != nil {
			return err
		}
		out, err := rep.Run(ctx, feed, nil)
		if err != nil {
			return err
		}
		sets[i].Outputs = out.Values
	}
	return nil
}

// maxCounting is the largest number of elements of a generated input.
const maxCounting = 1 << 28

// countingInput returns a tensor of the declared shape whose element i of n is i/n, rounded to
// float32. Unknown dimensions are 1.
func countingInput(v *onnx.ValueInfo) (*tensor.Tensor, error) {
	if v.Type == nil || v.Type.Tensor == nil || v.Type.Tensor.ElemType != onnx.Float || v.Type.Tensor.Shape == nil {
		return nil, fmt.Errorf("input %q must be a float tensor of known rank, to generate values for it", v.Name)
	}
	var shape []int
	for _, d := range v.Type.Tensor.Shape.Dims {
		n := int64(1)
		if d.Kind == onnx.DimValue {
			n = d.Value
		}
		if n < 0 || n > maxCounting {
			return nil, fmt.Errorf("input %q: dimension %d is not in the range 0 to %d", v.Name, n, maxCounting)
		}
		shape = append(shape, int(n))
	}
	n, err := tensor.Elements(shape)
	if err != nil || n > maxCounting {
		return nil, fmt.Errorf("input %q: shape %v is too large", v.Name, shape)
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(float64(i) / float64(n))
	}
	t, err := tensor.New(data, n)
	if err != nil {
		return nil, err
	}
	return t.Reshape(shape...)
}
