package onward_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// doubling is a custom operator with an attribute, an optional input, and a type
// variable.
func doubling(run func(onward.CustomCall) ([]tensor.Value, error)) onward.CustomOperator {
	return onward.CustomOperator{Domain: "acme", Name: "Scale", Inputs: "x:T, bias:T?", Outputs: "y:T, n:int64?",
		Types: map[string]string{"T": "float double"},
		Infer: func(s onward.CustomShapes) ([][]onward.Dim, error) { return [][]onward.Dim{s.Shapes[0], {}}, nil },
		Run: func(_ context.Context, c onward.CustomCall) ([]tensor.Value, error) {
			if run != nil {
				return run(c)
			}
			x := c.In[0].(*tensor.Tensor).Clone()
			for i, v := range tensor.MustData[float32](x) {
				tensor.MustData[float32](x)[i] = v * c.Attributes["by"].(float32)
			}
			out := []tensor.Value{x}
			if c.Outputs > 1 {
				out = append(out, tensor.Scalar(int64(x.Len())))
			}
			return out, nil
		}}
}

func customModel() *onnx.Model {
	b := onnx.NewModel("custom").Opset("", 21).Opset("acme", 2)
	b.Input("x", onnx.Float, "n", 3).Output("y", onnx.Float, "n", 3).Output("k", onnx.Int64)
	b.Node("Scale", []string{"x"}, []string{"a", "k"}, onnx.Attrs{"by": float32(3)}).Domain("acme")
	b.Node("Neg", []string{"a"}, []string{"y"})
	return b.Must()
}

