//go:build unix

package onward_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// mappedRamp returns n floats of a short cycle, starting at index from.
func mappedRamp(n int, from float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = from + float32(i%97)/97
	}
	return x
}

const mappedRows, mappedCols = 4096, 64

// writeMapped writes a model that uses weights in every way: rows of an embedding, a large
// addend, matrices that are packed, a constant that is an output. The weights are in the
// file weights.bin or in the model itself.
func writeMapped(t *testing.T, external bool) (path, weights string) {
	t.Helper()
	b := onnx.NewModel("net").Opset("", 17)
	b.Input("ids", onnx.Int64, 8).Output("y", onnx.Float, 8, 16).Output("sum", onnx.Float, mappedRows, mappedCols).
		Output("bias", onnx.Float, mappedCols*mappedCols)
	b.Initializer("table", mappedRamp(mappedRows*mappedCols, 0), mappedRows, mappedCols)
	b.Initializer("addend", mappedRamp(mappedRows*mappedCols, 1), mappedRows, mappedCols)
	b.Initializer("w", mappedRamp(mappedCols*mappedCols, -0.5), mappedCols, mappedCols)
	b.Initializer("v", mappedRamp(16*mappedCols, -0.3), 16, mappedCols)
	b.Initializer("bias", mappedRamp(mappedCols*mappedCols, 2), mappedCols*mappedCols)
	b.Initializer("scale", []float32{0.5})
	b.Node("Gather", []string{"table", "ids"}, []string{"e"})
	b.Node("MatMul", []string{"e", "w"}, []string{"h"})
	b.Node("Gemm", []string{"h", "v"}, []string{"y"}, onnx.Attrs{"transB": 1})
	b.Node("ReduceSum", []string{"h"}, []string{"s"}, onnx.Attrs{"keepdims": 0})
	b.Node("Mul", []string{"s", "scale"}, []string{"k"})
	b.Node("Add", []string{"addend", "k"}, []string{"sum"})
	path = filepath.Join(t.TempDir(), "m.onnx")
	o := &onnx.WriteOptions{}
	weights = path
	if external {
		o.ExternalData = "weights.bin"
		weights = filepath.Join(filepath.Dir(path), "weights.bin")
	}
	if err := onnx.WriteFile(path, b.Must(), o); err != nil {
		t.Fatal(err)
	}
	return path, weights
}

func mappedFeed() onward.Values {
	return onward.Values{"ids": tensor.Must(tensor.New([]int64{0, 1, 4095, 77, 2000, 3, 3, 1024}, 8))}
}

