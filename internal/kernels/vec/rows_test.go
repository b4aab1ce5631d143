package vec

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/testing/testkit"
)

var rowsTable = []struct {
	name       string
	f          func(l level, dst, x []float32, n, first int)
	generic    func(dst, x []float32, n, first int)
	exact, nan bool
}{
	{"sum", SumRowsF32, sumRowsF32Generic, false, false},
	{"sumAbs", SumAbsRowsF32, sumAbsRowsF32Generic, false, false},
	{"sumSquares", SumSquaresRowsF32, sumSquaresRowsF32Generic, false, false},
	{"reduceMax", MaxRowsF32, reduceMaxRowsF32Generic, true, true},
	{"reduceMin", MinRowsF32, reduceMinRowsF32Generic, true, true},
}

func TestRowFolds(t *testing.T) {
	const rows = 37
	for _, k := range rowsTable {
		t.Run(k.name, func(t *testing.T) {
			testkit.Levels(t, func(t *testing.T, l level) {
				testkit.Sides(func(side string, s testkit.Side) {
					for _, n := range []int{1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 40, 130, MostRowsF32} {
						x := testkit.Guarded[float32](t, n*rows, s, n%3)
						want, all := make([]float32, rows), make([]float32, rows)
						for i := range x {
							x[i] = float32((i*31+n)%41)/8 - 2.5
						}
						if k.nan {
							x[n*5], x[n*6-1] = float32(math.NaN()), float32(math.Inf(1))
							x[n*20-1], x[n*33] = float32(math.NaN()), float32(math.Inf(-1))
						}
						k.generic(want, x, n, 0)
						k.f(l, all, x, n, 0)
						for i, w := range want {
							if d := math.Abs(float64(all[i] - w)); d > 0x1p-20*3*float64(n) || k.exact && d > 0 ||
								(w != w) != (all[i] != all[i]) {
								t.Fatalf("%s: row %d of %d elements gives %g, want %g", side, i, n, all[i], w)
							}
						}
						for _, span := range [][2]int{{0, 1}, {3, 9}, {5, 37}, {36, 37}, {16, 33}} {
							d := testkit.Guarded[float32](t, span[1]-span[0], s, 1)
							k.f(l, d, x, n, span[0])
							for i, v := range d {
								if math.Float32bits(v) != math.Float32bits(all[span[0]+i]) {
									t.Fatalf("%s: row %d of %d elements gives %g within %v, %g within all", side,
										span[0]+i, n, v, span, all[span[0]+i])
								}
							}
						}
					}
				})
			})
		})
	}
}
