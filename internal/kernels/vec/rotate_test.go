package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	testkit "github.com/onward-ml/onward/internal/testing"
)

// TestRotate compares all levels with products and sums that are rounded one by one, in place.
func TestRotate(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		for _, n := range []int{0, 1, 7, 8, 9, 16, 17, 32, 45, chunk + 21} {
			var in [4][]float32
			for k := range in {
				in[k] = testkit.Guarded[float32](t, n, testkit.High, 0)
				for i := range in[k] {
					in[k][i] = rand.Float32() - 0.5
				}
			}
			cos, sin := in[2], in[3]
			x, y := append([]float32{}, in[0]...), append([]float32{}, in[1]...)
			RotateF32(l, in[0], in[1], in[0], in[1], cos, sin)
			for i := range n {
				cx, sy, sx, cy := cos[i]*x[i], sin[i]*y[i], sin[i]*x[i], cos[i]*y[i]
				u, v := float32(float64(cx)-float64(sy)), float32(float64(sx)+float64(cy))
				if math.Float32bits(in[0][i]) != math.Float32bits(u) || math.Float32bits(in[1][i]) != math.Float32bits(v) {
					t.Fatalf("point %d of %d is (%g, %g), want (%g, %g)", i, n, in[0][i], in[1][i], u, v)
				}
			}
		}
	})
}
