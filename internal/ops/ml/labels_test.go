package ml

import (
	"math"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
)

// TestSoftmaxZeroRows checks rows with and without zeros, together, against the reference engine.
func TestSoftmaxZeroRows(t *testing.T) {
	values := []float32{0, 1, -1, 3, -90, -200, 88, 1e-8, -1e-8, float32(math.NaN()), float32(math.Inf(1)),
		float32(math.Inf(-1))}
	for n := 2; n <= 3; n++ {
		var rows []float32
		for i := range int(math.Pow(float64(len(values)), float64(n))) {
			for range n {
				rows = append(rows, values[i%len(values)])
				i /= len(values)
			}
		}
		got, want := slices.Clone(rows), slices.Clone(rows)
		transformRows(&ir.Call{}, transformSoftmaxZero, got, n)
		transformRows(&ir.Call{Generic: true}, transformSoftmaxZero, want, n)
		for i, w := range want {
			if g := got[i]; !(math.Abs(float64(g-w)) <= 1e-6) && g != w && (g == g || w == w) {
				t.Fatalf("scores %v: got %v, want %v", rows[i/n*n:][:n], got[i/n*n:][:n], want[i/n*n:][:n])
			}
		}
	}
}
