package exec

import (
	"errors"
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
}

// Budget bounds the memory of several runs together.
type Budget interface {
	Reserve(n int64) error
	Release(n int64)
}

// hold is the number of bytes that one owner has reserved in an account: a value, a call or a
// state. Only the methods of account change it, so that nothing is released twice. Each owner is
// used by one goroutine.
type hold struct{ n int64 }

// reserve adds n bytes to a hold.
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
	a.give(n)
}

// release releases a hold.
func (a *account) release(h *hold) {
	if h.n != 0 {
		a.give(h.n)
		h.n = 0
	}
}
