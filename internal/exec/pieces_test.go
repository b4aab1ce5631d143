package exec

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// TestPieces checks that sections check the context between pieces, whose lengths follow from
// their duration.
func TestPieces(t *testing.T) {
	defer func() { clock = time.Now }()
	const n, grain = 100_000, 10
	for _, c := range []struct {
		item time.Duration // cost
		most int           // pieces
	}{{time.Nanosecond, 5}, {time.Microsecond, 240}, {100 * time.Microsecond, n / grain}} {
		now := time.Time{}
		clock = func() time.Time { return now }
		r := &run{ctx: context.Background(), done: make(chan struct{})}
		at, pieces := 0, 0
		ok := r.pieces(0, n, grain, func(lo, hi int) {
			if lo != at || hi <= lo || hi-lo < grain && hi != n {
				t.Fatalf("items of %v: piece [%d, %d) after %d", c.item, lo, hi, at)
			}
			d := time.Duration(hi-lo) * c.item
			if d > 10*time.Millisecond && hi-lo > grain {
				t.Errorf("items of %v: a piece of %d items takes %v, want at most 10ms", c.item, hi-lo, d)
			}
			now = now.Add(d)
			at = hi
			pieces++
		})
		if !ok || at != n {
			t.Errorf("items of %v: ended at %d of %d, %t", c.item, at, n, ok)
		}
		if pieces > c.most {
			t.Errorf("items of %v: %d pieces, want at most %d", c.item, pieces, c.most)
		}
	}
}

// TestSerialRunsYield checks that serial runs let other goroutines run every millisecond, within
// sections and between them, and that other runs do not.
func TestSerialRunsYield(t *testing.T) {
	now := time.Time{}
	yields := 0
	clock, yield = func() time.Time { return now }, func() { yields++ }
	defer func() { clock, yield = time.Now, runtime.Gosched }()
	for _, c := range []struct {
		serial   bool
		item     time.Duration
		sections int
		want     int
	}{
		{true, 100 * time.Microsecond, 1, 5},  // a piece of 1 ms, then of 2 ms
		{true, 10 * time.Microsecond, 50, 49}, // sections of 1 ms
		{true, 10 * time.Nanosecond, 100, 0},  // 0.1 ms in all
		{false, 100 * time.Microsecond, 1, 0},
	} {
		yields = 0
		r := &run{ctx: context.Background(), done: make(chan struct{}), serial: c.serial, turn: now}
		s := &state{run: r, plan: &Plan{}}
		for range c.sections {
			s.Serial(100, 10, func(lo, hi int) { now = now.Add(time.Duration(hi-lo) * c.item) })
		}
		if yields != c.want {
			t.Errorf("%d sections of 100 items of %v, serial %t: %d yields, want %d", c.sections, c.item,
				c.serial, yields, c.want)
		}
	}
}

// ending is a context that ends at a given call of Err.
type ending struct {
	context.Context
	done  chan struct{}
	end   int64
	calls atomic.Int64
}

func (e *ending) Done() <-chan struct{} { return e.done }

func (e *ending) Err() error {
	if e.calls.Add(1) < e.end {
		return nil
	}
	return context.Canceled
}

// sections runs sections of several kinds. The second one reads the results of the first.
type sections struct {
	how      func(c *ir.Call, n, grain int, fn func(lo, hi int))
	returned *bool // the operator continued after a section that had ended early
}

func (sections) Infer(c *ir.InferContext) error { c.SetOut(0, c.Type(0)); return nil }

func (s sections) Run(c *ir.Call) error {
	const n = 1000
	index, err := ir.ScratchOf[int64](c, n)
	if err != nil {
		return err
	}
	for i := range index {
		index[i] = -1 // an invalid index
	}
	s.how(c, n, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			index[i] = int64(i)
		}
	})
	for _, v := range index {
		*s.returned = *s.returned || v < 0
	}
	x := c.Tensor(0)
	_, err = c.Output(0, x.DType(), x.Shape()...)
	return err
}

// TestSectionThatEndsEarlyDoesNotReturn checks that an operator never sees the results of a
// section that the end of the context has interrupted.
func TestSectionThatEndsEarlyDoesNotReturn(t *testing.T) {
	// Pieces of one item.
	var now atomic.Int64
	clock = func() time.Time { return time.Time{}.Add(time.Duration(now.Add(int64(time.Second)))) }
	defer func() { clock = time.Now }()
	for how, f := range map[string]func(c *ir.Call, n, grain int, fn func(lo, hi int)){
		"Parallel": (*ir.Call).Parallel,
		"Serial":   (*ir.Call).Serial,
		"Launch":   func(c *ir.Call, n, grain int, fn func(lo, hi int)) { c.Launch(n, grain, fn); c.Sync() },
	} {
		for name, pool := range map[string]*Pool{"no pool": nil, "one thread": NewPool(1, true),
			"three threads": NewPool(3, true)} {
			returned := false
			p, err := Compile(t.Context(), chain(t, sections{f, &returned}), Options{Pool: pool})
			if err != nil {
				t.Fatal(err)
			}
			for _, end := range []int64{5, 300, 900} {
				ctx := &ending{Context: context.Background(), done: make(chan struct{}), end: end}
				if _, err := p.Run(ctx, &Request{Inputs: []tensor.Value{input(4)}}); !errors.Is(err, context.Canceled) {
					t.Errorf("%s with %s, end at check %d: error is %v, want context canceled", how, name, end, err)
				}
				if returned {
					t.Fatalf("%s with %s: the section returned to its operator before it was complete", how, name)
				}
				if calls := ctx.calls.Load(); calls > end+20 {
					t.Errorf("%s with %s: %d checks after the end", how, name, calls-end)
				}
			}
			if _, err := p.Run(t.Context(), &Request{Inputs: []tensor.Value{input(4)}}); err != nil {
				t.Errorf("%s with %s: a run after the ended ones: %v", how, name, err)
			}
			if pool != nil {
				pool.Close()
			}
		}
	}
}

// TestSerialRunsUseNoWorkers checks that a run with Request.Serial starts no worker, with parallel
// sections and with launches.
func TestSerialRunsUseNoWorkers(t *testing.T) {
	for how, f := range map[string]func(c *ir.Call, n, grain int, fn func(lo, hi int)){
		"Parallel": (*ir.Call).Parallel,
		"Launch":   func(c *ir.Call, n, grain int, fn func(lo, hi int)) { c.Launch(n, grain, fn); c.Sync() },
	} {
		pool, returned := testPool(t, 3, 3), false
		var started atomic.Bool
		for i := range pool.workers {
			w := &pool.workers[i]
			w.run = func() { started.Store(true); w.loop() }
		}
		p, err := Compile(t.Context(), chain(t, sections{f, &returned}), Options{Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		for _, serial := range []bool{true, false} {
			if _, err := p.Run(t.Context(), &Request{Inputs: []tensor.Value{input(4)}, Serial: serial}); err != nil {
				t.Fatal(err)
			}
			for i := 0; i < 10000 && !serial && !started.Load(); i++ {
				time.Sleep(time.Millisecond) // the goroutine has been created
			}
			if started.Load() == serial {
				t.Errorf("%s: workers started is %v after a run with Serial %v", how, !serial, serial)
			}
		}
	}
}
