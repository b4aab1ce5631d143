package preset

import (
	"math"
	"testing"
	"time"
)

func TestTail(t *testing.T) {
	for _, c := range []struct {
		m, n, u int
		want    float64
	}{
		{3, 3, 9, 1.0 / 20}, {3, 3, 8, 2.0 / 20}, {3, 3, 0, 1}, {1, 3, 3, 1.0 / 4}, {3, 1, 3, 1.0 / 4}, {4, 4, 15, 2.0 / 70}, {4, 4, 14, 4.0 / 70},
		{9, 9, 81, 1.0 / 48620},
	} {
		if got := tail(c.m, c.n, c.u); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("at least %d of %d×%d pairs: probability %g, want %g", c.u, c.m, c.n, got, c.want)
		}
	}
}

func TestFaster(t *testing.T) {
	times := func(ms ...time.Duration) []time.Duration { return ms }
	for _, c := range []struct {
		a, b []time.Duration
		want bool
	}{
		{times(1, 2, 3), times(4, 5, 6), true},
		{times(1, 2, 4), times(3, 5, 6), false},
		{times(4, 5, 6), times(1, 2, 3), false},
		{times(1, 1, 1), times(1, 1, 1), false},
		{times(1, 1, 9), times(2, 2, 2), false}, // one outlier of three
		{times(1, 1, 9, 1, 1, 1), times(2, 2, 2, 2, 2, 2), true},
		{times(1, 2, 4), times(4, 5, 6), false}, // half a pair short of all
		{nil, times(1), false},
	} {
		if got := faster(c.a, c.b); got != c.want {
			t.Errorf("%v faster than %v: %v", c.a, c.b, got)
		}
	}
}
