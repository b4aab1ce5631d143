package onward_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// This test checks that the session applies options to the model for a provider that does
// not apply them itself.
func TestOptionsForOtherProviders(t *testing.T) {
	o := enginetest.On("test:works")
	o.FreeDimensions = map[string]int64{"batch": 2}
	o.Initializers = onward.Values{"w": tensor.Must(tensor.New([]float32{0, 0, 1}, 3))}
	s := enginetest.Open(t, scaled().Must(), o)
	out, err := s.Run(context.Background(), row(1, 2, 3, 4, 5, 6), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := enginetest.Floats(t, out["y"]); !slices.Equal(got, []float32{1, 2, 6, 4, 5, 12}) {
		t.Errorf("y = %v", got)
	}
	seen := worksGot.Load()
	if d := seen.Graph.Inputs[0].Type.Tensor.Shape.Dims[0]; d.Kind != onnx.DimValue || d.Value != 2 {
		t.Errorf("the provider saw the dimension %+v", d)
	}
	o = enginetest.On("test:works")
	o.CustomOperators = []onward.CustomOperator{doubling(nil)}
	if _, err := onward.OpenModel(t.Context(), customModel(), o); !errors.Is(err, onward.ErrNotImplemented) ||
		!strings.Contains(err.Error(), "test:works") {
		t.Errorf("error is %v", err)
	}
}

// fake is a provider with configurable errors.
type fake struct {
	driver.Provider
	name       string
	absent     error
	compileErr error
}

// worksGot is the last model that a fake provider compiled.
var worksGot atomic.Pointer[onnx.Model]

func (f *fake) Name() string                  { return f.name }
func (f *fake) Available(driver.Config) error { return f.absent }
func (f *fake) Compile(ctx context.Context, m *driver.Model, o *driver.Options,
	c driver.Config) (driver.Engine, error) {
	if f.compileErr != nil {
		return nil, f.compileErr
	}
	worksGot.Store(m.Model)
	return driver.Lookup("reference").Compile(ctx, m, o, onward.ProviderConfig{})
}

func init() {
	driver.Register(&fake{name: "test:absent", absent: errors.New("there is no such device")})
	driver.Register(&fake{name: "test:refuses", compileErr: errors.New("it is too difficult")})
	driver.Register(&fake{name: "test:works"})
}

func providers(names ...string) (r []onward.ProviderConfig) {
	for _, n := range names {
		r = append(r, onward.ProviderConfig{Name: n})
	}
	return r
}

func TestProviderList(t *testing.T) {
	for _, c := range []struct {
		list    string
		strict  bool
		want    string // provider, or part of the error
		warning string
	}{
		{"", false, "cpu", ""},
		{"test:works", true, "test:works", ""},
		{"test:absent test:works", false, "test:works", "no such device"},
		{"test:refuses cpu", false, "cpu", "too difficult"},
		{"test:unheard test:works", false, "test:works", "not registered"},
		{"test:works test:works", false, "test:works", "duplicate"},
		{"test:works test:works", true, "error: listed twice", "duplicate"},
		{"test:absent test:refuses", false, "error: too difficult", "no such device"},
		{"test:absent test:works", true, "error: no such device", ""},
		{"test:works test:unheard", true, "error: not registered", ""},
		{"test:refuses test:works", true, "error: too difficult", ""},
		{"test:unheard", false, "error: not registered", ""},
	} {
		var log bytes.Buffer
		o := &onward.SessionOptions{Providers: providers(strings.Fields(c.list)...), DisableFallback: c.strict,
			Logger: slog.New(slog.NewTextHandler(&log, nil)), LogID: "here"}
		s, err := onward.OpenModel(t.Context(), scaled().Must(), o)
		if text, wanted := strings.CutPrefix(c.want, "error: "); wanted {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s, strict %v: error is %v, want %q", c.list, c.strict, err, text)
			}
		} else if err != nil || s.Provider() != c.want || !slices.Equal(s.Providers(), []string{c.want}) ||
			s.ProviderOptions()[c.want] == nil {
			t.Errorf("%s, strict %v: %v, want %s", c.list, c.strict, err, c.want)
		}
		if s != nil {
			s.Close()
		}
		if got := log.String(); (got == "") != (c.warning == "") || !strings.Contains(got, c.warning) || got != "" &&
			!strings.Contains(got, "session=here") {
			t.Errorf("%s, strict %v: log is %q, want %q", c.list, c.strict, got, c.warning)
		}
	}
	if all := onward.AvailableProviders(); slices.Contains(all, "test:absent") || !slices.Contains(all, "cpu") ||
		!slices.Contains(onward.Providers(), "test:absent") {
		t.Errorf("available are %v of %v", all, onward.Providers())
	}
}

