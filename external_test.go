package onward_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
)

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
