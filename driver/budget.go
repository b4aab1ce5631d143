package driver

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrMemoryBudget is the error of a run that would exceed a [MemoryBudget]. It can succeed later,
// when other runs have ended.
var ErrMemoryBudget = errors.New("memory budget exceeded")

// MemoryBudget bounds the memory of the runs and of the models' data of several sessions together.
// It is safe for concurrent use. Other memory that a session keeps for later runs is not counted.
type MemoryBudget struct{ limit, used atomic.Int64 }

// NewMemoryBudget returns a budget with a limit in bytes. 0 selects half of the machine's
// memory, which applies from the first session of the Go engine with the budget; until then
// there is no limit.
func NewMemoryBudget(bytes int64) *MemoryBudget {
	b := new(MemoryBudget)
	b.limit.Store(max(bytes, 0))
	return b
}

// SetDefault sets the limit of a budget that has none. Engines call it.
func (b *MemoryBudget) SetDefault(bytes int64) { b.limit.CompareAndSwap(0, bytes) }

// Limit returns the limit in bytes, 0 for no limit.
func (b *MemoryBudget) Limit() int64 { return b.limit.Load() }

// Used returns the number of bytes that are reserved.
func (b *MemoryBudget) Used() int64 { return b.used.Load() }

// Reserve reserves bytes, or fails with [ErrMemoryBudget]. Release gives them back.
func (b *MemoryBudget) Reserve(n int64) error {
	for {
		limit, used := b.limit.Load(), b.used.Load()
		if limit > 0 && n > limit-used {
			return fmt.Errorf("%w: cannot reserve %d bytes: %d of %d are in use", ErrMemoryBudget, n, used, limit)
		}
		if b.used.CompareAndSwap(used, used+n) { // a refused reservation must not take room for a moment
			return nil
		}
	}
}

// Release gives reserved bytes back.
func (b *MemoryBudget) Release(n int64) { b.used.Add(-n) }
