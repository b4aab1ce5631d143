package onward_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestPrepackedWeights checks which sessions share an engine.
func TestPrepackedWeights(t *testing.T) {
	model := func(w float32) string {
		b := onnx.NewModel("net").Opset("", 15)
		b.Input("x", onnx.Float, 1, 2).Output("y", onnx.Float, 1, 2).Initializer("w", []float32{w, 0, 0, w}, 2, 2)
		b.Node("MatMul", []string{"x", "w"}, []string{"y"})
		path := filepath.Join(t.TempDir(), "m.onnx")
		if err := onnx.WriteFile(path, b.Must(), nil); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one, same, two := model(1), model(1), model(2)
	weights := new(onward.PrepackedWeights)
	open := func(path string, threads int) *onward.Session {
		s, err := onward.Open(t.Context(), path, &onward.SessionOptions{PrepackedWeights: weights, Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	check := func(s *onward.Session, want float32) {
		t.Helper()
		x := tensor.Must(tensor.New([]float32{1, 3}, 1, 2))
		out, err := s.Run(context.Background(), onward.Values{"x": x}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := tensor.Of[float32](out["y"].(*tensor.Tensor)); got[0] != want || got[1] != 3*want {
			t.Errorf("%v, want %v times 1 and 3", got, want)
		}
	}
	var wg sync.WaitGroup
	sessions := make([]*onward.Session, 8)
	for i := range sessions {
		wg.Go(func() { sessions[i] = open([]string{one, same}[i%2], 2) })
	}
	wg.Wait()
	other, plain := open(two, 2), open(one, 1)
	if n := weights.Sessions(); n != 10 {
		t.Errorf("%d sessions, want 10", n)
	}
	for _, s := range sessions[1:] { // closing one session does not affect the others
		check(s, 1)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	check(sessions[0], 1)
	check(other, 2)
	check(plain, 1)
	for _, s := range []*onward.Session{sessions[0], other, plain} {
		s.Close()
	}
	if n := weights.Sessions(); n != 0 {
		t.Errorf("%d sessions are left, want none", n)
	}
	if _, err := onward.OpenBytes(t.Context(), []byte{1}, &onward.SessionOptions{PrepackedWeights: weights}); err == nil {
		t.Error("no error")
	}
}
