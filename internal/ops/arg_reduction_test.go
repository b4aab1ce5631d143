package ops

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
)

// TestArgRowFastFindsTheSameIndex draws rows of few numbers, so that the greatest occurs often.
func TestArgRowFastFindsTheSameIndex(t *testing.T) {
	some := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 2, float32(math.Inf(1)), float32(math.Inf(-1)),
		float32(math.NaN())}
	rapid.Check(t, func(t *rapid.T) {
		n, kinds := rapid.IntRange(1, 700).Draw(t, "n"), rapid.IntRange(1, len(some)).Draw(t, "kinds")
		x := make([]float32, n)
		for i := range x {
			x[i] = some[rapid.IntRange(0, kinds-1).Draw(t, "k")]
		}
		for _, which := range []argWhich{argMax, argMin} {
			for _, last := range []bool{false, true} {
				if got, want := argRowFast(x, which, last), argRow(x, which, last); got != want {
					t.Fatalf("max %v, last %v: %d, want %d", which, last, got, want)
				}
			}
		}
	})
}

// TestArgLinesF32FindsTheSameIndices draws columns of few numbers.
func TestArgLinesF32FindsTheSameIndices(t *testing.T) {
	c := optest.NewCall()
	some := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 2, float32(math.Inf(1)), float32(math.Inf(-1)),
		float32(math.NaN())}
	rapid.Check(t, func(t *rapid.T) {
		m, kinds := rapid.IntRange(1, kit.ColumnBlock).Draw(t, "m"), rapid.IntRange(1, len(some)).Draw(t, "kinds")
		s := kit.AxisSpan{Outer: 1, N: rapid.OneOf(rapid.IntRange(1, 9), rapid.IntRange(31, 70)).Draw(t, "n"),
			Inner: m + rapid.IntRange(0, 3).Draw(t, "more")}
		x := make([]float32, s.N*s.Inner)
		for i := range x {
			x[i] = some[rapid.IntRange(0, kinds-1).Draw(t, "k")]
		}
		got, want := make([]int64, m), make([]int64, m)
		for _, which := range []argWhich{argMax, argMin} {
			for _, last := range []bool{false, true} {
				argLinesF32(c, got, x, s, s.Inner-m, which, last)
				if argLines(c, want, x, s, s.Inner-m, which, last); !slices.Equal(got, want) {
					t.Fatalf("max %v, last %v: %d, want %d", which, last, got, want)
				}
			}
		}
	})
}
