package openvino_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/nativetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// long returns a model whose runs can be cancelled at many nodes: a chain of matrix
// multiplications.
func long() *onnx.Model {
	const n = 512
	b := onnx.NewModel("long").Opset("", 13).IRVersion(8)
	b.Input("x", onnx.DataType(tensor.TypeFloat32), n, n).Output("y", onnx.DataType(tensor.TypeFloat32), n, n)
	last := "x"
	for i := range 60 {
		next := fmt.Sprint("t", i)
		b.Node("MatMul", []string{last, "x"}, []string{next + "m"})
		b.Node("Tanh", []string{next + "m"}, []string{next})
		last = next
	}
	b.Node("Identity", []string{last}, []string{"y"})
	return b.Must()
}

// TestContextStopsARun ends the context ever later, until OpenVINO reports that it stopped a
// request that had begun.
func TestContextStopsARun(t *testing.T) {
	s := openModel(t, long())
	feed := onward.Values{"x": tensor.Must(tensor.Zeros(tensor.TypeFloat32, 512, 512))}
	for d := 100 * time.Microsecond; ; d *= 2 {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		_, err := s.Run(ctx, feed, nil)
		cancel()
		switch {
		case err == nil:
			t.Fatal("the run was not stopped")
		case !errors.Is(err, context.DeadlineExceeded):
			t.Fatalf("Run = %v, want the deadline", err)
		case strings.Contains(err.Error(), "Infer Request was canceled"):
			return
		}
	}
}

func TestManyGoroutines(t *testing.T) {
	for _, requests := range []string{"1", "4"} {
		nativetest.ManyGoroutines(t, openModel(t, nativetest.Scale("n", 3), "requests", requests), 0, 300)
		nativetest.ManyGoroutines(t, openModel(t, nativetest.Scale(5, 3), "requests", requests), 5, 300)
	}
}

func TestNoLeak(t *testing.T) {
	b := onnx.NewModel("leak").Opset("", 13).IRVersion(8)
	f := onnx.DataType(tensor.TypeFloat32)
	b.Input("x", f, "n").Input("z", f, 2).Output("y", f, "n").Output("w", f, 2)
	b.Node("Neg", []string{"x"}, []string{"y"})
	b.Node("Neg", []string{"z"}, []string{"w"})
	s := openModel(t, b.Must())
	feed := onward.Values{"x": tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1024)),
		"z": tensor.Must(tensor.New([]float32{1, 2}))}
	nativetest.RunsDoNotLeak(t, s, feed)
}

func TestSessionsAreFreed(t *testing.T) {
	nativetest.SessionsAreFreed(t, func(m *onnx.Model) (*onward.Session, error) { return open(t, m) })
}
