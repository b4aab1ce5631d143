package openvino_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onward-ml/onward"
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
		for _, dims := range [][]any{{"n", 3}, {5, 3}} {
			s := openModel(t, scale(dims...), "requests", requests)
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					for i := range 300 {
						n := 5
						if dims[0] == "n" {
							n = 1 + (g+i)%7
						}
						x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, n, 3))
						for k := range tensor.Of[float32](x) {
							tensor.Of[float32](x)[k] = float32(g*1000 + k)
						}
						ctx, cancel := context.Background(), func() {}
						if i%2 == 1 {
							ctx, cancel = context.WithCancel(ctx)
						}
						if i%10 == 9 {
							cancel() // at any time
						}
						out, err := s.Run(ctx, onward.Values{"x": x}, nil)
						cancel()
						if i%10 == 9 && errors.Is(err, context.Canceled) {
							continue
						}
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
	}
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

// TestNoLeak runs 100,000 times with 4 KiB each, so that a leak of one tensor, shape or
// string per run is detected.
func TestNoLeak(t *testing.T) {
	b := onnx.NewModel("leak").Opset("", 13).IRVersion(8)
	f := onnx.DataType(tensor.TypeFloat32)
	b.Input("x", f, "n").Input("z", f, 2).Output("y", f, "n").Output("w", f, 2)
	b.Node("Neg", []string{"x"}, []string{"y"})
	b.Node("Neg", []string{"z"}, []string{"w"})
	s := openModel(t, b.Must())
	feed := onward.Values{"x": tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1024)), "z": tensor.Must(tensor.New([]float32{1, 2}))}
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
		s, err := open(t, m)
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