func TestSetProviders(t *testing.T) {
	data, err := scaled().Must().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := onward.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := scaled().Must()
	for _, s := range []*onward.Session{file, enginetest.Open(t, m, nil)} {
		if err := s.SetProviders(context.Background(), providers("test:absent", "reference")); err != nil {
			t.Fatal(err)
		}
		out, err := s.Run(context.Background(), row(1, 2, 3), nil)
		if err != nil || s.Provider() != "reference" ||
			!slices.Equal(enginetest.Floats(t, out["y"]), []float32{2, 6, 12}) {
			t.Errorf("%s: %v, %v", s.Provider(), out, err)
		}
		if err := s.SetProviders(context.Background(), providers("test:refuses")); err == nil ||
			s.Provider() != "reference" {
			t.Errorf("a provider that refuses: %v, %s", err, s.Provider())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.SetProviders(context.Background(), providers("cpu")); err == nil {
			t.Error("a closed session takes providers")
		}
	}
	s, err := onward.OpenBytes(t.Context(), data, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.SetProviders(context.Background(), providers("reference")); !errors.Is(err, onward.ErrNotImplemented) {
		t.Errorf("a session of bytes: %v", err)
	}
	if fmt.Sprint(m.Graph.Name) != "scaled" {
		t.Error("the model was changed")
	}
}

// breaks is a provider whose runs end with EP_FAIL after some that succeed.
type breaks struct{ fake }

var breaksAfter atomic.Int64

func (b *breaks) Compile(ctx context.Context, m *driver.Model, o *driver.Options,
	c driver.Config) (driver.Engine, error) {
	e, err := b.fake.Compile(ctx, m, o, c)
	return breaking{e}, err
}

type breaking struct{ driver.Engine }

func (b breaking) Run(ctx context.Context, r *driver.Request) error {
	if breaksAfter.Add(-1) >= 0 {
		return b.Engine.Run(ctx, r)
	}
	return driver.Errorf(driver.CodeExecutionProvider, "the device was lost")
}

func init() { driver.Register(&breaks{fake{name: "test:breaks"}}) }

// TestFallbackOnFailure checks that runs of several goroutines continue on the next provider
// when the first one fails, and only if the option is set.
func TestFallbackOnFailure(t *testing.T) {
	m := scaled().Must()
	s := enginetest.Open(t, m, &onward.SessionOptions{Providers: providers("test:breaks", "test:breaks", "reference"),
		FallbackOnFailure: true})
	breaksAfter.Store(10)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				out, err := s.Run(context.Background(), row(1, 2, 3), nil)
				if err != nil || !slices.Equal(enginetest.Floats(t, out["y"]), []float32{2, 6, 12}) {
					t.Errorf("got %v, %v", out, err)
				}
			}
		})
	}
	wg.Wait()
	if p := s.Provider(); p != "reference" {
		t.Errorf("the session runs on %s, want reference", p)
	}
	for _, o := range []*onward.SessionOptions{
		{Providers: providers("test:breaks", "reference")},
		{Providers: providers("test:breaks"), FallbackOnFailure: true},
	} {
		breaksAfter.Store(0)
		s := enginetest.Open(t, m, o)
		if _, err := s.Run(context.Background(), row(1, 2, 3), nil); !errors.Is(err, onward.ErrExecution) ||
			s.Provider() != "test:breaks" {
			t.Errorf("%+v: %v on %s", o, err, s.Provider())
		}
	}
	breaksAfter.Store(0)
	s = enginetest.Open(t, m,
		&onward.SessionOptions{Providers: providers("test:breaks", "test:refuses"), FallbackOnFailure: true})
	if _, err := s.Run(context.Background(), row(1, 2, 3), nil); !errors.Is(err, onward.ErrExecution) ||
		!strings.Contains(err.Error(), "too difficult") {
		t.Errorf("the next provider refuses the model, too: %v", err)
	}
}

func TestDynamicOptionsOfGoEngine(t *testing.T) {
	if err := enginetest.Open(t, scaled().Must(), nil).
		SetDynamicOptions(map[string]string{"a": "b"}); !errors.Is(err, onward.ErrNotImplemented) {
		t.Errorf("got %v, want NOT_IMPLEMENTED", err)
	}
}

func TestCopyTensors(t *testing.T) {
	value := func(x ...float32) *onward.OrtValue {
		v, err := onward.NewOrtValue(tensor.Must(tensor.New(x, len(x))))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	a, b := value(1, 2), value(3)
	to := []*onward.OrtValue{value(0, 0), value(0)}
	if err := onward.CopyTensors(to, []*onward.OrtValue{a, b}); err != nil {
		t.Fatal(err)
	}
	x, err := to[0].Tensor()
	if err != nil || !slices.Equal(tensor.MustData[float32](x), []float32{1, 2}) {
		t.Errorf("got %v, %v", x, err)
	}
	for name, pair := range map[string][2][]*onward.OrtValue{
		"number": {to, {a}}, "size": {to, {b, a}}, "nil": {{nil}, {a}},
	} {
		if err := onward.CopyTensors(pair[0], pair[1]); !errors.Is(err, onward.ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
