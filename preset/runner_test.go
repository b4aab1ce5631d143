package preset_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/preset"
	"github.com/onward-ml/onward/tensor"
)

// runner is a provider whose duration and result of runs the test chooses.
type runner struct {
	name  string
	takes time.Duration
	// takesNext, if set, returns the time of the runs of the next session.
	takesNext func() time.Duration
	missing   error
	compile   error
	run       error
	spoil     func(out []tensor.Value)
	hang      chan struct{} // runs wait for its end, whatever their context says
	hangs     func()        // is called before a run that hangs
	opened    atomic.Int32
	closed    atomic.Int32
	runCount  atomic.Int32
	version   string
}

func (r *runner) Needs() string { return "nothing" }
func (r *runner) Library(driver.Config) (*driver.Library, error) {
	return &driver.Library{Version: r.version}, nil
}

func (r *runner) Name() string                  { return r.name }
func (r *runner) Available(driver.Config) error { return r.missing }
func (r *runner) Compile(ctx context.Context, m *driver.Model, opts *driver.Options,
	_ driver.Config) (driver.Engine, error) {
	if r.compile != nil {
		return nil, r.compile
	}
	e, err := driver.Lookup("reference").Compile(ctx, m, opts, onward.ProviderConfig{Name: "reference"})
	if err == nil {
		r.opened.Add(1)
	}
	if r.takesNext != nil && err == nil {
		r.takes = r.takesNext()
	}
	return &running{e, r}, err
}

type running struct {
	driver.Engine
	r *runner
}

func (e *running) Run(ctx context.Context, req *driver.Request) error {
	e.r.runCount.Add(1)
	if e.r.hang != nil {
		e.r.hangs()
		<-e.r.hang
	}
	if e.r.run != nil {
		return e.r.run
	}
	if now != nil {
		now.Advance(e.r.takes)
	}
	err := e.Engine.Run(ctx, req)
	if err == nil && e.r.spoil != nil {
		e.r.spoil(req.Out)
	}
	return err
}

func (e *running) Close() error {
	e.r.closed.Add(1)
	return e.Engine.Close()
}

// now is the clock of the tests that measure runners.
var now *preset.Clock

var runners = map[string]*runner{}

func init() {
	for _, r := range []*runner{
		{name: "test:fast", takes: time.Millisecond},
		{name: "test:slow", takes: 20 * time.Millisecond},
		{name: "test:absent", missing: errors.New("the library is missing: get it somewhere")},
		{name: "test:refusing", compile: errors.New("it refuses the model")},
		{name: "test:failing", run: errors.New("it fails")},
		{name: "test:wrong", spoil: func(out []tensor.Value) { out[0] = vectorLike(out[0], 100) }},
		{name: "test:inexact", takes: 3 * time.Millisecond, spoil: func(out []tensor.Value) { out[0] = vectorLike(out[0], 16.1*4e-4) }},
		{name: "test:step", spoil: func(out []tensor.Value) { out[0] = vectorLike(out[0], 0.1) }}, // 3 % of matrix's 3
		{name: "test:nan", spoil: func(out []tensor.Value) { out[0] = vectorLike(out[0], nan()) }},
		{name: "test:shape", spoil: func(out []tensor.Value) { out[0] = vector(1) }},
		{name: "test:hang"},
	} {
		runners[r.name] = r
		driver.Register(r)
	}
}

func nan() float32 { var z float32; return z / z }

// vectorLike is a tensor of float32 with something added to every element.
func vectorLike(v tensor.Value, add float32) tensor.Value {
	t := v.(*tensor.Tensor).Clone()
	x := tensor.MustData[float32](t)
	for i := range x {
		x[i] += add
	}
	return t
}

func on(names ...string) []preset.Preset {
	var p []preset.Preset
	for _, n := range names {
		p = append(p, preset.Registered{Provider: n})
	}
	return p
}

// useClock lets the test measure by a clock that only runners advance.
func useClock(t testing.TB) {
	now = preset.UseClock(t)
	t.Cleanup(func() { now = nil })
}

// inTurn returns a function that returns the durations in milliseconds one after the other, again
// and again.
func inTurn(ms []time.Duration) func() time.Duration {
	k := 0
	return func() time.Duration {
		k++
		return ms[(k-1)%len(ms)] * time.Millisecond
	}
}
