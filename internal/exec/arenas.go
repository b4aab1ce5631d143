package exec

import (
	"slices"
	"sync"

	"github.com/onward-ml/onward/internal/memory"
)

// Arenas holds the idle memory of the states of several plans: that of planned values and scratch.
// A state takes the memory of its last run again if no other one has taken it meanwhile, since its
// captured launches refer to that. The zero value is ready to use.
type Arenas struct {
	mu   sync.Mutex
	idle [][]byte
}

// take returns at least n bytes with undefined contents.
func (a *Arenas) take(n int) []byte {
	a.mu.Lock()
	best := -1
	for i, b := range a.idle {
		if len(b) >= n && (best < 0 || len(b) < len(a.idle[best])) {
			best = i
		}
	}
	var b []byte
	if best >= 0 {
		b = a.idle[best]
		a.idle = slices.Delete(a.idle, best, best+1)
	}
	a.mu.Unlock()
	if b != nil {
		return b
	}
	return memory.Lasting(memory.Uninitialized(n))
}

// retake takes idle memory that the caller has put, and reports whether it still was idle.
func (a *Arenas) retake(b []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, x := range a.idle {
		if &x[0] == &b[0] {
			a.idle = slices.Delete(a.idle, i, i+1)
			return true
		}
	}
	return false
}

// put adds idle memory. Beyond a limit, the smallest block is freed.
func (a *Arenas) put(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.idle = append(a.idle, b)
	if len(a.idle) > 2*maxIdle() {
		smallest := 0
		for i, b := range a.idle {
			if len(b) < len(a.idle[smallest]) {
				smallest = i
			}
		}
		a.idle = slices.Delete(a.idle, smallest, smallest+1)
	}
}

// keptLimit is the size in bytes up to which states keep idle memory.
const keptLimit = 256 << 10

// giveMemory gives the memory of a state that has ended back to its plan, unless it is small.
func (s *state) giveMemory() {
	a := s.plan.opts.Arenas
	if len(s.arena) > keptLimit {
		a.put(s.arena)
		s.lent.arena, s.arena = s.arena, nil
	}
	if len(s.scratch) > keptLimit {
		a.put(s.scratch)
		s.lent.scratch, s.scratch = s.scratch, nil
	}
}

// takeBack takes the memory that the state has given away, if wanted, and reports whether it has
// the memory of its last run.
func (s *state) takeBack(wanted bool) bool {
	a, l := s.plan.opts.Arenas, s.lent
	s.lent = lent{}
	if wanted && l.arena != nil {
		if wanted = a.retake(l.arena); wanted {
			s.arena = l.arena
		}
	}
	if wanted && l.scratch != nil {
		wanted = s.run.account.reserve(&s.memory, s.grown) == nil && a.retake(l.scratch)
		if wanted {
			s.scratch = l.scratch
		}
	}
	return wanted
}
