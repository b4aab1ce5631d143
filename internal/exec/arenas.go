package exec

import (
	"slices"
	"sync"

	"github.com/onward-ml/onward/internal/memory"
)

// Arenas holds the idle memory of the states of several plans: that of planned values and scratch.
// States that replay their launches keep theirs. The zero value is ready to use.
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

// giveMemory gives the memory of a state that has ended back to its plan, unless launches refer to
// it or may be captured next time.
func (s *state) giveMemory() {
	if s.capture.captured {
		return
	}
	a := s.plan.opts.Arenas
	if len(s.arena) > captureLimit {
		a.put(s.arena)
		s.arena, s.layout = nil, nil
	}
	if len(s.scratch) > captureLimit {
		a.put(s.scratch)
		s.scratch = nil
	}
}
