package vec

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
)

// foldLanes is the maximum number of accumulators in a vector.
const foldLanes = 16

type foldNumber interface{ int32 | int64 | float64 }

func foldAdd[T foldNumber](acc T, lanes *[foldLanes]T, rest []T) T {
	for _, v := range lanes {
		acc += v
	}
	for _, v := range rest {
		acc += v
	}
	return acc
}

func foldMax[T foldNumber](acc T, lanes *[foldLanes]T, rest []T) T {
	for _, v := range lanes {
		acc = max(acc, v)
	}
	for _, v := range rest {
		acc = max(acc, v)
	}
	return acc
}

func foldMin[T foldNumber](acc T, lanes *[foldLanes]T, rest []T) T {
	for _, v := range lanes {
		acc = min(acc, v)
	}
	for _, v := range rest {
		acc = min(acc, v)
	}
	return acc
}

func lanesOf[T foldNumber](v T) (r [foldLanes]T) {
	for i := range r {
		r[i] = v
	}
	return r
}

// SumI32 returns the sum of x. It wraps around.
func SumI32(l cpu.Level, x []int32) int32 {
	lanes := lanesOf[int32](0)
	done := sumI32Fold(l, &lanes, x)
	return foldAdd(0, &lanes, x[done:])
}

// ReduceMaxI32 returns the maximum of x, or the smallest int32 if x is empty.
func ReduceMaxI32(l cpu.Level, x []int32) int32 {
	lanes := lanesOf[int32](math.MinInt32)
	done := maxI32Fold(l, &lanes, x)
	return foldMax(math.MinInt32, &lanes, x[done:])
}

// ReduceMinI32 returns the minimum of x, or the largest int32 if x is empty.
func ReduceMinI32(l cpu.Level, x []int32) int32 {
	lanes := lanesOf[int32](math.MaxInt32)
	done := minI32Fold(l, &lanes, x)
	return foldMin(math.MaxInt32, &lanes, x[done:])
}

// SumI64 returns the sum of x. It wraps around.
func SumI64(l cpu.Level, x []int64) int64 {
	lanes := lanesOf[int64](0)
	done := sumI64Fold(l, &lanes, x)
	return foldAdd(0, &lanes, x[done:])
}

// ReduceMaxI64 returns the maximum of x, or the smallest int64 if x is empty.
func ReduceMaxI64(l cpu.Level, x []int64) int64 {
	lanes := lanesOf[int64](math.MinInt64)
	done := maxI64Fold(l, &lanes, x)
	return foldMax(math.MinInt64, &lanes, x[done:])
}

// ReduceMinI64 returns the minimum of x, or the largest int64 if x is empty.
func ReduceMinI64(l cpu.Level, x []int64) int64 {
	lanes := lanesOf[int64](math.MaxInt64)
	done := minI64Fold(l, &lanes, x)
	return foldMin(math.MaxInt64, &lanes, x[done:])
}

// SumF64 returns the sum of x. The order of the additions depends on the level.
func SumF64(l cpu.Level, x []float64) float64 {
	lanes := lanesOf[float64](0)
	done := sumF64Fold(l, &lanes, x)
	return foldAdd(0, &lanes, x[done:])
}

// SumSquaresF64 returns the sum of the squares of x. The order of the additions depends on the level.
func SumSquaresF64(l cpu.Level, x []float64) float64 {
	lanes := lanesOf[float64](0)
	done := sumSquaresF64Fold(l, &lanes, x)
	sum := foldAdd(0, &lanes, nil)
	for _, v := range x[done:] {
		sum += v * v
	}
	return sum
}

// ReduceMaxF64 returns the maximum of x, NaN if an element is NaN, or -Inf if x is empty.
func ReduceMaxF64(l cpu.Level, x []float64) float64 {
	lanes := lanesOf[float64](math.Inf(-1))
	done := maxF64Fold(l, &lanes, x)
	return foldMax(math.Inf(-1), &lanes, x[done:])
}

// ReduceMinF64 returns the minimum of x, NaN if an element is NaN, or +Inf if x is empty.
func ReduceMinF64(l cpu.Level, x []float64) float64 {
	lanes := lanesOf[float64](math.Inf(1))
	done := minF64Fold(l, &lanes, x)
	return foldMin(math.Inf(1), &lanes, x[done:])
}
