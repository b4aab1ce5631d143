// Package cputime measures tests that must end soon, on machines of any load.
package cputime

import "time"

// Start is a point in time.
type Start struct {
	wall time.Time
	cpu  time.Duration
}

// Now returns the present point in time.
func Now() Start { return Start{time.Now(), Processor()} }

// Elapsed returns the time since s: the smaller one of the wall time, which other processes
// extend, and the processor time of this process, which its other threads extend.
func (s Start) Elapsed() time.Duration {
	return min(time.Since(s.wall), Processor()-s.cpu)
}

// ElapsedBy returns the time since s of work by some threads. With one thread it is
// [Start.Elapsed]. With several it is the wall time: Linux adds the processor time of other threads
// that run at their next tick only.
func (s Start) ElapsedBy(threads int) time.Duration {
	if threads > 1 {
		return time.Since(s.wall)
	}
	return s.Elapsed()
}
