package cputime

import (
	"testing"
	"time"
)

func TestElapsed(t *testing.T) {
	s := Now()
	time.Sleep(50 * time.Millisecond)
	slept := s.Elapsed()
	for x := 0.0; s.Elapsed() < slept+20*time.Millisecond; x++ { // ends if work is counted
		_ = x
	}
	if wall := time.Since(s.wall); s.Elapsed() > wall {
		t.Errorf("%v have elapsed, more than the %v of the clock", s.Elapsed(), wall)
	}
}
