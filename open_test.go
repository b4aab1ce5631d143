package onward_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// slow is a provider whose Compile returns when the context is done.
type slow struct{ compiled atomic.Int32 }

func (*slow) Name() string                  { return "test:slow" }
func (*slow) Available(driver.Config) error { return nil }
func (s *slow) Compile(ctx context.Context, _ *driver.Model, _ *driver.Options,
	_ driver.Config) (driver.Engine, error) {
	s.compiled.Add(1)
	<-ctx.Done()
	return nil, ctx.Err()
}

var slowly = &slow{}

func init() { driver.Register(slowly) }

// This test checks that all three Open functions fail if the context is done before or
// during the call.
func TestOpenStopsWithItsContext(t *testing.T) {
	b := onnx.NewModel("neg").Opset("", 17)
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("Neg", []string{"x"}, []string{"y"})
	m := b.Must()
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func(context.Context, *onward.SessionOptions) (*onward.Session, error){
		"file": func(ctx context.Context, o *onward.SessionOptions) (*onward.Session, error) {
			return onward.Open(ctx, path, o)
		},
		"bytes": func(ctx context.Context, o *onward.SessionOptions) (*onward.Session, error) {
			return onward.OpenBytes(ctx, data, o)
		},
		"model": func(ctx context.Context, o *onward.SessionOptions) (*onward.Session, error) {
			return onward.OpenModel(ctx, m, o)
		},
	} {
		check := func(s *onward.Session, err, want error) {
			t.Helper()
			var st *onward.StatusError
			if s != nil || !errors.Is(err, want) || !errors.As(err, &st) || st.Code != onward.CodeFail {
				t.Errorf("%s: %v, %v, want FAIL with %v", name, s, err, want)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for _, p := range []string{"cpu", "reference", "test:slow"} {
			s, err := open(ended, &onward.SessionOptions{Providers: providers(p)})
			check(s, err, context.Canceled)
		}
		compiled := int32(0)
		// a busy machine may take longer to begin
		for d := 10 * time.Millisecond; compiled == 0 && d < time.Minute; d *= 2 {
			before := slowly.compiled.Load()
			ending, cancel := context.WithTimeout(t.Context(), d)
			s, err := open(ending, &onward.SessionOptions{Providers: providers("test:slow", "cpu")})
			cancel()
			check(s, err, context.DeadlineExceeded)
			compiled = slowly.compiled.Load() - before
		}
		if compiled != 1 {
			t.Errorf("%s: compiled %d times, want once", name, compiled)
		}
		if s, err := open(t.Context(), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

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
		if got := tensor.MustData[float32](out["y"].(*tensor.Tensor)); got[0] != want || got[1] != 3*want {
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
	if _, err := onward.OpenBytes(t.Context(), []byte{1}, &onward.SessionOptions{PrepackedWeights: weights}); err ==
		nil {
		t.Error("no error")
	}
}

// externalModel writes a model of count initializers that are size bytes of a file of zeros which
// takes no space on disk, and returns its path.
func externalModel(t testing.TB, count int, size int64) string {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "w.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Skipf("the file system has no sparse files: %v", err)
	}
	b := onnx.NewModel("external").Opset("", 21)
	b.Input("x", onnx.Float, 1)
	for i := range count {
		w := string(rune('a' + i))
		b.Initializer(w,
			&onnx.Tensor{DataType: onnx.Float, Dims: []int64{size / 4}, DataLocation: onnx.LocationExternal,
				ExternalData: []onnx.StringStringEntry{{Key: "location", Value: "w.bin"}}})
		b.Node("Add", []string{"x", w}, []string{"y" + w})
		b.Output("y"+w, onnx.Float, nil)
	}
	path := filepath.Join(dir, "m.onnx")
	if err := onnx.WriteFile(path, b.Must(), nil); err != nil {
		t.Fatal(err)
	}
	return path
}

// The data of a model counts against the limits before memory for it is allocated.
func TestExternalDataOverTheLimits(t *testing.T) {
	for _, p := range []string{"cpu", "reference"} {
		open := func(ctx context.Context, path string, l onward.Limits) error {
			s, err := onward.Open(ctx, path,
				&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: p}}, Limits: l})
			if err == nil {
				s.Close()
			}
			return err
		}
		huge, many := externalModel(t, 1, 1<<40), externalModel(t, 20, 1<<20)
		if err := open(t.Context(), huge, onward.Limits{}); !errors.Is(err, onward.ErrMemoryLimit) {
			t.Errorf("%s: 1 TiB without limits: %v, want ErrMemoryLimit", p, err)
		}
		if err := open(t.Context(), huge, onward.Limits{MaxFileSize: 1 << 30}); !errors.Is(err, onnx.ErrExternalData) {
			t.Errorf("%s: 1 TiB with MaxFileSize: %v, want ErrExternalData", p, err)
		}
		if err := open(t.Context(), many, onward.Limits{MaxMemory: 10 << 20}); !errors.Is(err, onward.ErrMemoryLimit) {
			t.Errorf("%s: 20 tensors of 1 MiB with a limit of 10 MiB: %v, want ErrMemoryLimit", p, err)
		}
		budget := onward.NewMemoryBudget(10 << 20)
		if err := open(t.Context(), many, onward.Limits{Budget: budget}); !errors.Is(err, onward.ErrMemoryBudget) {
			t.Errorf("%s: 20 tensors of 1 MiB with a budget of 10 MiB: %v, want ErrMemoryBudget", p, err)
		}
		if n := budget.Used(); n != 0 {
			t.Errorf("%s: %d bytes are reserved after a failed load, want 0", p, n)
		}
		budget = onward.NewMemoryBudget(100 << 20)
		s, err := onward.Open(t.Context(), many, &onward.SessionOptions{Limits: onward.Limits{Budget: budget}})
		if err != nil {
			t.Fatal(err)
		}
		if n := budget.Used(); n < 20<<20 {
			t.Errorf("%s: a session with 20 MiB of data reserves %d bytes", p, n)
		}
		if s.Close(); budget.Used() != 0 {
			t.Errorf("%s: %d bytes are reserved after Close, want 0", p, budget.Used())
		}
	}
}
