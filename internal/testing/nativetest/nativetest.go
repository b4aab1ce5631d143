// Package nativetest holds what the tests of providers of native libraries share: leaks, sessions
// in many goroutines, outputs in given memory, and registered names.
package nativetest

import (
	"context"
	"errors"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Scale returns a model that doubles x to y, of the given dimensions.
func Scale(dims ...any) *onnx.Model {
	b := onnx.NewModel("scale").Opset("", 13).IRVersion(8)
	b.Input("x", onnx.Float, dims...).Output("y", onnx.Float, dims...)
	b.Initializer("two", []float32{2})
	b.Node("Mul", []string{"x", "two"}, []string{"y"})
	return b.Must()
}

// ResidentMemory returns the process's resident memory in bytes, or skips the test.
func ResidentMemory(t *testing.T) int64 {
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

// RunsDoNotLeak runs a session 100,000 times (3,000 with -short). The inputs should have some 4
// KiB, so that a leak of one value, shape or string per run is detected.
func RunsDoNotLeak(t *testing.T, s *onward.Session, feed onward.Values) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
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
	limit, grown := int64(8<<20), int64(0)
	for range 3 { // a leak grows every time, unlike Go's heap when the system gives it larger pages
		debug.FreeOSMemory() // so that Go's own garbage does not count
		before := ResidentMemory(t)
		many(n)
		debug.FreeOSMemory()
		grown = ResidentMemory(t) - before
		t.Logf("resident memory grew by %d bytes in %d runs", grown, n)
		if grown <= limit {
			return
		}
	}
	t.Errorf("resident memory grew by %d bytes in %d runs, want at most %d", grown, n, limit)
}

// SessionsAreFreed opens and closes sessions of 1 MiB.
func SessionsAreFreed(t *testing.T, open func(m *onnx.Model) (*onward.Session, error)) {
	t.Helper()
	big := make([]float32, 1<<18)
	b := onnx.NewModel("big").Opset("", 13).IRVersion(8)
	b.Input("x", onnx.Float, 1).Output("y", onnx.Float, len(big))
	b.Initializer("w", big)
	b.Node("Add", []string{"x", "w"}, []string{"y"})
	m := b.Must()
	feed := onward.Values{"x": tensor.Must(tensor.New([]float32{1}, 1))}
	once := func() {
		s, err := open(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Run(t.Context(), feed, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Run(t.Context(), feed, nil); err == nil {
			t.Fatal("a closed session runs")
		}
	}
	for range 20 {
		once()
	}
	before := ResidentMemory(t)
	for range 100 {
		once()
	}
	if grown := ResidentMemory(t) - before; grown > 50<<20 {
		t.Errorf("resident memory grew by %d bytes in 100 sessions of 1 MiB", grown)
	}
}

// ManyGoroutines runs a session of the model Scale(rows, 3) in 8 goroutines with contents of their
// own, each the given number of times. If rows is 0, the model takes any number. Each tenth run may
// be canceled at any time.
func ManyGoroutines(t *testing.T, s *onward.Session, rows, runs int) {
	t.Helper()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range runs {
				n := rows
				if n == 0 {
					n = 1 + (g+i)%7
				}
				x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, n, 3))
				for k := range tensor.MustData[float32](x) {
					tensor.MustData[float32](x)[k] = float32(g*1000 + k)
				}
				ctx, cancel := context.Background(), func() {}
				if i%2 == 1 {
					ctx, cancel = context.WithCancel(ctx)
				}
				if i%10 == 9 {
					cancel()
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
				for k, v := range tensor.MustData[float32](out["y"].(*tensor.Tensor)) {
					if v != 2*float32(g*1000+k) {
						t.Errorf("goroutine %d: element %d is %v, want %d", g, k, v, 2*(g*1000+k))
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// OutputInPlace checks that given output tensors are filled. Libraries write directly to those
// with a fixed shape.
func OutputInPlace(t *testing.T, provider string, config driver.Config) {
	t.Helper()
	for _, dims := range [][]any{{2, 2}, {"n", 2}} {
		e, err := driver.Lookup(provider).
			Compile(t.Context(), &driver.Model{Model: Scale(dims...)}, &driver.Options{Threads: 1}, config)
		if err != nil {
			t.Fatal(err)
		}
		y := tensor.Must(tensor.New([]float32{9, 9, 9, 9}, 2, 2))
		req := &driver.Request{In: []tensor.Value{tensor.Must(tensor.New([]float32{1, 2, 3, 4}, 2, 2))},
			Out: []tensor.Value{y}, Options: &driver.RunOptions{}}
		if err := e.Run(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if req.Out[0] != tensor.Value(y) || !slices.Equal(tensor.MustData[float32](y), []float32{2, 4, 6, 8}) {
			t.Errorf("%v: output %v, %v", dims, req.Out[0], tensor.MustData[float32](y))
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// NamesAreListed checks that package driver lists the names that the package of the given path
// registers, for programs that lack its import.
func NamesAreListed(t *testing.T, path string) {
	t.Helper()
	found := 0
	for _, name := range driver.AllProviders() {
		p := driver.Lookup(name)
		registered := p != nil && reflect.TypeOf(p).PkgPath() == path
		listed, _ := driver.PackageOf(name)
		if registered != (listed == path) {
			t.Errorf("%s: package driver lists it for %q; registered here: %v", name, listed, registered)
		}
		if registered {
			found++
		}
	}
	if found == 0 {
		t.Error("the package registers no provider")
	}
}
