package serve

import (
	"slices"
	"sync"
	"time"
)

// gate bounds the runs of all models together and shares them fairly: of the models that wait, the
// one with the least run time goes first (start-time fair queueing, Goyal et al. 1996). A model
// with many or long requests therefore does not delay the others.
type gate struct {
	mu      sync.Mutex
	free    int
	waiting []*share
	clock   time.Duration // virtual time: the largest used of the models that got a run
}

// share is the account of one model in a gate.
type share struct {
	wake    func()        // starts a batch of the model if it can
	used    time.Duration // virtual time: run time of the model, at least clock when it came back
	granted int           // runs that are reserved for the model
}

// take reports whether the model may start one run. If not, the model is queued, and wake is called
// when a run is reserved for it. A nil gate always allows the run.
func (g *gate) take(s *share) bool {
	if g == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case s.granted > 0:
		s.granted--
		return true
	case slices.Contains(g.waiting, s):
		return false
	}
	// A model gets no credit for the time in which it had no requests.
	s.used = max(s.used, g.clock)
	if g.free > 0 {
		g.free--
		g.clock = s.used
		return true
	}
	g.waiting = append(g.waiting, s)
	return false
}

// give ends a run of the model, which took ran, and starts the next model that waits.
func (g *gate) give(s *share, ran time.Duration) {
	if g == nil {
		return
	}
	g.mu.Lock()
	s.used += ran
	next := g.grant()
	g.mu.Unlock()
	if next != nil {
		next.wake()
	}
}

// grant reserves a run for the waiting model with the least used time and returns it, or nil if no
// model waits. g.mu is held.
func (g *gate) grant() *share {
	if len(g.waiting) == 0 {
		g.free++
		return nil
	}
	first := 0
	for i, s := range g.waiting {
		if s.used < g.waiting[first].used {
			first = i
		}
	}
	s := g.waiting[first]
	g.waiting = slices.Delete(g.waiting, first, first+1)
	g.clock = max(g.clock, s.used)
	s.granted++
	return s
}

// decline gives up the run that is reserved for a model, if the model has nothing to run.
func (g *gate) decline(s *share) {
	g.mu.Lock()
	var next *share
	if s.granted > 0 {
		s.granted--
		next = g.grant()
	}
	g.mu.Unlock()
	if next != nil {
		next.wake()
	}
}
