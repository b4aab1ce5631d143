package driver_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/driver"
)

type named string

func (n named) Name() string                    { return string(n) }
func (n named) Available(c driver.Config) error { return errors.New(c.Options["why"]) }
func (n named) Compile(context.Context, *driver.Model, *driver.Options, driver.Config) (driver.Engine, error) {
	return nil, errors.New("the provider cannot compile")
}

func TestRegistry(t *testing.T) {
	driver.Register(named("test:registry"))
	if p, err := driver.Find("test:registry"); err != nil || p != driver.Provider(named("test:registry")) ||
		driver.Lookup("test:registry") != p {
		t.Errorf("found %v, %v", p, err)
	}
	if got := driver.TraitsOf(named("x")); got != (driver.Traits{}) || driver.TraitsOf(nil) != got {
		t.Errorf("traits are %+v", got)
	}
	for name, want := range map[string]string{
		"ort:cuda": `the program must import _ "github.com/onward-ml/onward/provider/ort"`,
		"openvino": `the program must import _ "github.com/onward-ml/onward/provider/openvino"`,
		"nope":     "there are \"cpu\", \"negator\"",
	} {
		if p, err := driver.Find(name); p != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", name, p, err, want)
		}
	}
	if all := driver.AllProviders(); !slices.Contains(all, "ort:tensorrt") || !slices.Contains(all, "test:registry") ||
		!slices.IsSorted(all) {
		t.Errorf("all providers are %v", all)
	}
	defer func() {
		if recover() == nil {
			t.Error("a name can be registered twice")
		}
	}()
	driver.Register(named("test:registry"))
}

func TestParseDevice(t *testing.T) {
	for text, want := range map[string]driver.Device{
		"": {Type: "cpu"}, "CPU": {Type: "cpu"}, "cpu:0": {Type: "cpu"}, "CUDA:1": {Type: "cuda", ID: 1}, "cuda": {Type: "cuda"}, "npu:2": {Type: "npu", ID: 2},
	} {
		if d, err := driver.ParseDevice(text); err != nil || d != want {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
	for _, text := range []string{"tpu", "cuda:", "cuda:x", "cuda:-1", "cpu:1", ":1"} {
		var st *driver.StatusError
		if d, err := driver.ParseDevice(text); !errors.As(err, &st) || st.Code != driver.CodeInvalidArgument {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
}

func TestPrepackedWeights(t *testing.T) {
	var w driver.PrepackedWeights
	made := 0
	compile := func() (driver.Engine, error) { made++; return &closing{}, nil }
	a, releaseA, err := w.Share("k", compile)
	b, releaseB, err2 := w.Share("k", compile)
	if err != nil || err2 != nil || a != b || made != 1 || w.Sessions() != 2 {
		t.Fatalf("%v, %v, %d engines, %d sessions", err, err2, made, w.Sessions())
	}
	if err := releaseA(); err != nil || a.(*closing).closed != 0 {
		t.Errorf("closed with a session left: %v", err)
	}
	if err := releaseB(); err != nil || a.(*closing).closed != 1 || w.Sessions() != 0 {
		t.Errorf("%d times closed, %v", a.(*closing).closed, err)
	}
	if _, _, err := w.Share("k", func() (driver.Engine, error) {
		return nil, errors.New("the compilation fails")
	}); err == nil || w.Sessions() != 0 {
		t.Errorf("error is %v, %d sessions", err, w.Sessions())
	}
}

// TestPrepackedWeightsAfterCancel: an open that waits for another one compiles itself if the other
// one's context ends.
func TestPrepackedWeightsAfterCancel(t *testing.T) {
	var w driver.PrepackedWeights
	first, second := make(chan error), make(chan error)
	started, waits := make(chan bool), make(chan bool)
	go func() {
		_, _, err := w.Share("k", func() (driver.Engine, error) {
			close(started)
			<-waits
			return nil, context.Canceled
		})
		first <- err
	}()
	<-started
	go func() {
		e, release, err := w.Share("k", func() (driver.Engine, error) { return &closing{}, nil })
		if err == nil && (w.Sessions() != 1 || release() != nil || e.(*closing).closed != 1) {
			err = fmt.Errorf("%d sessions, closed %d times", w.Sessions(), e.(*closing).closed)
		}
		second <- err
	}()
	for w.Sessions() < 2 {
		runtime.Gosched()
	}
	close(waits)
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first open returns %v, want that it was cancelled", err)
	}
	if err := <-second; err != nil || w.Sessions() != 0 {
		t.Errorf("the second open returns %v, want an engine; %d sessions are left", err, w.Sessions())
	}
}

type closing struct {
	driver.Engine
	closed int
}

func (c *closing) Close() error { c.closed++; return nil }

func TestConfigString(t *testing.T) {
	for want, c := range map[string]driver.Config{
		"openvino": {Name: "openvino"}, "ort:cuda(a=1, b=2)": {Name: "ort:cuda", Options: map[string]string{"b": "2", "a": "1"}},
	} {
		if got := fmt.Sprint(c); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
