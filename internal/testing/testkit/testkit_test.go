package testkit

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"unsafe"
)

func TestULP32(t *testing.T) {
	for _, c := range []struct {
		got  float32
		want float64
		ulp  float64
	}{
		{1, 1, 0},
		{1 + 0x1p-23, 1, 1},
		{1 - 0x1p-24, 1, 0.5},
		{1, 1 + 0x1p-24, 0.5},
		{math.SmallestNonzeroFloat32, 0, 1},
		{0, 0x1p-150, 0.5},
		{float32(math.NaN()), math.NaN(), 0},
		{0, math.NaN(), math.Inf(1)},
		{float32(math.Inf(1)), 1e40, 0},
		{math.MaxFloat32, math.Inf(1), math.Inf(1)},
		{float32(math.Inf(1)), 1, math.Inf(1)},
		{float32(math.Inf(-1)), math.Inf(1), math.Inf(1)},
	} {
		if got := ULP32(c.got, c.want); got != c.ulp {
			t.Errorf("ULP32(%g, %g) = %g, want %g", c.got, c.want, got, c.ulp)
		}
	}
}

const canGuard = runtime.GOOS == "linux" || runtime.GOOS == "darwin"

func TestGuardFaults(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	touch := func(p *float32, i int) (faulted bool) {
		defer func() { faulted = recover() != nil }()
		store(p, i)
		return false
	}
	for _, n := range []int{1, 7, 1024, 1025} {
		lo := Guarded[float32](t, n, Low, 0)
		hi := Guarded[float32](t, n, High, 3)
		if len(lo) != n || len(hi) != n {
			t.Fatalf("lengths %d, %d, want %d", len(lo), len(hi), n)
		}
		for i := range n {
			lo[i], hi[i] = 1, 1
		}
		if touch(&lo[0], 0) || touch(&hi[n-1], 0) {
			t.Errorf("n=%d: an element inside faults", n)
		}
		if canGuard && (!touch(&lo[0], -1) || !touch(&hi[n-1], 1)) {
			t.Errorf("n=%d: an element outside does not fault", n)
		}
	}
}

// store is a function of its own, so that its caller's deferred call is in place when it faults.
//
//go:noinline
func store(p *float32, i int) { *(*float32)(unsafe.Add(unsafe.Pointer(p), i*4)) = 0 }
