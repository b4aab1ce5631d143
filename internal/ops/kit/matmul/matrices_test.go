package matmul

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
)

// TestInvert multiplies matrices, which need rows to be swapped, by their inverses.
func TestInvert(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	c := optest.NewCall()
	for n := range 20 {
		a := make([]float64, n*n)
		for i := range a {
			a[i] = float64(r.IntN(9) - 4)
		}
		for i := range n { // large elements are in rows with another index than their column
			a[(i+1)%n*n+i] += 40
		}
		inverse := slices.Clone(a)
		if err := Invert(c, inverse, n, make([]int, n), make([]float64, n)); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			for j := range n {
				sum := 0.0
				for k := range n {
					sum += a[i*n+k] * inverse[k*n+j]
				}
				if want := float64(kit.BoolToInt(i == j)); !(math.Abs(sum-want) < 1e-12) {
					t.Errorf("%d×%d: element (%d, %d) of the product is %v, want %v", n, n, i, j, sum, want)
				}
			}
		}
	}
	singular := []float64{1, 2, 2, 4}
	if err := Invert(c, singular, 2, make([]int, 2), make([]float64, 2)); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(singular, func(v float64) bool { return v-v == 0 }) {
		t.Errorf("the inverse of a singular matrix is %v, want infinite or NaN elements", singular)
	}
}

// TestDeterminantOfSmallPivot has a pivot whose reciprocal is infinite.
func TestDeterminantOfSmallPivot(t *testing.T) {
	c := optest.NewCall()
	for _, a := range [][]float64{{5e-310, 0, 0, 1}, {5e-310, 1, 0, 2}} {
		want := a[0] * a[3]
		if got, err := Determinant(c, a, 2); err != nil || got != want {
			t.Errorf("got %g, %v, want %g", got, err, want)
		}
	}
}