func TestCustomOperators(t *testing.T) {
	onBoth(t, func(t *testing.T, o *onward.SessionOptions) {
		o.CustomOperators = []onward.CustomOperator{doubling(nil)}
		s := enginetest.Open(t, customModel(), o)
		for range 4 {
			out, err := s.Run(context.Background(), row(1, 2, 3), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := enginetest.Floats(t, out["y"]); !slices.Equal(got, []float32{-3, -6, -9}) {
				t.Errorf("y = %v", got)
			}
			if n, err := tensor.Data[int64](out["k"]); err != nil || n[0] != 3 {
				t.Errorf("k = %v, %v", n, err)
			}
		}
	})
	if _, err := onward.OpenModel(t.Context(), customModel(), nil); !errors.Is(err, onward.ErrNotImplemented) ||
		!strings.Contains(err.Error(), "acme.Scale") {
		t.Errorf("without the operator: %v", err)
	}
	later := doubling(nil)
	later.Since = 3
	if _, err := onward.OpenModel(t.Context(), customModel(),
		&onward.SessionOptions{CustomOperators: []onward.CustomOperator{later}}); !errors.Is(err,
		onward.ErrNotImplemented) {
		t.Errorf("with an operator of a later version: %v", err)
	}
}

// This test checks the errors of runs with faulty custom operators.
func TestCustomOperatorErrors(t *testing.T) {
	cause := errors.New("no luck")
	for want, run := range map[string]func(onward.CustomCall) ([]tensor.Value, error){
		"panicked: boom":             func(onward.CustomCall) ([]tensor.Value, error) { panic("boom") },
		"no luck":                    func(onward.CustomCall) ([]tensor.Value, error) { return nil, cause },
		"returned 1 outputs, want 2": func(c onward.CustomCall) ([]tensor.Value, error) { return c.In[:1], nil },
		"returned no output 1":       func(c onward.CustomCall) ([]tensor.Value, error) { return []tensor.Value{c.In[0], nil}, nil },
		"declared as tensor(int64)":  func(c onward.CustomCall) ([]tensor.Value, error) { return []tensor.Value{c.In[0], c.In[0]}, nil },
		"returned tensor(int32) as o": func(c onward.CustomCall) ([]tensor.Value, error) {
			return []tensor.Value{tensor.Scalar[int32](1), tensor.Scalar[int64](1)}, nil
		},
	} {
		s := enginetest.Open(t, customModel(),
			&onward.SessionOptions{CustomOperators: []onward.CustomOperator{doubling(run)}})
		_, err := s.Run(context.Background(), row(1, 2, 3), nil)
		if !errors.Is(err, onward.ErrRuntimeException) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "Scale") {
			t.Errorf("want %q, got %v", want, err)
		}
		if want == "no luck" && !errors.Is(err, cause) {
			t.Error("the cause is not in the chain")
		}
	}
	ok := doubling(nil)
	for want, o := range map[string]onward.CustomOperator{
		"needs a name":             {Domain: "acme"},
		"either a function Run or": {Name: "X", Run: ok.Run, Bind: binding(nil).Bind, Outputs: "y:float"},
		"has no outputs":           {Name: "X", Run: ok.Run, Inputs: "x:float"},
		"not declared":             {Name: "X", Run: ok.Run, Outputs: "y:T"},
		"is neither a single type": {Name: "X", Run: ok.Run, Outputs: "y:T", Types: map[string]string{"T": "float double"}},
		"parameter \"x\" has ":     {Name: "X", Run: ok.Run, Inputs: "x", Outputs: "y:float"},
	} {
		if _, err := onward.OpenModel(t.Context(), customModel(),
			&onward.SessionOptions{CustomOperators: []onward.CustomOperator{o}}); !errors.Is(err,
			onward.ErrInvalidArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if _, err := onward.OpenModel(t.Context(), customModel(),
		&onward.SessionOptions{CustomOperators: []onward.CustomOperator{ok, ok}}); err == nil ||
		!strings.Contains(err.Error(), "registered twice") {
		t.Errorf("the same operator twice: %v", err)
	}
}

// binding is doubling with a Bind that counts its calls and fails for an attribute by of 0.
func binding(calls *int) onward.CustomOperator {
	o := doubling(nil)
	run := o.Run
	o.Run = nil
	o.Bind = func(attrs map[string]any) (func(context.Context, onward.CustomCall) ([]tensor.Value, error), error) {
		*calls++
		switch by := attrs["by"].(float32); by {
		case 0:
			return nil, errors.New("by is zero")
		case 1:
			panic("one")
		case 2:
			return nil, nil
		}
		return func(ctx context.Context, c onward.CustomCall) ([]tensor.Value, error) {
			if err := c.Reserve(int64(c.In[0].(*tensor.Tensor).Len()) << 10); err != nil {
				return nil, err
			}
			return run(ctx, c)
		}, nil
	}
	return o
}

// TestCustomOperatorBind checks that Bind runs when a session opens and not in runs, and that
// Reserve counts.
func TestCustomOperatorBind(t *testing.T) {
	onBoth(t, func(t *testing.T, o *onward.SessionOptions) {
		calls := 0
		o.CustomOperators = []onward.CustomOperator{binding(&calls)}
		o.Limits.MaxMemory = 1 << 20
		s := enginetest.Open(t, customModel(), o)
		opened := calls
		if opened == 0 {
			t.Error("Bind was not called")
		}
		for range 3 {
			out, err := s.Run(context.Background(), row(1, 2, 3), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := enginetest.Floats(t, out["y"]); !slices.Equal(got, []float32{-3, -6, -9}) {
				t.Errorf("y = %v", got)
			}
		}
		if calls != opened {
			t.Errorf("runs called Bind %d times", calls-opened)
		}
		if _, err := s.Run(context.Background(), row(make([]float32, 1200)...), nil); err == nil ||
			!strings.Contains(err.Error(), "limit of 1048576") {
			t.Errorf("a run beyond the limit: %v", err)
		}
		for by, want := range []string{"by is zero", "Bind panicked: one", "returned no function"} {
			m := customModel()
			m.Graph.Nodes[0].Attributes[0].F = float32(by)
			if _, err := onward.OpenModel(t.Context(), m, o); !errors.Is(err, onward.ErrInvalidGraph) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("by %d: got %v, want %q", by, err, want)
			}
		}
	})
}
