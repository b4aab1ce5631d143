package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/testing/testkit"
)

var _ = testkit.Tested("overlapF32")

// TestOverlap compares with Go code. The only box of a group that overlaps enough is in any lane of
// any group.
func TestOverlap(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	testkit.Levels(t, func(t *testing.T, l level) {
		if !HasBoxes(l) {
			if got := Overlap(l, make([]BoxGroup, 3), &[5]float32{}, .5); got != 0 {
				t.Errorf("without a kernel: got %d, want 0", got)
			}
			return
		}
		box := [5]float32{10, 20, 30, 60, 20 * 40}
		for _, n := range []int{1, 2, 3, chunk/16 + 2} {
			groups := testkit.Guarded[BoxGroup](t, n, testkit.High, 0)
			for i := range groups {
				for j := range 16 { // beside the box, or too small, or not a box
					y, x, size := float32(100+j), float32(i), float32(5)
					switch j % 4 {
					case 1:
						y, x = 10, 20
					case 2:
						x = nan
					case 3:
						size = -inf
					}
					g := &groups[i]
					g.Y0[j], g.X0[j], g.Y1[j], g.X1[j], g.Area[j] = y, x, y+size, x+size, size*size
				}
			}
			if got := Overlap(l, groups, &box, .5); got != n {
				t.Errorf("%d groups: got %d", n, got)
			}
			for range 40 {
				i, j := rand.IntN(n), rand.IntN(16)
				g := &groups[i]
				old := *g
				// An intersection of 20×h, and a union of 20×40.
				h := 4 + rand.Float32()*36 // the others overlap less
				g.Y0[j], g.X0[j], g.Y1[j], g.X1[j], g.Area[j] = 10, 60-h, 30, 60, 20*h
				if got := Overlap(l, groups, &box, h/40*.999); got != i {
					t.Fatalf("%d groups, lane %d of group %d: got %d", n, j, i, got)
				}
				if got := Overlap(l, groups, &box, h/40*1.001+.05); got != n {
					t.Fatalf("%d groups, lane %d of group %d, above the limit: got %d", n, j, i, got)
				}
				*g = old
			}
		}
		for _, none := range [][5]float32{{nan, nan, nan, nan, nan}, {10, 20, 10, 60, 0}, {inf, inf, -inf, -inf, nan}} {
			if got := Overlap(l, make([]BoxGroup, 2), &none, .5); got != 2 && none[4] != 0 {
				t.Errorf("box %v: got %d", none, got)
			}
		}
	})
}