func openMapped(t *testing.T, path string, o onward.SessionOptions) *onward.Session {
	t.Helper()
	o.MapWeights = true
	s, err := onward.Open(t.Context(), path, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func bindMapped(b *onward.Binding) error {
	err := b.BindCPUInput("ids", mappedFeed()["ids"])
	for _, name := range []string{"y", "sum", "bias"} {
		err = errors.Join(err, b.BindOutput(name, onward.Buffer{}))
	}
	return err
}

func mustRun(t *testing.T, s *onward.Session, feed onward.Values) onward.Values {
	t.Helper()
	r, err := s.Run(context.Background(), feed, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sameValues(t *testing.T, got, want onward.Values) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d outputs, want %d", len(got), len(want))
	}
	for name, w := range want {
		if err := tensor.Equal(got[name], w); err != nil {
			t.Errorf("output %q: %v", name, err)
		}
	}
}

// TestMapWeights runs a model with and without mapped weights, on both providers and at
// all optimization levels.
func TestMapWeights(t *testing.T) {
	for _, external := range []bool{false, true} {
		path, _ := writeMapped(t, external)
		for _, o := range []onward.SessionOptions{{}, {Threads: 1}, {Threads: 4},
			{OptimizationLevel: onward.OptimizeNone},
			{OptimizationLevel: onward.OptimizeExtended}, {DisableMemoryReuse: true}, {Providers: []onward.ProviderConfig{{Name: "reference"}}}} {
			t.Run(fmt.Sprintf("external=%t,threads=%d,level=%s,reuse=%t,%v", external, o.Threads, o.OptimizationLevel,
				!o.DisableMemoryReuse, o.Providers), func(t *testing.T) {
				plain, err := onward.Open(t.Context(), path, &o)
				if err != nil {
					t.Fatal(err)
				}
				defer plain.Close()
				s := openMapped(t, path, o)
				for range 3 {
					sameValues(t, mustRun(t, s, mappedFeed()), mustRun(t, plain, mappedFeed()))
				}
			})
		}
	}
}

// TestMapWeightsExamples runs the example models with and without mapped weights.
func TestMapWeightsExamples(t *testing.T) {
	for _, name := range datasets.Names() {
		data, err := datasets.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		plain, err := onward.Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := openMapped(t, path, onward.SessionOptions{})
		feed := onward.Values{}
		for _, a := range s.Inputs() {
			shape := make([]int, len(a.Shape))
			for i, d := range a.Shape {
				shape[i] = int(max(d.Value, 1))
			}
			feed[a.Name] = tensor.Must(tensor.Zeros(a.ElementType().Elem, shape...))
		}
		t.Run(name, func(t *testing.T) { sameValues(t, mustRun(t, s, feed), mustRun(t, plain, feed)) })
		plain.Close()
	}
}

// TestMapWeightsResultsAreTheCallers closes a session and then reads and writes its outputs.
func TestMapWeightsResultsAreTheCallers(t *testing.T) {
	path, _ := writeMapped(t, true)
	plain, err := onward.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	s, err := onward.Open(t.Context(), path, &onward.SessionOptions{MapWeights: true})
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.NewBinding()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(bindMapped(b), s.RunBinding(context.Background(), b, nil)); err != nil {
		t.Fatal(err)
	}
	bound, err := b.CopyOutputsToCPU()
	if err != nil {
		t.Fatal(err)
	}
	got := mustRun(t, s, mappedFeed())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want := mustRun(t, plain, mappedFeed())
	sameValues(t, got, want)
	for i, o := range plain.Outputs() {
		if err := tensor.Equal(bound[i], want[o.Name]); err != nil {
			t.Errorf("bound output %q: %v", o.Name, err)
		}
	}
	for _, v := range got {
		clear(v.(*tensor.Tensor).Bytes())
	}
	if _, err := s.Run(context.Background(), mappedFeed(), nil); !errors.Is(err, onward.ErrFail) {
		t.Errorf("run of a closed session: %v", err)
	}
}

// TestMapWeightsTruncated truncates the file with the weights of open sessions: runs must
// fail with an error that says so.
func TestMapWeightsTruncated(t *testing.T) {
	for _, external := range []bool{false, true} {
		// missing pages fault; the rest of the last page reads as zeros
		for _, size := range []int64{0, 100, 1<<20 + 10000, 2<<20 - 1} {
			for _, o := range []onward.SessionOptions{{Threads: 1}, {Threads: 4},
				{Providers: []onward.ProviderConfig{{Name: "reference"}}}} {
				t.Run(fmt.Sprintf("external=%t,size=%d,threads=%d,%v", external, size, o.Threads, o.Providers),
					func(t *testing.T) {
						path, weights := writeMapped(t, external)
						s := openMapped(t, path, o)
						mustRun(t, s, mappedFeed())
						b, err := s.NewBinding()
						if err != nil {
							t.Fatal(err)
						}
						if err := bindMapped(b); err != nil {
							t.Fatal(err)
						}
						for range 3 {
							if err := s.RunBinding(context.Background(), b, nil); err != nil {
								t.Fatal(err)
							}
						}
						if err := os.Truncate(weights, size); err != nil {
							t.Fatal(err)
						}
						check := func(what string, err error) {
							t.Helper()
							if !errors.Is(err, onnx.ErrMappedFile) ||
								!strings.Contains(err.Error(), filepath.Base(weights)) {
								t.Errorf("%s: %v, want ErrMappedFile that names %s", what, err, filepath.Base(weights))
							}
						}
						for range 3 {
							_, err := s.Run(context.Background(), mappedFeed(), nil)
							check("run", err)
							check("bound run", s.RunBinding(context.Background(), b, nil))
						}
						_, err = onward.Open(t.Context(), path, &onward.SessionOptions{MapWeights: true})
						if err == nil {
							t.Error("a truncated model opens")
						}
					})
			}
		}
	}
}

// TestMapWeightsTruncatedDuringRuns truncates the file while several goroutines run.
func TestMapWeightsTruncatedDuringRuns(t *testing.T) {
	path, weights := writeMapped(t, true)
	for _, threads := range []int{0, 1, 3} {
		full, err := os.ReadFile(weights)
		if err != nil {
			t.Fatal(err)
		}
		s := openMapped(t, path, onward.SessionOptions{Threads: threads})
		var truncated atomic.Bool
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					before := truncated.Load()
					_, err := s.Run(context.Background(), mappedFeed(), nil)
					if err != nil {
						if !errors.Is(err, onnx.ErrMappedFile) {
							t.Errorf("run: %v", err)
						}
						return
					}
					if before {
						t.Error("a run after the truncation returns no error")
						return
					}
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		if err := os.Truncate(weights, 0); err != nil {
			t.Fatal(err)
		}
		truncated.Store(true)
		wg.Wait()
		if err := os.WriteFile(weights, full, 0o666); err != nil {
			t.Fatal(err)
		}
		mustRun(t, s, mappedFeed()) // the file is restored, and the session works again
	}
}

// TestMapWeightsCloseDuringRuns closes a session during runs: Close must wait for them.
func TestMapWeightsCloseDuringRuns(t *testing.T) {
	path, _ := writeMapped(t, true)
	for range 5 {
		s, err := onward.Open(t.Context(), path, &onward.SessionOptions{MapWeights: true, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		want := mustRun(t, s, mappedFeed())
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					got, err := s.Run(context.Background(), mappedFeed(), nil)
					if err != nil {
						if !errors.Is(err, onward.ErrFail) || !strings.Contains(err.Error(), "closed") {
							t.Errorf("run: %v", err)
						}
						return
					}
					sameValues(t, got, want)
				}
			})
		}
		time.Sleep(5 * time.Millisecond)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}

// TestMapWeightsShared lets two sessions share an engine, which must keep its mapping
// until both are closed.
func TestMapWeightsShared(t *testing.T) {
	path, _ := writeMapped(t, false)
	weights := new(onward.PrepackedWeights)
	open := func(mapped bool) *onward.Session {
		s, err := onward.Open(t.Context(), path, &onward.SessionOptions{MapWeights: mapped, PrepackedWeights: weights})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	one, two, copied := open(true), open(true), open(false)
	want := mustRun(t, copied, mappedFeed())
	sameValues(t, mustRun(t, one, mappedFeed()), want)
	for _, s := range []*onward.Session{one, copied} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	sameValues(t, mustRun(t, two, mappedFeed()), want)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := two.Run(context.Background(), mappedFeed(), nil); !errors.Is(err, onnx.ErrMappedFile) {
		t.Errorf("the second session's run: %v, want ErrMappedFile", err)
	}
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestMapWeightsSetProviders changes the engine of a mapped session.
func TestMapWeightsSetProviders(t *testing.T) {
	path, _ := writeMapped(t, true)
	s := openMapped(t, path, onward.SessionOptions{})
	want := mustRun(t, s, mappedFeed())
	for _, p := range []string{"reference", "cpu"} {
		if err := s.SetProviders(context.Background(), []onward.ProviderConfig{{Name: p}}); err != nil {
			t.Fatal(err)
		}
		got := mustRun(t, s, mappedFeed())
		if err := tensor.Equal(got["bias"], want["bias"]); err != nil {
			t.Error(err)
		}
	}
}

// TestMapWeightsAllocations compares the allocations of runs.
func TestMapWeightsAllocations(t *testing.T) {
	path, _ := writeMapped(t, true)
	count := func(mapped bool) float64 {
		s, err := onward.Open(t.Context(), path, &onward.SessionOptions{MapWeights: mapped, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		feed, least := mappedFeed(), math.Inf(1)
		for range 5 { // collections empty pools
			least = min(least, testing.AllocsPerRun(20, func() { mustRun(t, s, feed) }))
		}
		return least
	}
	if plain, mapped := count(false), count(true); mapped > plain+1 {
		t.Errorf("a run allocates %v times with mapped weights, %v without", mapped, plain)
	}
}
