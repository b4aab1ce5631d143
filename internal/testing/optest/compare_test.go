package optest

import (
	"math"
	"testing"
)

// TestSameOfInfinities: an infinity differs from every other number, whatever the tolerance.
func TestSameOfInfinities(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		a, b float64
		want bool
	}{
		{inf, inf, true}, {inf, -inf, false}, {inf, 0, false}, {1, -inf, false}, {inf, math.MaxFloat64, false},
		{nan, nan, true}, {nan, inf, false}, {nan, 1, false}, {1, 1.0005, true}, {1, 1.002, false},
	} {
		if got := Same(Tensor([]float64{c.a}, 1), Tensor([]float64{c.b}, 1), 1e-3); got != c.want {
			t.Errorf("%v and %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
