package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

var _ = testkit.Tested("pairSumsF32")

// TestPairSums compares with Go code, and checks which indices have groups.
func TestPairSums(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		for _, n := range []int{31, 32, 33, 100, 1000} {
			for _, sums := range []int{7, 8, 9, 16, 100, 2 * n} {
				for _, spread := range []int{0, 20, 31, 32} {
					index, weight := make([]int, 2*sums), make([]float32, 2*sums)
					x, y := testkit.Guarded[float32](t, n, testkit.High, 0),
						testkit.Guarded[float32](t, sums, testkit.High, 0)
					for i := range x {
						x[i] = rand.Float32() - 0.5
					}
					for i := range index {
						base := i / 16 * 16 * max(0, n-spread-1) / (2 * sums)
						index[i], weight[i] = min(n-1, base+rand.IntN(spread+1)), rand.Float32()
					}
					p := NewPairs(l, n, index, weight)
					if p == nil {
						if l == cpu.AVX512 && n >= 32 && sums%8 == 0 && spread < 32 {
							t.Fatalf("%d elements, %d sums: no groups", n, sums)
						}
						continue
					}
					p.Sum(y, x)
					for i := range y {
						a, b := weight[2*i]*x[index[2*i]], weight[2*i+1]*x[index[2*i+1]]
						if want := float32(float64(a) + float64(b)); math.Float32bits(y[i]) != math.Float32bits(want) {
							t.Fatalf("%d elements, sum %d of %d is %g, want %g", n, i, sums, y[i], want)
						}
					}
				}
			}
		}
	})
}
