package vec

import (
	"math"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/testing/testkit"
)

var _ = testkit.Tested("argColumnsF32")

// TestArgColumns searches columns of few numbers, so that the largest occurs often.
func TestArgColumns(t *testing.T) {
	some := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 2, float32(math.Inf(1)), float32(math.Inf(-1)),
		float32(math.NaN())}
	testkit.Levels(t, func(t *testing.T, l level) {
		testkit.Sides(func(side string, s testkit.Side) {
			for _, cols := range []int{1, 4, 7, 8, 16, 17, 23, 64, 65, 131} {
				for _, rows := range []int{1, 2, 3, 21, 70, 1 + 2*chunk/64} {
					step := cols + rows%3
					x := testkit.Guarded[float32](t, (rows-1)*step+cols, s, 1)
					for i := range x {
						x[i] = some[i*i*7%61%(1+(i+rows)%len(some))]
					}
					at, value := testkit.Guarded[int32](t, cols, s, 2), testkit.Guarded[float32](t, cols, s, 0)
					for mode := range 4 {
						least, last := mode&1 > 0, mode&2 > 0
						if !ArgColumnsF32(l, at, value, x, step, rows, least, last, func() {}) {
							if w := width(l); w > 0 && cols >= w {
								t.Fatalf("no kernel for %d columns", cols)
							}
							continue
						}
						want := make([]int32, cols)
						for j := range want {
							want[j] = argColumn(x[j:], step, rows, least, last)
						}
						if !slices.Equal(at, want) {
							t.Fatalf("%s: %d rows, least %v, last %v: %v, want %v", side, rows, least, last, at, want)
						}
					}
				}
			}
		})
	})
}

func argColumn(x []float32, step, rows int, least, last bool) int32 {
	order := make([]int, rows)
	for i := range order {
		order[i] = i
	}
	if last {
		slices.Reverse(order)
	}
	best := order[0]
	for _, i := range order {
		v, b := x[i*step], x[best*step]
		if b == b && (v != v || !least && v > b || least && v < b) {
			best = i
		}
	}
	return int32(best)
}
