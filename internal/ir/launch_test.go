package ir

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestLaunchWith checks that each item of two launches that are one runs once, however the ranges
// are cut.
func TestLaunchWith(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var hits [2][]int
		launch := func(i, n int) Launch {
			hits[i] = make([]int, n)
			return Launch{N: n, Kernel: func(lo, hi int) {
				if lo < 0 || hi > n || lo >= hi {
					t.Fatalf("launch %d of %d items gets %d to %d", i, n, lo, hi)
				}
				for j := lo; j < hi; j++ {
					hits[i][j]++
				}
			}}
		}
		l := launch(0, rapid.IntRange(1, 30).Draw(t, "n")).With(launch(1, rapid.IntRange(1, 30).Draw(t, "other")))
		for lo := 0; lo < l.N; {
			hi := rapid.IntRange(lo+1, l.N).Draw(t, "hi")
			l.Kernel(lo, hi)
			lo = hi
		}
		for i, h := range hits {
			if slices.Max(h) != 1 || slices.Min(h) != 1 {
				t.Errorf("items of launch %d run %v times, want once", i, h)
			}
		}
	})
}
