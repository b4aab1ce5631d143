package recorded

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// LoadUpstream reads the cases of ONNX Runtime's own operator tests, which
// internal/ops/all/testdata/record_ort_tests.py writes. The note of a case is the name of its
// test; those after the first of a test end in a number.
func LoadUpstream(file string) ([]*Case, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var cases []*Case
	if err := json.NewDecoder(z).Decode(&cases); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return cases, nil
}

// graphModel returns a model of the graph, with the initializers that its inputs lack.
func (c *Case) graphModel() (*onnx.Model, map[string]tensor.Value, error) {
	g, err := onnx.UnmarshalGraph(fromBase64(c.Graph), nil)
	if err != nil {
		return nil, nil, err
	}
	domain, _ := c.Domain()
	m, err := onnx.NewModel("case").Opset(domain, int64(c.Opset)).Model()
	if err != nil {
		return nil, nil, err
	}
	feed := map[string]tensor.Value{}
	var inputs []*onnx.ValueInfo
	for i, in := range g.Inputs {
		x := c.In[i].Value()
		if t, ok := x.(*tensor.Tensor); ok && slices.Contains(c.Const, i) {
			o := onnx.FromTensor(t)
			o.Name = in.Name
			g.Initializers = append(g.Initializers, o)
		} else if x != nil {
			feed[in.Name] = x
			inputs = append(inputs, in)
		}
	}
	g.Inputs = inputs
	m.Graph = g
	return m, feed, nil
}

// tolerances are the absolute and relative tolerances of ONNX Runtime's tests; other types
// must be equal.
var tolerances = map[tensor.DType][2]float64{
	tensor.TypeFloat64:  {1e-5, 1e-5},
	tensor.TypeFloat32:  {1e-5, 1e-4},
	tensor.TypeFloat16:  {2.5e-3, 1e-3},
	tensor.TypeBFloat16: {0.02, 0.01},
}

// Check compares the outputs of the model m of the case with the expected ones, with the
// tolerances of ONNX Runtime's tests.
func (c *Case) Check(m *onnx.Model, got map[string]tensor.Value) error {
	k := 0
	for i, o := range c.Out {
		if o == nil {
			continue
		}
		name := m.Graph.Outputs[k].Name
		k++
		want := o.Value()
		t := want
		for s, ok := t.(*tensor.Sequence); ok && len(s.Items) > 0; s, ok = t.(*tensor.Sequence) {
			t = s.Items[0]
		}
		if mp, ok := t.(*tensor.Map); ok {
			t = mp.Values
		}
		var tol [2]float64
		if x, ok := t.(*tensor.Tensor); ok {
			tol = tolerances[x.DType()]
			for j := range tol {
				if own := c.Tols[i][j]; own != nil && (tol != [2]float64{} || x.DType() == tensor.TypeInt8 && j == 0) {
					tol[j] = *own
				}
			}
		}
		have := got[name]
		if slices.Contains(c.Sorted, i) {
			have, want = sorted(have), sorted(want)
		}
		if o, ok := want.(*tensor.Optional); ok && o.Value != nil {
			if _, ok := have.(*tensor.Optional); !ok { // ONNX Runtime's optional values are their elements
				want = o.Value
			}
		}
		if err := tensor.AllClose(have, want, tol[1], tol[0]); err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
	}
	return nil
}

// sorted returns a tensor of numbers that Go orders with its elements in order, and other
// values as they are.
func sorted(v tensor.Value) tensor.Value {
	switch t, _ := v.(*tensor.Tensor); {
	case t == nil:
	case t.DType() == tensor.TypeFloat32:
		return sortedAs[float32](t)
	case t.DType() == tensor.TypeFloat64:
		return sortedAs[float64](t)
	case t.DType() == tensor.TypeInt64:
		return sortedAs[int64](t)
	case t.DType() == tensor.TypeInt32:
		return sortedAs[int32](t)
	}
	return v
}

func sortedAs[T interface {
	cmp.Ordered
	tensor.Element
}](t *tensor.Tensor) tensor.Value {
	s := slices.Clone(tensor.MustData[T](t))
	slices.Sort(s)
	return must(tensor.New(s, t.Shape()...))
}
