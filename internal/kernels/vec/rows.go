package vec

import "github.com/onward-ml/onward/internal/cpu"

// MostRowsF32 is how long the rows are at most that are folded side by side; longer ones are
// better folded one by one.
const MostRowsF32 = 512

// LeastRowsF32 is how many rows a matrix must have for its rows to be folded side by side.
const LeastRowsF32 = 16

// SumRowsF32 sets dst[i] to the sum of row first+i of the matrix x, which has rows of n elements, n at
// most [MostRowsF32], and at least [LeastRowsF32] rows. The error is at most 2⁻²⁰·Σ|x|. What it
// gives for a row depends on the row alone.
func SumRowsF32(l cpu.Level, dst, x []float32, n, first int) { sumRowsF32(l, dst, x, n, first) }

func sumRowsF32Generic(dst, x []float32, n, first int) {
	for i := range dst {
		dst[i] = float32(sumF32Generic(x[(first+i)*n:][:n]))
	}
}

// SumAbsRowsF32 is [SumRowsF32] for the elements' magnitudes.
func SumAbsRowsF32(l cpu.Level, dst, x []float32, n, first int) { sumAbsRowsF32(l, dst, x, n, first) }

func sumAbsRowsF32Generic(dst, x []float32, n, first int) {
	for i := range dst {
		dst[i] = float32(sumAbsF32Generic(x[(first+i)*n:][:n]))
	}
}

// SumSquaresRowsF32 is [SumRowsF32] for the elements' squares.
func SumSquaresRowsF32(l cpu.Level, dst, x []float32, n, first int) {
	sumSquaresRowsF32(l, dst, x, n, first)
}

func sumSquaresRowsF32Generic(dst, x []float32, n, first int) {
	for i := range dst {
		dst[i] = float32(sumSquaresF32Generic(x[(first+i)*n:][:n], 0))
	}
}

// MaxRowsF32 is [SumRowsF32] for the greatest element, NaN when one is NaN.
func MaxRowsF32(l cpu.Level, dst, x []float32, n, first int) { reduceMaxRowsF32(l, dst, x, n, first) }

func reduceMaxRowsF32Generic(dst, x []float32, n, first int) {
	for i := range dst {
		dst[i] = reduceMaxF32Generic(x[(first+i)*n:][:n])
	}
}

// MinRowsF32 is [SumRowsF32] for the smallest element, NaN when one is NaN.
func MinRowsF32(l cpu.Level, dst, x []float32, n, first int) { reduceMinRowsF32(l, dst, x, n, first) }

func reduceMinRowsF32Generic(dst, x []float32, n, first int) {
	for i := range dst {
		dst[i] = reduceMinF32Generic(x[(first+i)*n:][:n])
	}
}
