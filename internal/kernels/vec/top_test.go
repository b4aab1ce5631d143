package vec

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

var _ = testkit.Tested("topLeavesF32", "topMaxima", "topTake", "topRowsF32")

func TestTop(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		if !HasTop(l) {
			t.Skip("no kernel")
		}
		special := []float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), -float32(math.NaN()),
			float32(math.Inf(1)), float32(math.Inf(-1)), 1e-45, -1e-45, math.MaxFloat32, -math.MaxFloat32}
		var top Top
		for _, n := range []int{70001, 1, 2, 15, 16, 17, 100, 255, 256, 257, 1000, 4096, 4097,
			chunk, 2*chunk + 5, 70000} {
			for _, largest := range []bool{true, false} {
				top.Resize(n, largest)
				for kind := range 3 {
					x := testkit.Guarded[float32](t, n, testkit.High, 0)
					for i := range x {
						switch kind {
						case 0:
							x[i] = float32(rand.NormFloat64())
						case 1:
							x[i] = float32(rand.IntN(5) - 2)
						default:
							x[i] = special[rand.IntN(len(special))]
						}
					}
					want := make([]int64, n)
					for i := range want {
						want[i] = int64(i)
					}
					slices.SortStableFunc(want, func(i, j int64) int {
						if largest {
							i, j = j, i
						}
						return cmp.Compare(rankOf(x[i]), rankOf(x[j]))
					})
					more := func() bool { return true }
					if !top.Set(x, more) {
						t.Fatal("Set ended")
					}
					got := testkit.Guarded[int64](t, min(n, 5000), testkit.High, 0)
					top.Take(got[:len(got)/3], more)
					top.Take(got[len(got)/3:], more)
					both := testkit.Guarded[int64](t, 2*len(got), testkit.High, 0)
					top.Rows(both, append(slices.Clone(x), x...), len(got), more)
					if !slices.Equal(both, append(slices.Clone(got), got...)) {
						t.Fatalf("%d elements, largest %v, kind %d: Rows has %v for two equal rows, want twice %v", n,
							largest, kind, both, got)
					}
					for i := range got {
						if got[i] != want[i] {
							t.Fatalf("%d elements, largest %v, kind %d: place %d is element %d, %v, want "+
								"element %d, %v", n, largest, kind, i, got[i], x[got[i]], want[i], x[want[i]])
						}
					}
				}
			}
		}
	})
}

// rankOf has NaN above all numbers.
func rankOf(v float32) float64 {
	switch {
	case v != v:
		return math.Inf(1)
	case math.IsInf(float64(v), 0):
		return math.Copysign(1e300, float64(v))
	}
	return float64(v)
}

func TestTopEnds(t *testing.T) {
	if !HasTop(cpu.Active()) {
		t.Skip("no kernel")
	}
	x := make([]float32, 3*chunk)
	var top Top
	top.Resize(len(x), true)
	for calls := range 4 {
		left := calls
		more := func() bool { left--; return left >= 0 }
		if top.Set(x, more) {
			t.Errorf("Set went on after %d parts", calls)
		}
	}
	at := make([]int64, 200)
	top.Set(x, func() bool { return true })
	left := 1
	top.Take(at, func() bool { left--; return left >= 0 })
	if at[127] != 127 || at[128] != 0 {
		t.Errorf("Take has %d and %d at places 127 and 128, want 127 and 0", at[127], at[128])
	}
}
