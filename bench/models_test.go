package main

import (
	"context"
	"errors"
	"slices"
	"strings"
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

func TestRounds(t *testing.T) {
	m, failed := took(1), took(1, 6, 30)
	failed.Results[1].Error = "no memory"
	for _, round := range []measured{took(1, 5, 20),
		{Results: []result{took(1, 0, 10).Results[1], took(1, 9).Results[0]}}, took(1, 7, 40)} {
		m.add(&round)
	}
	if a, b := m.Results[0], m.Results[1]; len(m.Results) != 2 || a.Provider != "cpu" || a.MedianMS != 7 ||
		a.MinMS != 2.5 || b.MedianMS != 20 || b.MinMS != 5 {
		t.Errorf("got %+v", m.Results)
	}
	m.add(&failed)
	if a, b := m.Results[0], m.Results[1]; a.MedianMS != 6.5 || a.Error != "" || b.Error == "" {
		t.Errorf("got %+v after a failure", m.Results)
	}
}

func TestGroupTable(t *testing.T) {
	failed := took(1, 5, 1, 8)
	failed.Results[1].Error = "no such operator"
	rows := []row{{model: model{group: "g", name: "a"}, by: []measured{took(1, 5, 20, 10)}},
		{model: model{group: "g", name: "b"}, by: []measured{took(1, 5, 5, 10)}},
		{model: model{group: "g", name: "d"}, by: []measured{failed}}, {model: model{group: "h", name: "c"}, by: []measured{took(1, 5)}}}
	got := strings.Split(groupTable("g", rows), "\n")
	for _, want := range []string{"1T: geometric mean 1.47, lowest 1.00, over 3 models; against openvino alone 1.86 " +
		"and 1.60; against ort alone 2.00 and 1.00.",
		"| a | 5 ms | 20 ms | 10 ms | 2.00 | 2.00 |", "| d | 5 ms | failed | 8 ms | 1.60 | 1.60 |"} {
		if !slices.Contains(got, want) {
			t.Errorf("no line %q in %q", want, got)
		}
	}
	if s := groupTable("h", rows); !strings.Contains(s, "| c | 5 ms | – | – |") || strings.Contains(s, "mean") {
		t.Errorf("%q", s)
	}
	for ms, want := range map[float64]string{.00123: "1.23 µs", 1.234: "1.23 ms", 123.4: "123 ms"} {
		if got := number(ms); got != want {
			t.Errorf("number(%v) = %s, want %s", ms, got, want)
		}
	}
}
