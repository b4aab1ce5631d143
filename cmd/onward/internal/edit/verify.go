package edit

import (
	"context"
	"fmt"
	"slices"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/layers"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Verify runs an edited model and its original on the same inputs, and compares the outputs by
// name. Renamed outputs are compared with the values of their old names. An input of the edited
// model may be an inner value of the original.
func Verify(ctx context.Context, original, edited *onnx.Model, old map[string]string, feed onward.Values,
	o layers.Tolerance) ([]Difference, error) {
	// Inputs with a default value need no other, and before IR version 4 take none.
	inputs := slices.DeleteFunc(slices.Clone(edited.Graph.Inputs), func(v *onnx.ValueInfo) bool {
		return feed[or(old, v.Name)] == nil && isWeight(edited.Graph, v.Name)
	})
	var inner []string
	for _, v := range slices.Concat(inputs, edited.Graph.Outputs) {
		if name := or(old, v.Name); feed[name] == nil {
			inner = append(inner, name)
		}
	}
	want, err := run(ctx, withOutputs(original, inner), feed)
	if err != nil {
		return nil, fmt.Errorf("the original does not run: %w", err)
	}
	own := onward.Values{}
	for _, v := range inputs {
		name := or(old, v.Name)
		if own[v.Name] = feed[name]; own[v.Name] == nil {
			own[v.Name] = want[name]
		}
	}
	got, err := run(ctx, edited, own)
	if err != nil {
		return nil, fmt.Errorf("the edited model does not run: %w", err)
	}
	return differences(edited, old, got, want, feed, o), nil
}

// VerifyBatch runs an edited model on a batch of two inputs of the original, and compares its
// outputs with those of two runs of the original.
func VerifyBatch(ctx context.Context, original, edited *onnx.Model, a, b onward.Values,
	o layers.Tolerance) ([]Difference, error) {
	var want [2]onward.Values
	for i, feed := range []onward.Values{a, b} {
		var err error
		if want[i], err = run(ctx, original, feed); err != nil {
			return nil, fmt.Errorf("the original does not run: %w", err)
		}
	}
	joined, err := join(a, b)
	if err != nil {
		return nil, err
	}
	both, err := join(want[0], want[1])
	if err != nil {
		return nil, err
	}
	got, err := run(ctx, edited, joined)
	if err != nil {
		return nil, fmt.Errorf("the edited model does not run with twice the batch: %w", err)
	}
	all := differences(edited, nil, got, both, joined, o)
	for i := range all {
		all[i].Twice = true
	}
	return all, nil
}

// Difference compares an output of the edited model with the original.
type Difference struct {
	Name  string `json:"name"`
	Twice bool   `json:"twice_the_batch,omitempty"`
	layers.Difference
}

func differences(m *onnx.Model, old map[string]string, got, want, feed onward.Values, o layers.Tolerance) []Difference {
	var r []Difference
	for _, v := range m.Graph.Outputs {
		name := or(old, v.Name)
		w := want[name]
		if w == nil {
			w = feed[name]
		}
		r = append(r, Difference{Name: v.Name, Difference: layers.Compare(got[v.Name], w, o)})
	}
	return r
}

func run(ctx context.Context, m *onnx.Model, feed onward.Values) (onward.Values, error) {
	s, err := onward.OpenModel(ctx, m, nil)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Run(ctx, feed, nil)
}

// withOutputs returns a copy of a model that has the named values of its main
// graph as outputs, too.
func withOutputs(m *onnx.Model, names []string) *onnx.Model {
	c := copyOf(m)
	for _, name := range names {
		if !slices.ContainsFunc(c.Graph.Outputs, func(v *onnx.ValueInfo) bool { return v.Name == name }) {
			c.Graph.Outputs = append(c.Graph.Outputs, &onnx.ValueInfo{Name: name})
		}
	}
	return c
}

// join concatenates the tensors of two maps along their first dimension.
func join(a, b onward.Values) (onward.Values, error) {
	r := onward.Values{}
	for name, v := range a {
		x, ok := v.(*tensor.Tensor)
		y, ok2 := b[name].(*tensor.Tensor)
		if !ok || !ok2 || x.Rank() == 0 || x.DType().Bits() < 8 || x.DType() != y.DType() ||
			!slices.Equal(x.Shape()[1:], y.Shape()[1:]) {
			return nil, fmt.Errorf("value %q has no batch to join: it is %s", name, v)
		}
		shape := slices.Clone(x.Shape())
		shape[0] += y.Dim(0)
		t, err := tensor.Zeros(x.DType(), shape...)
		if err != nil {
			return nil, err
		}
		copy(t.Bytes()[copy(t.Bytes(), x.Bytes()):], y.Bytes())
		r[name] = t
	}
	return r, nil
}
