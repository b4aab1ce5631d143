package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/testing/testkit"
)

var _ = testkit.Tested("rotateF32")

// TestRotate compares all levels with multiplications and additions that are rounded one by one, in
// place, with elements between the rows.
func TestRotate(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		for _, half := range []int{0, 1, 7, 8, 9, 16, 17, 32, 45, chunk + 21} {
			for _, rows := range []int{1, 2, 5} {
				for _, angleStep := range []int{0, half, half + 3} {
					step := 2*half + rows
					numbers := func(n int) []float32 {
						s := testkit.Guarded[float32](t, n, testkit.High, 0)
						for i := range s {
							s[i] = rand.Float32() - 0.5
						}
						return s
					}
					x, cos, sin := numbers((rows-1)*step+2*half), numbers((rows-1)*angleStep+half),
						numbers((rows-1)*angleStep+half)
					want := append([]float32{}, x...)
					for r := range rows {
						for i := range half {
							c, s, u, v := cos[r*angleStep+i], sin[r*angleStep+i], x[r*step+i], x[r*step+half+i]
							cu, sv, su, cv := c*u, s*v, s*u, c*v
							want[r*step+i], want[r*step+half+i] = float32(float64(cu)-float64(sv)),
								float32(float64(su)+float64(cv))
						}
					}
					RotateF32(l, x, x, step, half, cos, sin, angleStep, rows)
					for i := range x {
						if math.Float32bits(x[i]) != math.Float32bits(want[i]) {
							t.Fatalf("element %d of %d rows of %d pairs is %g, want %g", i, rows, half, x[i], want[i])
						}
					}
				}
			}
		}
	})
}
