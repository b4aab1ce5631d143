package serve

import (
	"slices"
	"sync"
	"time"
)

// gate bounds the runs of all models together and shares them fairly: of the models that wait, the
// one that has run for the least time goes first (start-time fair queueing, Goyal et al. 1996). So a
// model with many or long requests does not hold up the others.
type gate struct {
	mu      sync.Mutex
	free    int
	waiting []*share
	clock   time.Duration // the used time of the last model that went first
}

// share is the part of a model in a gate.
type share struct {
	wake    func() // starts a batch of the model if it can
	used    time.Duration
	granted int // runs that the gate has set aside for the model
}

// take takes the right to one run. If there is none, the model waits, and wake is called later.
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
	// A model that comes back after a pause has saved nothing up.
	s.used = max(s.used, g.clock)
	if g.free > 0 {
		g.free--
		return true
	}
	g.waiting = append(g.waiting, s)
	return false
}

// give returns the right to a run that has taken some time.
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

// grant sets a run aside for the model that goes first. g.mu is held.
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

// decline returns what has been set aside for a model that has nothing to run.
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
