package testkit

import (
	"fmt"
	"testing"
	"unsafe"
)

// Side is the end of a guarded slice that is adjacent to the guard page.
type Side bool

const (
	// Low puts the first element directly after the guard, at a multiple of 64 bytes plus the
	// offset.
	Low Side = false
	// High puts the guard directly after the last element.
	High Side = true
)

// Guarded returns a zeroed slice of n elements of T that the operating system guards: on the given
// side, an access beyond the slice faults at once (where pages cannot be protected, changed
// canaries fail the test at its end). With Low, offset elements separate the guard from the first
// element, so that every misalignment can be tested. The memory lives until the test ends.
func Guarded[T any](t testing.TB, n int, side Side, offset int) []T {
	t.Helper()
	var z T
	size := int(unsafe.Sizeof(z))
	b := guardedBytes(t, (n+offset)*size, side)
	if side == Low {
		b = b[offset*size:]
	} else {
		b = b[:n*size]
		if offset > 0 { // keep the last element at the guard: the offset is in front
			b = unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), offset*size)), n*size)
		}
	}
	if n == 0 {
		return []T{}
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// GuardedCopy returns a guarded slice with the contents of s.
func GuardedCopy[T any](t testing.TB, s []T, side Side, offset int) []T {
	t.Helper()
	g := Guarded[T](t, len(s), side, offset)
	copy(g, s)
	return g
}

// Sides calls f once for each side with its label.
func Sides(f func(name string, s Side)) {
	for _, s := range []Side{Low, High} {
		f(fmt.Sprintf("high=%v", bool(s)), s)
	}
}

// Scope calls f with a TB whose cleanups run when f returns. Properties that draw
// thousands of cases would otherwise keep all of their guarded slices to the end, and the
// system limits their number.
func Scope(t testing.TB, f func(t testing.TB)) {
	s := &scope{TB: t}
	defer func() {
		for i := len(s.cleanups) - 1; i >= 0; i-- {
			s.cleanups[i]()
		}
	}()
	f(s)
}

type scope struct {
	testing.TB
	cleanups []func()
}

func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }
