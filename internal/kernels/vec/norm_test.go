package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/testing/testkit"
)

// TestSoftmaxOfManyNarrowRows compares with calls for single rows, bit by bit, as results must not
// depend on how rows are distributed.
func TestSoftmaxOfManyNarrowRows(t *testing.T) {
	special := []float32{float32(math.Inf(-1)), float32(math.Inf(1)), float32(math.NaN()), -3e38, 3e38, 0, -200}
	testkit.Levels(t, func(t *testing.T, l level) {
		for n := 1; n <= 10; n++ {
			for _, rows := range []int{1, 15, 16, 17, 127, 128, 144, 300} {
				x, y := testkit.Guarded[float32](t, n*rows, testkit.High, 0),
					testkit.Guarded[float32](t, n*rows, testkit.High, 0)
				want := make([]float32, n)
				for i := range x {
					x[i] = float32(rand.NormFloat64() * 10)
					if rand.IntN(40) == 0 {
						x[i] = special[rand.IntN(len(special))]
					}
				}
				for name, f := range map[string]func(l level, dst, x []float32, n int){"softmax": SoftmaxRowsF32,
					"log": LogSoftmaxRowsF32} {
					f(l, y, x, n)
					for r := range rows {
						f(l, want, x[r*n:][:n], n)
						for i, w := range want {
							if v := y[r*n+i]; math.Float32bits(v) != math.Float32bits(w) && (v == v || w == w) {
								t.Fatalf("%s of row %v of %d is %v, want %v", name, x[r*n:][:n],
									rows, y[r*n:][:n], want)
							}
						}
					}
				}
			}
		}
	})
}
