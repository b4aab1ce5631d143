package main

import (
	"context"
	"errors"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestModelsAreValid checks every model and, but for the largest, runs it.
func TestModelsAreValid(t *testing.T) {
	names := map[string]bool{}
	for _, m := range models() {
		if names[m.group+m.name] {
			t.Errorf("two models of the group %s are named %s", m.group, m.name)
		}
		known := names[m.name] // the same network in another precision
		names[m.name], names[m.group+m.name] = true, true
		if m.build == nil || known {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			built := m.build()
			if err := onnx.Check(built, nil); err != nil {
				t.Fatal(err)
			}
			if testing.Short() {
				return
			}
			s, err := onward.OpenModel(t.Context(), built, &onward.SessionOptions{Threads: 1})
			if errors.Is(err, onward.ErrNotImplemented) {
				t.Skipf("it is not run: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			feed := onward.Values{}
			for _, a := range s.Inputs() {
				var shape []int
				for _, d := range a.Shape {
					shape = append(shape, int(d.Value))
				}
				x := tensor.Must(tensor.Zeros(a.ElementType().Elem, shape...))
				if x.DType() == tensor.TypeFloat32 {
					for i := range tensor.MustData[float32](x) {
						tensor.MustData[float32](x)[i] = .5
					}
				}
				feed[a.Name] = x
			}
			out, err := s.Run(context.Background(), feed, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range s.Outputs() {
				got := out[o.Name].(*tensor.Tensor).Shape()
				for i, d := range o.Shape {
					if int(d.Value) != got[i] {
						t.Errorf("output %s has shape %v, declared is %v", o.Name, got, o.Shape)
						break
					}
				}
			}
		})
	}
}
