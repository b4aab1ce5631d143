package onward_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/tensor"
)

// breaks is a provider whose runs end with EP_FAIL after some that succeed.
type breaks struct{ fake }

var breaksAfter atomic.Int64

func (b *breaks) Compile(ctx context.Context, m *driver.Model, o *driver.Options, c driver.Config) (driver.Engine, error) {
	e, err := b.fake.Compile(ctx, m, o, c)
	return breaking{e}, err
}

type breaking struct{ driver.Engine }

func (b breaking) Run(ctx context.Context, r *driver.Request) error {
	if breaksAfter.Add(-1) >= 0 {
		return b.Engine.Run(ctx, r)
	}
	return driver.Errorf(driver.ExecutionProvider, "the device was lost")
}

func init() { driver.Register(&breaks{fake{name: "test:breaks"}}) }

// TestFallbackOnFailure checks that runs of several goroutines continue on the next provider
// when the first one fails, and only if the option is set.
func TestFallbackOnFailure(t *testing.T) {
	m := scaled().Must()
	s := open(t, m, &onward.SessionOptions{Providers: providers("test:breaks", "test:breaks", "reference"), FallbackOnFailure: true})
	breaksAfter.Store(10)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				out, err := s.Run(context.Background(), row(1, 2, 3), nil)
				if err != nil || !slices.Equal(floats(t, out["y"]), []float32{2, 6, 12}) {
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
		s := open(t, m, o)
		if _, err := s.Run(context.Background(), row(1, 2, 3), nil); !errors.Is(err, onward.ErrExecution) || s.Provider() != "test:breaks" {
			t.Errorf("%+v: %v on %s", o, err, s.Provider())
		}
	}
	breaksAfter.Store(0)
	s = open(t, m, &onward.SessionOptions{Providers: providers("test:breaks", "test:refuses"), FallbackOnFailure: true})
	if _, err := s.Run(context.Background(), row(1, 2, 3), nil); !errors.Is(err, onward.ErrExecution) || !strings.Contains(err.Error(), "too difficult") {
		t.Errorf("the next provider refuses the model, too: %v", err)
	}
}

func TestDynamicOptionsOfGoEngine(t *testing.T) {
	if err := open(t, scaled().Must(), nil).SetDynamicOptions(map[string]string{"a": "b"}); !errors.Is(err, onward.ErrNotImplemented) {
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
	if err != nil || !slices.Equal(tensor.Of[float32](x), []float32{1, 2}) {
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
