package exec

import (
	"errors"
	"runtime"
	"sync/atomic"

	"github.com/onward-ml/onward/internal/fail"
)

// ErrMemoryLimit is the error of a run that would exceed its memory limit.
var ErrMemoryLimit = errors.New("memory limit exceeded")

// account counts the bytes that the states of one run have reserved: the sum of its holds, which
// cannot become negative.
type account struct {
	limit  int64 // 0: no limit
	used   atomic.Int64
	budget Budget // what the bytes are reserved in besides; nil: none
	// garbage is the number of bytes that have been released since reserve ran the garbage
	// collector, and that only the collector makes free.
	garbage atomic.Int64
}

// garbageLeast is the least garbage in bytes for which a run runs the garbage collector.
const garbageLeast = 16 << 20

// Budget bounds the memory of several runs together.
type Budget interface {
	Reserve(n int64) error
	Release(n int64)
}

// hold is the number of bytes that one owner has reserved in an account: a value, a call or a
// state. Only the methods of account change it, so that nothing is released twice. Each owner is
// used by one goroutine.
type hold struct{ n int64 }

// reserve adds n bytes to a hold. It runs the garbage collector if they fit only into garbage.
func (a *account) reserve(h *hold, n int64) error {
	if n < 0 {
		return fail.Errorf("reservation of %d bytes overflows", n)
	}
	u := a.used.Add(n)
	if a.limit > 0 && (u > a.limit || u < 0) {
		a.used.Add(-n)
		return fail.Errorf("%w: %d bytes beyond the %d in use exceed the limit of %d", ErrMemoryLimit, n, u-n, a.limit)
	}
	if a.budget != nil && n > 0 {
		if err := a.budget.Reserve(n); err != nil {
			a.used.Add(-n)
			return err
		}
	}
	h.n += n
	if g := a.garbage.Load(); a.limit > 0 && u+g > a.limit && g > max(a.limit/16, garbageLeast) &&
		a.garbage.CompareAndSwap(g, 0) {
		runtime.GC() // by itself, it would wait until the heap has doubled
	}
	return nil
}

// give releases n bytes.
func (a *account) give(n int64) {
	a.used.Add(-n)
	if a.budget != nil && n > 0 {
		a.budget.Release(n)
	}
}

// reduce releases n bytes of a hold, or all if it has less.
func (a *account) reduce(h *hold, n int64) {
	n = min(max(n, 0), h.n)
	h.n -= n
	a.garbage.Add(n)
	a.give(n)
}

// release releases a hold, whose memory is garbage from now on.
func (a *account) release(h *hold) {
	if h.n != 0 {
		a.garbage.Add(h.n)
		a.recycle(h)
	}
}

// recycle releases a hold whose memory another one may take.
func (a *account) recycle(h *hold) {
	if h.n != 0 {
		a.give(h.n)
		h.n = 0
	}
}
