package vec

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/testing/testkit"
)

var _ = testkit.Tested("axpyRowsF32")

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
						AxpyRowsF32(l, got, steps[0], testkit.GuardedCopy(t, x, side, 0), steps[1], n,
							testkit.GuardedCopy(t, s, side, 0))
						if !slices.Equal(got, want) {
							t.Fatalf("%d rows of %d, steps %v, %s: got another result than with AxpyF32",
								rows, n, steps, name)
						}
					})
				}
			}
		}
	})
}

var _ = testkit.Tested("subRowsF64")

// TestSubRows compares with loops.
func TestSubRows(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		rng := rand.New(rand.NewPCG(9, 8))
		numbers := func(n int) []float64 {
			x := make([]float64, n)
			for i := range x {
				x[i] = rng.NormFloat64()
			}
			return x
		}
		for n := 1; n < 40; n++ {
			for _, rows := range []int{0, 1, 3, 2*chunk/n + 1} {
				if rows > 3 && n%11 != 0 {
					continue
				}
				dstStep, sStep := n+2, 1+n%3
				dst, x, s := numbers(max(0, rows-1)*dstStep+n), numbers(n), numbers(max(0, rows-1)*sStep+1)
				want := slices.Clone(dst)
				subRowsF64Generic(want, dstStep, x, s, sStep, rows)
				testkit.Sides(func(name string, side testkit.Side) {
					got := testkit.GuardedCopy(t, dst, side, 0)
					SubRowsF64(l, got, dstStep, testkit.GuardedCopy(t, x, side, 0), testkit.GuardedCopy(t, s, side, 0),
						sStep, rows)
					for i, v := range got {
						if d := v - want[i]; max(d, -d) > 1e-14 {
							t.Fatalf("%d rows of %d, %s: element %d is %g, want %g", rows, n, name, i, v, want[i])
						}
					}
				})
			}
		}
	})
}
