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

// foldShort is the number of elements below which plain loops are faster than a kernel, which reads
// and writes its lanes in memory.
const foldShort = 96

// shortSum is the sum of few elements. Four sums hide the latency of additions.
func shortSum[T foldNumber](x []T) T {
	var s [4]T
	for ; len(x) >= 4; x = x[4:] {
		s[0] += x[0]
		s[1] += x[1]
		s[2] += x[2]
		s[3] += x[3]
	}
	for i, v := range x {
		s[i] += v
	}
	return s[0] + s[1] + (s[2] + s[3])
}

// shortMax is the maximum of acc and a few elements.
func shortMax[T extremeNumber](acc T, x []T) T {
	a, b, c, d := acc, acc, acc, acc
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d = max(a, x[0]), max(b, x[1]), max(c, x[2]), max(d, x[3])
	}
	for _, v := range x {
		a = max(a, v)
	}
	return max(max(a, b), max(c, d))
}

// shortMin is the minimum of acc and a few elements.
func shortMin[T extremeNumber](acc T, x []T) T {
	a, b, c, d := acc, acc, acc, acc
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d = min(a, x[0]), min(b, x[1]), min(c, x[2]), min(d, x[3])
	}
	for _, v := range x {
		a = min(a, v)
	}
	return min(min(a, b), min(c, d))
}

func lanesOf[T foldNumber](v T) (r [foldLanes]T) {
	for i := range r {
		r[i] = v
	}
	return r
}

// SumI32 returns the sum of x. It wraps around.
func SumI32(l cpu.Level, x []int32) int32 {
	if len(x) < foldShort {
		return shortSum(x)
	}
	lanes := lanesOf[int32](0)
	done := sumI32Fold(l, &lanes, x)
	return foldAdd(0, &lanes, x[done:])
}

// ReduceMaxI32 returns the maximum of x, or the smallest int32 if x is empty.
func ReduceMaxI32(l cpu.Level, x []int32) int32 {
	if len(x) < foldShort {
		return shortMax[int32](math.MinInt32, x)
	}
	lanes := lanesOf[int32](math.MinInt32)
	done := maxI32Fold(l, &lanes, x)
	return foldMax(math.MinInt32, &lanes, x[done:])
}

// ReduceMinI32 returns the minimum of x, or the largest int32 if x is empty.
func ReduceMinI32(l cpu.Level, x []int32) int32 {
	if len(x) < foldShort {
		return shortMin(math.MaxInt32, x)
	}
	lanes := lanesOf[int32](math.MaxInt32)
	done := minI32Fold(l, &lanes, x)
	return foldMin(math.MaxInt32, &lanes, x[done:])
}

// SumI64 returns the sum of x. It wraps around.
func SumI64(l cpu.Level, x []int64) int64 {
	if len(x) < foldShort {
		return shortSum(x)
	}
	lanes := lanesOf[int64](0)
	done := sumI64Fold(l, &lanes, x)
	return foldAdd(0, &lanes, x[done:])
}

// ReduceMaxI64 returns the maximum of x, or the smallest int64 if x is empty.
func ReduceMaxI64(l cpu.Level, x []int64) int64 {
	if len(x) < foldShort {
		return shortMax(math.MinInt64, x)
	}
	lanes := lanesOf[int64](math.MinInt64)
	done := maxI64Fold(l, &lanes, x)
	return foldMax(math.MinInt64, &lanes, x[done:])
}

// ReduceMinI64 returns the minimum of x, or the largest int64 if x is empty.
func ReduceMinI64(l cpu.Level, x []int64) int64 {
	if len(x) < foldShort {
		return shortMin(math.MaxInt64, x)
	}
	lanes := lanesOf[int64](math.MaxInt64)
	done := minI64Fold(l, &lanes, x)
	return foldMin(math.MaxInt64, &lanes, x[done:])
}

// SumF64 returns the sum of x. The order of the additions depends on the level.
func SumF64(l cpu.Level, x []float64) float64 {
	if len(x) < foldShort {
		return shortSum(x)
	}
	lanes := lanesOf[float64](0)
	done := sumF64Fold(l, &lanes, x)
	return foldAdd(0, &lanes, x[done:])
}

// SumSquaresF64 returns the sum of the squares of x. The order of the additions depends on the
// level.
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
	if len(x) < foldShort {
		return shortMax(math.Inf(-1), x)
	}
	lanes := lanesOf[float64](math.Inf(-1))
	done := maxF64Fold(l, &lanes, x)
	return foldMax(math.Inf(-1), &lanes, x[done:])
}

// ReduceMinF64 returns the minimum of x, NaN if an element is NaN, or +Inf if x is empty.
func ReduceMinF64(l cpu.Level, x []float64) float64 {
	if len(x) < foldShort {
		return shortMin(math.Inf(1), x)
	}
	lanes := lanesOf[float64](math.Inf(1))
	done := minF64Fold(l, &lanes, x)
	return foldMin(math.Inf(1), &lanes, x[done:])
}
