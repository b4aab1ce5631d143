package vec

import "github.com/onward-ml/onward/internal/cpu"

// MostRowsF32 is the maximum row length of the functions for rows. Longer rows are reduced faster
// one by one.
const MostRowsF32 = 512

// LeastRowsF32 is the minimum number of rows of the functions for rows.
const LeastRowsF32 = 16

// SumRowsF32 sets dst[i] to the sum of row first+i of the matrix x. The rows have n elements, at
// most [MostRowsF32], and there are at least [LeastRowsF32] rows. The error is at most 2⁻²⁰·Σ|x|.
// The result for a row does not depend on other rows or on its index.
func SumRowsF32(l cpu.Level, dst, x []float32, n, first int) { sumRowsF32(l, dst, x, n, first) }

func sumRowsF32Generic(dst, x []float32, n, first int) {
	for i := range dst {
		dst[i] = float32(sumF32Generic(x[(first+i)*n:][:n]))
	}
}

// SumAbsRowsF32 is [SumRowsF32] for the magnitudes of the elements.
func SumAbsRowsF32(l cpu.Level, dst, x []float32, n, first int) { sumAbsRowsF32(l, dst, x, n, first) }

func sumAbsRowsF32Generic(dst, x []float32, n, first int) {
	for i := range dst {
		dst[i] = float32(sumAbsF32Generic(x[(first+i)*n:][:n]))
	}
}

// SumSquaresRowsF32 is [SumRowsF32] for the squares of the elements.
func SumSquaresRowsF32(l cpu.Level, dst, x []float32, n, first int) {
	sumSquaresRowsF32(l, dst, x, n, first)
}

func sumSquaresRowsF32Generic(dst, x []float32, n, first int) {
	for i := range dst {
		dst[i] = float32(sumSquaresF32Generic(x[(first+i)*n:][:n], 0))
	}
}

// MaxRowsF32 is [SumRowsF32] for the maximum; NaN propagates.
func MaxRowsF32(l cpu.Level, dst, x []float32, n, first int) { reduceMaxRowsF32(l, dst, x, n, first) }

func reduceMaxRowsF32Generic(dst, x []float32, n, first int) {
	for i := range dst {
		dst[i] = reduceMaxF32Generic(x[(first+i)*n:][:n])
	}
}

// MinRowsF32 is [SumRowsF32] for the minimum; NaN propagates.
func MinRowsF32(l cpu.Level, dst, x []float32, n, first int) { reduceMinRowsF32(l, dst, x, n, first) }

func reduceMinRowsF32Generic(dst, x []float32, n, first int) {
	for i := range dst {
		dst[i] = reduceMinF32Generic(x[(first+i)*n:][:n])
	}
}
