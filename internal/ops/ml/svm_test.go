package ml

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
)

// TestRBFCancels compares exponents that are sums of products with those of differences, on rows
// whose products cancel, overflow or are not finite.
func TestRBFCancels(t *testing.T) {
	const rows, cols, count = 9, 30, 70
	r := rand.New(rand.NewPCG(3, 5))
	for _, shift := range []float64{0, 1, 1e3, 1e6, 1e9, 1e200} {
		k := svmKernel{kind: "RBF", gamma: 1. / 64}
		x, vectors := make([]float64, rows*cols), make([]float64, count*cols)
		for i := range vectors {
			vectors[i] = float64(float32(r.NormFloat64() + min(shift, 1e30)))
		}
		for i := range x {
			x[i] = vectors[i] + r.NormFloat64()
		}
		x[cols] = shift
		x[2*cols+1], x[3*cols+2], x[4*cols+3] = math.Inf(1), math.Inf(-1), math.NaN()
		k.setVectors(vectors, count)
		c, reference := optest.NewCall(), optest.NewCall()
		reference.Generic = true
		got, want := make([]float64, rows*count), make([]float64, rows*count)
		wide := make([]float64, rows*k.width())
		k.eval(c, got, x, wide, rows)
		k.eval(reference, want, x, wide, rows)
		for i, v := range want {
			if math.IsNaN(v) != math.IsNaN(got[i]) || math.Abs(v-got[i]) > 0x1p-29*v {
				t.Fatalf("vectors near %g: function %d of row %d is %g, want %g", shift, i%count, i/count, got[i], v)
			}
		}
	}
}
