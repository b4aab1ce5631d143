package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
)

// longest is the largest CPU time between two checks of the context that is no finding.
// Operators aim at 10 ms; the allocation of large results and the garbage collector add up to
// 50 ms, and packing one large constant while opening takes as long. -gap 15ms shows loops that
// are worth a check.
var longest = flag.Duration("gap", 100*time.Millisecond,
	"cancel: the CPU time without a check of the context from which on a case is a finding")

// watched is a context that measures the CPU time between two calls of Err and ends at a given
// call or CPU time. Its user runs on one locked thread.
type watched struct {
	context.Context
	done   chan struct{}
	ended  bool
	calls  int
	endAt  int           // call at which the context ends; 0: none
	budget time.Duration // CPU time after which the context ends
	began  time.Duration
	last   time.Duration
	worst  time.Duration // largest CPU time between calls
	where  string        // call stacks of the checks before and after it
	at     [40]uintptr   // call stack of the last check
	depth  int           // of at
	after  int           // calls after the end
}

func newWatched(endAt int, budget time.Duration) *watched {
	now := threadTime()
	return &watched{Context: context.Background(), done: make(chan struct{}), endAt: endAt, budget: budget,
		began: now, last: now}
}

// Done implements [context.Context].
func (w *watched) Done() <-chan struct{} { return w.done }

// Deadline implements [context.Context].
func (w *watched) Deadline() (time.Time, bool) { return time.Time{}, false }

// Err implements [context.Context].
func (w *watched) Err() error {
	w.calls++
	now := threadTime()
	var pc [40]uintptr
	n := runtime.Callers(2, pc[:])
	w.gap(now, pc[:n])
	w.at, w.depth = pc, n
	if w.ended {
		w.after++
	} else if w.calls == w.endAt || now-w.began > w.budget {
		w.ended = true
		close(w.done)
	}
	w.last = threadTime()
	if w.ended {
		return context.Canceled
	}
	return nil
}

// gap ends an interval without checks at the given call stack, nil at the end of the call.
func (w *watched) gap(now time.Duration, pc []uintptr) {
	if d := now - w.last; d > w.worst {
		w.worst, w.where = d, ""
		if d > *longest {
			w.where = "from " + cmp.Or(callers(w.at[:w.depth]), "the start") + "\nto   " +
				cmp.Or(callers(pc), "the end")
		}
	}
	w.last = now
}

// callers returns the functions of this module on a call stack, innermost first.
func callers(pc []uintptr) string {
	if len(pc) == 0 {
		return ""
	}
	frames := runtime.CallersFrames(pc)
	var s []string
	for len(s) < 6 {
		f, more := frames.Next()
		if _, name, ok := strings.Cut(f.Function, "github.com/onward-ml/"); ok &&
			!strings.Contains(name, "testing/attack.(*watched)") {
			s = append(s, fmt.Sprintf("%s:%d", name, f.Line))
		}
		if !more {
			break
		}
	}
	return strings.Join(s, " < ")
}

// tryCancel runs a large call of an operator with one thread. It measures the CPU time between
// checks of the context, until the context ends at a random one of them or after the budget. Many
// sizes do not fit together, so it tries several.
func tryCancel(a *attack, name string, seed uint64) (*attempt, error) {
	rng := rand.New(rand.NewPCG(seed, hash(name)))
	if h := heavy[name]; h != nil {
		return a.cancelled(h(rng), []string{"cpu", "reference"}[rng.IntN(2)], 0)
	}
	for range 10 {
		c := a.draw(name, rng.Uint64()>>1, 1<<(10+rng.IntN(a.bits-10)))
		if c == nil {
			return nil, nil
		}
		clear(c.Constant)
		if rng.IntN(4) == 0 {
			for i := range c.Constant {
				c.Constant[i] = i > 0
			}
		}
		endAt := 0
		if rng.IntN(2) == 0 {
			endAt = 1 + rng.IntN(200)
		}
		at, err := a.cancelled(c, []string{"cpu", "reference"}[rng.IntN(2)], endAt)
		if at != nil || err != nil {
			return at, err
		}
	}
	return nil, nil
}

func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// cancelled runs a case whose context ends at a given check, or after the budget. It returns nil if
// the case is not valid. A finding is one that occurs in each of three runs and is longer than the
// first use of a large result now takes: the operating system's memory management counts as CPU
// time too, and on a loaded machine it can take 100 ms.
func (a *attack) cancelled(c *opfuzz.Case, provider string, endAt int) (at *attempt, err error) {
	for range 3 {
		if at, err = cancelledOnce(c, provider, endAt, a.budget); err == nil {
			return at, nil
		}
	}
	if g := (*gapError)(nil); errors.As(err, &g) && g.worst <= *longest+firstUse(1<<a.bits) {
		return at, nil
	}
	return at, err
}

// firstUse returns the CPU time that the first use of two results of n strings takes.
func firstUse(n int) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadTime()
	for range 2 {
		b := make([]string, n)
		for i := 0; i < n; i += 256 { // each page
			b[i] = "x"
		}
		runtime.KeepAlive(b)
	}
	return threadTime() - began
}

func cancelledOnce(c *opfuzz.Case, provider string, endAt int, budget time.Duration) (*attempt, error) {
	m, feed, err := c.Model()
	if err != nil {
		return nil, nil
	}
	at := &attempt{model: m, feed: feed, text: fmt.Sprintf("%.2000s", c)}
	opts := &onward.SessionOptions{Threads: 1, Limits: onward.Limits{MaxMemory: 1 << 30},
		Providers: []onward.ProviderConfig{{Name: provider}}}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	w := newWatched(0, time.Second)
	s, err := onward.OpenModel(w, m, opts)
	w.gap(threadTime(), nil)
	if err := w.late("opening on " + provider); err != nil {
		return at, err
	}
	if err != nil {
		return nil, nil
	}
	defer s.Close()
	w = newWatched(endAt, budget)
	_, err = s.Run(w, feed, nil)
	w.gap(threadTime(), nil)
	switch late := w.late("running on " + provider); {
	case late != nil:
		return at, late
	case w.after > 100_000:
		return at, fmt.Errorf("running on %s: %d checks of the context after it had ended", provider, w.after)
	case err != nil && !w.ended:
		return nil, nil
	}
	return at, nil
}

// gapError is an interval without a check of the context that is too long.
type gapError struct {
	doing, where string
	worst        time.Duration
}

func (e *gapError) Error() string {
	return fmt.Sprintf("%s: %v of CPU time without a check of the context\n%s", e.doing,
		e.worst.Round(time.Millisecond), e.where)
}

// late returns an error for too long an interval without a check of the context.
func (w *watched) late(doing string) error {
	if w.worst <= *longest {
		return nil
	}
	return &gapError{doing, w.where, w.worst}
}
