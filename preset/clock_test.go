package preset

import (
	"context"
	"sync"
	"testing"
	"time"
)

// Clock is a clock that stands, except for a microsecond with each look at it, until
// [Clock.Advance].
type Clock struct {
	mu     sync.Mutex
	t      time.Time
	limits []*limit
}

// limit is a context with a deadline by the clock.
type limit struct {
	context.Context // that is canceled at the deadline
	clock           *Clock
	at              time.Time
	cancel          context.CancelFunc
	passed          bool
}

func (l *limit) Deadline() (time.Time, bool) { return l.at, true }

func (l *limit) Err() error {
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	if l.passed {
		return context.DeadlineExceeded
	}
	return l.Context.Err()
}

// UseClock lets measurements and limits see a new clock until the test ends.
func UseClock(t testing.TB) *Clock {
	c := &Clock{t: time.Unix(0, 0)}
	old := system
	t.Cleanup(func() { system = old })
	system = clock{
		now: func() time.Time {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.t = c.t.Add(time.Microsecond)
			return c.t
		},
		after: func(d time.Duration) <-chan time.Time { // nothing else happens until then
			passed := make(chan time.Time, 1)
			passed <- c.t
			return passed
		},
		withTimeout: func(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
			c.mu.Lock()
			defer c.mu.Unlock()
			l := &limit{clock: c, at: c.t.Add(d)}
			l.Context, l.cancel = context.WithCancel(parent)
			c.limits = append(c.limits, l)
			return l, l.cancel
		},
	}
	return c
}

// Advance lets time pass.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
	for _, l := range c.limits {
		if !l.passed && !l.at.After(c.t) && l.Context.Err() == nil {
			l.passed = true
			l.cancel()
		}
	}
}
