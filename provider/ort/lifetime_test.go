package ort_test

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/onward-ml/onward"
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
	if _, err := s.Run(ctx, onward.Values{"x": tensor.Must(tensor.New([]float32{1}, 1))}, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("Run = %v, want that it was cancelled", err)
	}
	// The session remains usable.
	if _, err := s.Run(ctx, onward.Values{"x": tensor.Must(tensor.New([]float32{1}, 1))}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a run that was cancelled before = %v", err)
	}
}

func TestManyGoroutines(t *testing.T) {
	s := openModel(t, scale("n", 3))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				n := 1 + (g+i)%7
				x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, n, 3))
				for k := range tensor.Of[float32](x) {
					tensor.Of[float32](x)[k] = float32(g*1000 + k)
				}
				ctx, cancel := context.Background(), func() {}
				if i%2 == 1 {
					ctx, cancel = context.WithCancel(ctx)
				}
				out, err := s.Run(ctx, onward.Values{"x": x}, nil)
				cancel()
				if err != nil {
					t.Error(err)
					return
				}
				for k, v := range tensor.Of[float32](out["y"].(*tensor.Tensor)) {
					if v != 2*float32(g*1000+k) {
						t.Errorf("goroutine %d: element %d is %v", g, k, v)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// rss returns the process's resident memory in bytes, or skips the test.
func rss(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skipf("resident memory cannot be read: %v", err)
	}
	n, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n * int64(os.Getpagesize())
}

// TestNoLeak runs 100,000 times with 4 KiB each, so that a leak of one OrtValue, run option
// or string per run is detected.
func TestNoLeak(t *testing.T) {
	b := onnx.NewModel("leak").Opset("", 16).IRVersion(8)
	b.Input("x", onnx.DataType(tensor.TypeFloat32), "n").Input("s", onnx.DataType(tensor.TypeString), "m")
	b.Output("y", onnx.DataType(tensor.TypeFloat32), "n").Output("t", onnx.DataType(tensor.TypeString), "m")
	b.OutputType("q", onnx.NewType(tensor.SequenceOf(tensor.TensorType(tensor.TypeFloat32))))
	b.Node("Neg", []string{"x"}, []string{"y"})
	b.Node("Identity", []string{"s"}, []string{"t"})
	b.Node("SequenceConstruct", []string{"y", "y"}, []string{"q"})
	s := openModel(t, b.Must())
	feed := onward.Values{"x": tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1024)), "s": tensor.Must(tensor.New([]string{strings.Repeat("s", 1000), "b"}, 2))}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 100000
	if testing.Short() {
		n = 3000
	}
	many := func(n int) {
		for range n {
			if _, err := s.Run(ctx, feed, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	many(2000)
	debug.FreeOSMemory() // so that Go's own garbage does not count
	before := rss(t)
	many(n)
	debug.FreeOSMemory()
	grown := rss(t) - before
	t.Logf("resident memory grew by %d bytes in %d runs", grown, n)
	if limit := int64(8 << 20); grown > limit {
		t.Errorf("resident memory grew by %d bytes in %d runs, want at most %d", grown, n, limit)
	}
}

// TestSessionsAreFreed opens and closes sessions of 1 MiB.
func TestSessionsAreFreed(t *testing.T) {
	big := make([]float32, 1<<18)
	b := onnx.NewModel("big").Opset("", 13).IRVersion(8)
	b.Input("x", onnx.DataType(tensor.TypeFloat32), 1).Output("y", onnx.DataType(tensor.TypeFloat32), len(big))
	b.Initializer("w", big)
	b.Node("Add", []string{"x", "w"}, []string{"y"})
	m := b.Must()
	once := func() {
		s, err := onward.OpenModel(t.Context(), m, &onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{config(t)}})
		if err != nil {
			t.Fatal(err)
		}
		run(t, s, tensor.Must(tensor.New([]float32{1}, 1)))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Run(context.Background(), onward.Values{"x": tensor.Must(tensor.New([]float32{1}, 1))}, nil); err == nil {
			t.Fatal("a closed session runs")
		}
	}
	for range 20 {
		once()
	}
	before := rss(t)
	for range 100 {
		once()
	}
	if grown := rss(t) - before; grown > 50<<20 {
		t.Errorf("resident memory grew by %d bytes in 100 sessions of 1 MiB", grown)
	}
}
