package edit

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// SetWeights returns a model whose initializers have the elements of the tensors of the same names,
// and the names of the initializers that were replaced. Numbers are converted to the type of the
// initializer; shapes must be equal. Without partial, both must have the same names.
func SetWeights(m *onnx.Model, tensors map[string]*tensor.Tensor, partial bool) (*onnx.Model, []string, error) {
	c := copyOf(m)
	g := c.Graph
	var errs []error
	var replaced []string
	left := maps.Clone(tensors)
	for i, t := range g.Initializers {
		x := tensors[t.Name]
		delete(left, t.Name)
		if x == nil {
			if !partial {
				errs = append(errs, fmt.Errorf("the file has no weight %q", t.Name))
			}
			continue
		}
		w, err := weight(t, x)
		if err != nil {
			errs = append(errs, fmt.Errorf("weight %q: %w", t.Name, err))
			continue
		}
		g.Initializers[i] = w
		replaced = append(replaced, t.Name)
	}
	if !partial {
		for _, name := range slices.Sorted(maps.Keys(left)) {
			errs = append(errs, fmt.Errorf("the model has no weight %q", name))
		}
	}
	if len(replaced) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("no weight of the file is in the model"))
	}
	if len(errs) > 10 {
		errs = append(errs[:10], fmt.Errorf("and %d more", len(errs)-10))
	}
	return c, replaced, errors.Join(errs...)
}

// weight returns an initializer with other elements.
func weight(t *onnx.Tensor, x *tensor.Tensor) (*onnx.Tensor, error) {
	dims := make([]int64, x.Rank())
	for i, d := range x.Shape() {
		dims[i] = int64(d)
	}
	if !slices.Equal(dims, t.Dims) {
		return nil, fmt.Errorf("the model has shape %v, the file has %v", t.Dims, dims)
	}
	to := tensor.DType(t.DataType)
	if x.DType() != to {
		if x.DType().IsFloat() != to.IsFloat() {
			return nil, fmt.Errorf("the model has type %s, the file has %s; want both integer or both floating-point",
				to, x.DType())
		}
		y, err := tensor.Convert(x, to, nil)
		if err != nil {
			return nil, err
		}
		x = y
	}
	r := onnx.FromTensor(x)
	r.Name, r.DocString, r.MetadataProps = t.Name, t.DocString, t.MetadataProps
	return r, nil
}
