package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/testing/testkit"
)

var _ = testkit.Tested("normRowsF32")

// TestNormRows compares with the formula in float64, for every length.
func TestNormRows(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		rng := rand.New(rand.NewPCG(8, 1))
		for n := 1; n <= MostNormRow; n += 1 + n/130*37 {
			rows := 1 + n%4
			if n == 7 {
				rows = 1030 // more than one call takes
			}
			x, gain, bias := make([]float32, rows*n), make([]float32, n), make([]float32, n)
			for i := range x {
				x[i] = float32(rng.NormFloat64()*3 + 50)
			}
			for i := range gain {
				gain[i], bias[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
			}
			center := n%5 > 0
			const eps = 1e-5
			testkit.Sides(func(side string, s testkit.Side) {
				gx, gg, gb := testkit.GuardedCopy(t, x, s, 0), testkit.GuardedCopy(t, gain, s, 0),
					testkit.GuardedCopy(t, bias, s, 0)
				y, stats := testkit.Guarded[float32](t, rows*n, s, 0), testkit.Guarded[float32](t, 2*rows, s, 0)
				switch n % 3 {
				case 0:
					gg = nil
				case 1:
					gb = nil
				}
				if !NormRowsF32(l, y, gx, n, gg, gb, stats, center, eps) {
					t.Skip("no kernel")
				}
				for r := range rows {
					row := x[r*n:][:n]
					mean, v := 0., 0.
					for _, e := range row {
						mean += float64(e) / float64(n)
					}
					if !center {
						mean = 0
					}
					for _, e := range row {
						v += (float64(e) - mean) * (float64(e) - mean) / float64(n)
					}
					inv := 1 / math.Sqrt(v+eps)
					if m, i := float64(stats[2*r]), float64(stats[2*r+1]); math.Abs(m-mean) > 1e-7*math.Abs(mean) ||
						math.Abs(i-inv) > 1e-5*inv {
						t.Fatalf("%s, row %d of %d elements: mean %g and factor %g, want %g and %g", side,
							r, n, m, i, mean, inv)
					}
					for i, e := range row {
						g, b := 1., 0.
						if gg != nil {
							g = float64(gain[i])
						}
						if gb != nil {
							b = float64(bias[i])
						}
						want := (float64(e)-mean)*inv*g + b
						if got := float64(y[r*n+i]); !(math.Abs(got-want) <= 1e-5*math.Abs(want)+1e-6*math.Abs(b)+
							1e-7*math.Abs(mean*inv*g)) {
							t.Fatalf("%s, row %d of %d elements: element %d is %g, want %g", side, r, n, i, got, want)
						}
					}
				}
			})
		}
	})
}
