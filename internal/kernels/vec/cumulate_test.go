package vec

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/testing/testkit"
)

var _ = testkit.Tested("cumulateF32", "cumulateF64", "cumulateI32", "cumulateI64")

func TestCumulate(t *testing.T) {
	testkit.Levels(t, func(t *testing.T, l cpu.Level) {
		checkCumulate[float32](t, l)
		checkCumulate[float64](t, l)
		checkCumulate[int32](t, l)
		checkCumulate[int64](t, l)
	})
}

func checkCumulate[T int32 | int64 | float32 | float64](t *testing.T, l cpu.Level) {
	t.Helper()
	r := rand.New(rand.NewPCG(6, 6))
	for step := 1; step <= CumulateMost; step++ {
		for _, rows := range []int{1, 2, 7, 2<<14/step + 3} {
			dst, src := testkit.Guarded[T](t, rows*step, testkit.Side(step&1 == 0), step%3),
				testkit.Guarded[T](t, rows*step, testkit.High, rows%2)
			before := testkit.Guarded[T](t, step, testkit.High, 0)
			for i := range src {
				src[i] = T(r.IntN(1000) - 500)
			}
			for i := range before {
				before[i] = T(r.IntN(100))
			}
			want := make([]T, len(dst))
			for i, v := range src {
				if i < step {
					want[i] = before[i] + v
				} else {
					want[i] = want[i-step] + v
				}
			}
			if Cumulate(l, dst, src, before, step); !slices.Equal(dst, want) {
				t.Fatalf("%v: %d rows of %d %T differ", l, rows, step, src[0])
			}
		}
	}
}
