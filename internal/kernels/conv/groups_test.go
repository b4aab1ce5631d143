package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

// TestGroupsDoNotMix has infinities and NaN in some channels: other groups must not see them.
func TestGroupsDoNotMix(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		r := rand.New(rand.NewPCG(5, 2))
		for _, s := range []*Shape{
			shape2(1, 16, 16, 4, 5, 15, 3, 1, 1, 1), shape2(1, 40, 40, 2, 4, 4, 3, 2, 1, 1), shape2(1, 24, 24, 3, 6, 29, 1, 1, 1, 0), shape2(1, 12, 24, 4, 5, 5, 3, 1, 1, 0),
			shape2(1, 30, 60, 5, 5, 8, 1, 2, 1, 0), shape2(1, 96, 48, 3, 3, 3, 3, 1, 1, 1), shape2(1, 900, 12, 3, 3, 5, 3, 1, 1, 1),
		} {
			for _, e := range []int{0, 3, 7, 11} {
				b := newBlocked(r, s, e)
				n := product(s.In)
				for c := range s.Cin {
					if c*s.Group/s.Cin == 1 { // the second group
						b.x[c*n+r.IntN(n)] = []float32{float32(math.Inf(1)), float32(math.Inf(-1)),
							float32(math.NaN())}[c%3]
					}
				}
				NaiveGeneric(s, b.want, to64(b.x), to64(b.w), b.ep.to64())
				what := fmt.Sprintf("%v %+v epilogue %d", l, *s, e)
				b.check = func(got []float32) {
					for i, w := range b.want {
						if g := float64(got[i]); !(math.Abs(g-w) < 1e-3) && g != w &&
							(!math.IsNaN(g) || !math.IsNaN(w)) {
							t.Fatalf("%s: output %d is %g, want %g", what, i, g, w)
						}
					}
				}
				b.direct(t, l, e&1 == 0, false)
				if s.Cin == s.Cout && s.Cin/s.Group%2 == 0 && s.Cin/s.Group <= 8 {
					b.grouped(t, l, e&1 == 0, false)
				}
				if product(s.Kernel) == 1 {
					b.permuted(t, l, e&1 == 0, false, nil)
					b.permuted(t, l, e&1 == 0, false, r)
				}
			}
		}
	})
}
