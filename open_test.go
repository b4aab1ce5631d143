package onward_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
)

// slow is a provider whose Compile returns when the context is done.
type slow struct{ compiled atomic.Int32 }

func (*slow) Name() string                  { return "test:slow" }
func (*slow) Available(driver.Config) error { return nil }
func (s *slow) Compile(ctx context.Context, _ *driver.Model, _ *driver.Options, _ driver.Config) (driver.Engine, error) {
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
			if s != nil || !errors.Is(err, want) || !errors.As(err, &st) || st.Code != onward.Fail {
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
		for d := 10 * time.Millisecond; compiled == 0 && d < time.Minute; d *= 2 { // a busy machine may take longer to begin
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
