package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/testing/testkit"
)

var _ = testkit.Tested(
	"sumI32Fold", "sumI64Fold", "sumF64Fold", "sumSquaresF64Fold",
	"maxI32Fold", "maxI64Fold", "maxF64Fold", "minI32Fold", "minI64Fold", "minF64Fold",
)

func TestFold(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l level) {
		i32, i64, f64 := castInputs[int32](), castInputs[int64](), castInputs[float64]()
		r := rand.New(rand.NewPCG(2, 8))
		whole := make([]float64, len(f64)) // sums of these are exact in any order
		for i := range whole {
			whole[i] = float64(r.IntN(1<<30) - 1<<29)
		}
		testFold(t, l, "sumI32", i32, SumI32, 0, func(a, b int32) int32 { return a + b })
		testFold(t, l, "maxI32", i32, ReduceMaxI32, math.MinInt32, func(a, b int32) int32 { return max(a, b) })
		testFold(t, l, "minI32", i32, ReduceMinI32, math.MaxInt32, func(a, b int32) int32 { return min(a, b) })
		testFold(t, l, "sumI64", i64, SumI64, 0, func(a, b int64) int64 { return a + b })
		testFold(t, l, "maxI64", i64, ReduceMaxI64, math.MinInt64, func(a, b int64) int64 { return max(a, b) })
		testFold(t, l, "minI64", i64, ReduceMinI64, math.MaxInt64, func(a, b int64) int64 { return min(a, b) })
		testFold(t, l, "sumF64", whole, SumF64, 0, func(a, b float64) float64 { return a + b })
		u8, i8 := castInputs[uint8](), castInputs[int8]()
		testFold(t, l, "maxU8", u8, ReduceMaxU8, 0, func(a, b uint8) uint8 { return max(a, b) })
		testFold(t, l, "minU8", u8, ReduceMinU8, math.MaxUint8, func(a, b uint8) uint8 { return min(a, b) })
		testFold(t, l, "maxI8", i8, ReduceMaxI8, math.MinInt8, func(a, b int8) int8 { return max(a, b) })
		testFold(t, l, "minI8", i8, ReduceMinI8, math.MaxInt8, func(a, b int8) int8 { return min(a, b) })
		testExtremeAnywhere(t, l)
		squares := func(l level, x []float64) float64 {
			small := make([]float64, len(x)) // whose squares are exact
			for i, v := range x {
				small[i] = math.Mod(v, 1<<20)
			}
			return SumSquaresF64(l, testkit.GuardedCopy(t, small, testkit.High, 0))
		}
		for n := range 200 {
			want := 0.0
			for _, v := range whole[:n] {
				want += math.Mod(v, 1<<20) * math.Mod(v, 1<<20)
			}
			if got := squares(l, whole[:n]); got != want {
				t.Fatalf("sumSquaresF64: %d elements give %v, want %v", n, got, want)
			}
		}
		for _, x := range [][]float64{f64, whole} { // with NaN and without
			testFold(t, l, "maxF64", x, ReduceMaxF64, math.Inf(-1), func(a, b float64) float64 { return max(a, b) })
			testFold(t, l, "minF64", x, ReduceMinF64, math.Inf(1), func(a, b float64) float64 { return min(a, b) })
		}
	})
}

// testExtremeAnywhere puts the extreme byte at every index, among others between the extremes.
func testExtremeAnywhere(t *testing.T, l level) {
	for _, n := range []int{1, 31, 32, 33, 100, 513, 1023, 1024, 1025, 1700} {
		for at := range n {
			most, least := make([]uint8, n), make([]uint8, n)
			for i := range n {
				most[i], least[i] = uint8(100-i%50), uint8(100+i%50)
			}
			most[at], least[at] = 200, 3
			if got := ReduceMaxU8(l, most); got != 200 {
				t.Fatalf("maxU8: %d elements, the largest at %d: %d", n, at, got)
			}
			if got := ReduceMinU8(l, least); got != 3 {
				t.Fatalf("minU8: %d elements, the smallest at %d: %d", n, at, got)
			}
		}
	}
}

func testFold[T extremeNumber](t *testing.T, l level, name string, in []T, fold func(level, []T) T,
	init T, op func(a, b T) T) {
	t.Helper()
	same := func(a, b T) bool { return a == b || a != a && b != b }
	testkit.Sides(func(side string, s testkit.Side) {
		for _, n := range []int{0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 70, 129, chunk + 21} {
			for off := range 4 {
				x := testkit.GuardedCopy(t, in[min(off*n, len(in)-n):][:n], s, off)
				want := init
				for _, v := range x {
					want = op(want, v)
				}
				if got := fold(l, x); !same(got, want) {
					t.Fatalf("%s %s: %d elements give %v, want %v", name, side, n, got, want)
				}
			}
		}
	})
}
