package ir

import "iter"

// GrainWatch is the number of elements between checks of the context in serial loops.
const GrainWatch = 64 << 10

// meterSteps is the number of elementary operations between two checks of a [Meter], about a
// millisecond. An operation that misses the caches takes ten times as long.
const meterSteps = 1 << 17

// Meter counts work, so that loops check for cancellation from time to time.
type Meter struct {
	C    *Call
	left int
}

// Spend counts n elementary operations and reports whether the run may continue.
func (m *Meter) Spend(n int) bool {
	if m.left -= n + 1; m.left > 0 {
		return true
	}
	m.left = meterSteps
	return m.C.Err() == nil
}

// Check counts n elementary operations. It does not return if the run must stop.
func (m *Meter) Check(n int) {
	if m.left -= n + 1; m.left <= 0 {
		m.left = meterSteps
		m.C.Check()
	}
}

// Clear sets the elements of s to zero and checks the context between pieces of it. It does not
// return if the run must stop.
func Clear[T any](c *Call, s []T) {
	for lo, hi := range Steps(c, len(s)) {
		clear(s[lo:hi])
	}
}

// Copy copies src to dst, which is as long, and checks the context between pieces of it. It does
// not return if the run must stop.
func Copy[T any](c *Call, dst, src []T) {
	for lo, hi := range Steps(c, len(src)) {
		copy(dst[lo:hi], src[lo:hi])
	}
}

// Steps returns ranges that cover [0, n) for loops within one item, and checks the context between
// them. It does not return if the run must stop.
func Steps(c *Call, n int) iter.Seq2[int, int] {
	return func(yield func(lo, hi int) bool) {
		for lo := 0; lo < n; lo += GrainWatch {
			if lo > 0 {
				c.Check()
			}
			if !yield(lo, min(n, lo+GrainWatch)) {
				return
			}
		}
	}
}
