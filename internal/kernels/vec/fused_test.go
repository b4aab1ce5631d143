package vec

import (
	"math/rand/v2"
	"slices"
	"testing"

	testkit "github.com/onward-ml/onward/internal/testing"
)

// TestAxpyRows compares with one call of AxpyF32 for each row.
func TestAxpyRows(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		rng := rand.New(rand.NewPCG(7, 8))
		numbers := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
			return x
		}
		for n := 1; n < 70; n++ {
			for _, rows := range []int{1, 2, 5, 4*chunk/n + 1} {
				for _, steps := range [][2]int{{0, n}, {n, 0}, {n + 3, n + 1}, {0, 0}} {
					if rows > 5 && n%23 != 0 {
						continue
					}
					dst, x := numbers((rows-1)*steps[0]+n), numbers((rows-1)*steps[1]+n)
					s := numbers(rows)
					want := slices.Clone(dst)
					for i, f := range s {
						AxpyF32(l, want[i*steps[0]:][:n], x[i*steps[1]:], f)
					}
					testkit.Sides(func(name string, side testkit.Side) {
						got := testkit.GuardedCopy(t, dst, side, 0)
						AxpyRowsF32(l, got, steps[0], testkit.GuardedCopy(t, x, side, 0), steps[1], n, testkit.GuardedCopy(t, s, side, 0))
						if !slices.Equal(got, want) {
							t.Fatalf("%d rows of %d, steps %v, %s: got another result than with AxpyF32", rows, n, steps, name)
						}
					})
				}
			}
		}
	})
}
