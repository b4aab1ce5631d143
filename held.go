package onward

import (
	"fmt"
	"sync/atomic"

	"github.com/onward-ml/onward/internal/goengine"
)

// held counts the memory that the data of a model takes, from reading its file to closing its
// engine: in [Limits.MaxMemory] and in the budget.
type held struct {
	limit  int64
	budget *MemoryBudget // nil: none
	n      atomic.Int64
}

func newHeld(l *Limits) *held { return &held{limit: goengine.MemoryLimit(*l), budget: l.Budget} }

func (h *held) reserve(n int64) error {
	if u := h.n.Add(n); n < 0 || u < 0 || u > h.limit {
		h.n.Add(-n)
		return fmt.Errorf("%w: the data of the model takes %d bytes or more, the limit is %d",
			ErrMemoryLimit, u, h.limit)
	}
	if h.budget == nil {
		return nil
	}
	if err := h.budget.Reserve(n); err != nil {
		h.n.Add(-n)
		return fmt.Errorf("data of the model: %w", err)
	}
	return nil
}

// reset releases all but n bytes.
func (h *held) reset(n int64) {
	if d := h.n.Swap(n) - n; h.budget != nil {
		h.budget.Release(d)
	}
}

func (h *held) release() { h.reset(0) }
