package ops

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

// TestArgOfLongRows compares rows that vector kernels search with the plain search.
func TestArgOfLongRows(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(1, 6))
		for _, n := range []int{31, 32, 33, 100, 1000} {
			x, f := make([]int64, n), make([]float64, n)
			for range 50 {
				for i := range x {
					x[i] = int64(r.IntN(n)) - int64(n/2)
					f[i] = float64(x[i])
				}
				if r.IntN(3) == 0 {
					f[r.IntN(n)] = math.NaN()
				}
				for _, last := range []bool{false, true} {
					if got, want := argOf(x, vec.ReduceMaxI64(l, x), argMax, last),
						argRow(x, argMax, last); got != want {
						t.Fatalf("greatest of %d integers is %d, want %d", n, got, want)
					}
					if got, want := argOf(f, vec.ReduceMinF64(l, f), argMin, last),
						argRow(f, argMin, last); got != want {
						t.Fatalf("smallest of %d numbers is %d, want %d", n, got, want)
					}
				}
			}
		}
	})
}
