package ort_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/nativetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// endless opens a model that loops until it is cancelled. In its third iteration it calls
// the function that *cancel points to.
func endless(t *testing.T, cancel *context.CancelFunc) *onward.Session {
	body := onnx.NewGraph("body")
	body.Input("i", onnx.Int64).Input("c", onnx.Bool).Input("a", onnx.Float, 1)
	body.Output("c2", onnx.Bool).Output("b", onnx.Float, 1)
	body.Node("Identity", []string{"c"}, []string{"c2"})
	body.Node("Step", []string{"a"}, []string{"b"}).Domain("acme")
	b := onnx.NewModel("endless").Opset("", 13).Opset("acme", 1).IRVersion(8)
	b.Input("x", onnx.Float, 1).Output("y", onnx.Float, 1)
	b.Initializer("n", int64(1<<60))
	b.Initializer("yes", true)
	b.Node("Loop", []string{"n", "yes", "x"}, []string{"y"}, onnx.Attrs{"body": body})
	calls := 0
	step := onward.CustomOperator{Domain: "acme", Name: "Step", Inputs: "a:float", Outputs: "b:float",
		Run: func(_ context.Context, c onward.CustomCall) ([]tensor.Value, error) {
			if calls++; calls == 3 {
				(*cancel)()
			}
			return c.In, nil
		}}
	return openWith(t, b.Must(), &onward.SessionOptions{CustomOperators: []onward.CustomOperator{step}})
}

func TestContextStopsARun(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := endless(t, &cancel)
	if _, err := s.Run(ctx, onward.Values{"x": tensor.Must(tensor.New([]float32{1}, 1))}, nil); !errors.Is(err,
		context.Canceled) {
		t.Fatalf("Run = %v, want that it was cancelled", err)
	}
	// The session remains usable.
	if _, err := s.Run(ctx, onward.Values{"x": tensor.Must(tensor.New([]float32{1}, 1))}, nil); !errors.Is(err,
		context.Canceled) {
		t.Errorf("a run that was cancelled before = %v", err)
	}
}

func TestManyGoroutines(t *testing.T) {
	nativetest.ManyGoroutines(t, openModel(t, nativetest.Scale("n", 3)), 0, 500)
}

func TestNoLeak(t *testing.T) {
	b := onnx.NewModel("leak").Opset("", 16).IRVersion(8)
	b.Input("x", onnx.DataType(tensor.TypeFloat32), "n").Input("s", onnx.DataType(tensor.TypeString), "m")
	b.Output("y", onnx.DataType(tensor.TypeFloat32), "n").Output("t", onnx.DataType(tensor.TypeString), "m")
	b.OutputType("q", onnx.NewType(tensor.SequenceOf(tensor.TensorType(tensor.TypeFloat32))))
	b.Node("Neg", []string{"x"}, []string{"y"})
	b.Node("Identity", []string{"s"}, []string{"t"})
	b.Node("SequenceConstruct", []string{"y", "y"}, []string{"q"})
	s := openModel(t, b.Must())
	feed := onward.Values{"x": tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1024)),
		"s": tensor.Must(tensor.New([]string{strings.Repeat("s", 1000), "b"}, 2))}
	nativetest.RunsDoNotLeak(t, s, feed)
}

func TestSessionsAreFreed(t *testing.T) {
	nativetest.SessionsAreFreed(t, func(m *onnx.Model) (*onward.Session, error) {
		return onward.OpenModel(t.Context(), m,
			&onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{config(t)}})
	})
}
