package exec

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrMemoryLimit is the cause when a run would pass its memory limit.
var ErrMemoryLimit = errors.New("memory limit exceeded")

// account counts the bytes that the states of one run hold. It is the sum of their holds, so
// that it cannot become negative.
type account struct {
	limit int64 // 0: none
	used  atomic.Int64
}

// hold is the bytes of an account that one owner has reserved: a value, a call or a state. Only
// the methods of account change it, so that nothing is given back twice. Each owner is used by
// one goroutine.
type hold struct{ n int64 }

// reserve adds n bytes to a hold.
func (a *account) reserve(h *hold, n int64) error {
	if n < 0 {
		return fmt.Errorf("reservation of %d bytes overflows", n)
	}
	u := a.used.Add(n)
	if a.limit > 0 && (u > a.limit || u < 0) {
		a.used.Add(-n)
		return fmt.Errorf("%w: %d bytes more than the %d in use pass the limit of %d", ErrMemoryLimit, n, u-n, a.limit)
	}
	h.n += n
	return nil
}

// reduce gives back n bytes of a hold, or all that it has if that is less.
func (a *account) reduce(h *hold, n int64) {
	n = min(max(n, 0), h.n)
	h.n -= n
	a.used.Add(-n)
}

// release gives back a hold.
func (a *account) release(h *hold) {
	if h.n != 0 {
		a.used.Add(-h.n)
		h.n = 0
	}
}
