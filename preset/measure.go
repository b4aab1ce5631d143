package preset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/tensor"
)

// clock is the time of measurements and their limits. Tests replace it.
type clock struct {
	now         func() time.Time
	after       func(time.Duration) <-chan time.Time
	withTimeout func(context.Context, time.Duration) (context.Context, context.CancelFunc)
}

var system = clock{time.Now, time.After, context.WithTimeout}

func (c clock) since(t time.Time) time.Duration { return c.now().Sub(t) }

// bounded calls f and waits for it at most until the context ends or the limit, if it is
// not 0, has passed: a native library may ignore its context. A result that comes too
// late is passed to drop.
func bounded[T any](ctx context.Context, limit time.Duration, f func(context.Context) (T, error),
	drop func(T)) (T, error) {
	type result struct {
		v   T
		err error
	}
	inner, cancel := ctx, context.CancelFunc(func() {})
	if limit > 0 {
		inner, cancel = system.withTimeout(ctx, limit)
	}
	defer cancel() // here f has returned, or inner has ended
	done := make(chan result, 1)
	go func() {
		v, err := f(inner)
		done <- result{v, err}
	}()
	var zero T
	select {
	case r := <-done:
		return r.v, r.err
	case <-inner.Done():
	}
	// A function that observes its context returns now, with a more precise error.
	const grace = 200 * time.Millisecond
	late := func() {
		if r := <-done; r.err == nil && drop != nil {
			drop(r.v)
		}
	}
	select {
	case r := <-done:
		if ctx.Err() == nil {
			if errors.Is(r.err, context.DeadlineExceeded) {
				r.err = fmt.Errorf("exceeded the limit of %v: %w", limit, r.err)
			}
			return r.v, r.err
		}
		done <- r
		late()
	case <-system.after(grace):
		go late()
	}
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	return zero, fmt.Errorf("exceeded the limit of %v: %w", limit, context.DeadlineExceeded)
}

// timing holds the times of one block of runs.
type timing struct {
	open   time.Duration
	median time.Duration // of a run
	runs   int
	out    *backend.Outputs // of the first run
}

// measure opens a preset, runs it for about the duration, and closes it, so that its
// threads do not disturb the measurement of the next one.
func measure(ctx context.Context, open func(context.Context) (*backend.Rep, error), in backend.Inputs,
	duration time.Duration) (timing, error) {
	var t timing
	start := system.now()
	rep, err := open(ctx)
	if err != nil {
		return t, err
	}
	defer rep.Close()
	t.open = system.since(start)
	if t.out, err = rep.Run(ctx, in, nil); err != nil {
		return t, err
	}
	// With a context that can end, some providers start a goroutine for each run.
	free := context.WithoutCancel(ctx)
	once := func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, err := rep.Run(free, in, nil)
		return err
	}
	start = system.now()
	n := 0
	for ; n == 0 || system.since(start) < duration/5; n++ {
		if err := once(); err != nil {
			return t, err
		}
	}
	// Runs that are short compared with the clock's resolution are timed in groups.
	group := 1
	if per := system.since(start) / time.Duration(n); per < 20*time.Microsecond {
		group = int(50*time.Microsecond/max(per, 1)) + 1
	}
	var times []time.Duration
	for start := system.now(); len(times) == 0 || system.since(start) < duration; {
		begin := system.now()
		for range group {
			if err := once(); err != nil {
				return t, err
			}
		}
		times = append(times, system.since(begin)/time.Duration(group))
		t.runs += group
	}
	t.median = median(times)
	return t, nil
}

func median(x []time.Duration) time.Duration {
	s := slices.Clone(x)
	sort.Slice(s, func(i, k int) bool { return s[i] < s[k] })
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

// differ compares the outputs of a run with those of another engine. It returns the
// largest difference in a floating-point output relative to the largest magnitude of
// that output, and an error for outputs that differ by more than the tolerance.
func differ(got, want *backend.Outputs, tolerance float64) (worst float64, err error) {
	for i, name := range want.Names {
		if i >= len(got.Values) {
			return worst, fmt.Errorf("output %q is missing", name)
		}
		g, _ := got.Values[i].(*tensor.Tensor)
		w, _ := want.Values[i].(*tensor.Tensor)
		rtol, atol := tolerance, tolerance
		if g != nil && w != nil {
			rtol = 0
			switch d := w.DType(); {
			case d == tensor.TypeUint8 || d == tensor.TypeInt8:
				atol = 1 // the value may be rounded differently
			case !d.IsFloat():
				atol = 0
			default:
				if atol == 0 && (d == tensor.TypeFloat16 || d == tensor.TypeBFloat16) {
					atol = 2e-2
				} else if atol == 0 {
					atol = 1e-3
				}
				scale := magnitude(w)
				if abs, _, err := tensor.Distance(g, w); err == nil && scale > 0 && !math.IsNaN(abs) &&
					!math.IsInf(abs, 0) {
					worst = max(worst, abs/scale)
				}
				atol *= scale
			}
		} else if tolerance == 0 {
			rtol, atol = 1e-3, 1e-6
		}
		if e := tensor.AllClose(got.Values[i], want.Values[i], rtol, atol); e != nil {
			err = errors.Join(err, fmt.Errorf("output %q: %w", name, e))
		}
	}
	return worst, err
}

// magnitude returns the largest finite absolute value in a tensor of floats.
func magnitude(t *tensor.Tensor) float64 {
	var m float64
	v, err := tensor.Float64s(t)
	if err != nil {
		return 0
	}
	for _, x := range v {
		if x = math.Abs(x); x > m && !math.IsInf(x, 0) {
			m = x
		}
	}
	return m
}
