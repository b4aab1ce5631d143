package vec

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
)

// SumF32 returns the sum of x, with an error of at most 2⁻²⁰·Σ|x|. The generic code adds in
// float64. The assembly adds at most 8192 elements in 64 float32 lanes (32 for AVX2), and these
// partial sums in float64.
func SumF32(l cpu.Level, x []float32) float32 { return float32(sum64F32(l, x)) }

func sumF32Generic(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v)
	}
	return s
}

// DotF32 returns Σ a[i]·b[i] over len(a) elements, with an error of at most 2⁻²⁰·Σ|a·b|.
func DotF32(l cpu.Level, a, b []float32) float32 { return float32(dot64F32(l, a, b[:len(a)])) }

func dotF32Generic(a, b []float32) float64 {
	var s float64
	for i, v := range a {
		s += float64(v) * float64(b[i])
	}
	return s
}

// SumSquaresF32 returns Σ (x[i]-center)², with a relative error of at most 2⁻²⁰. The
// difference is rounded to float32 first.
func SumSquaresF32(l cpu.Level, x []float32, center float32) float32 {
	return float32(sumSquares64F32(l, x, center))
}

func sumSquaresF32Generic(x []float32, center float32) float64 {
	var s float64
	for _, v := range x {
		d := float64(v - center)
		s += d * d
	}
	return s
}

// SumAbsF32 returns Σ |x[i]|, with a relative error of at most 2⁻²⁰.
func SumAbsF32(l cpu.Level, x []float32) float32 { return float32(sumAbs64F32(l, x)) }

func sumAbsF32Generic(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += math.Abs(float64(v))
	}
	return s
}

// ReduceMaxF32 returns the maximum of x, NaN if an element is NaN, or -Inf if x is empty.
func ReduceMaxF32(l cpu.Level, x []float32) float32 { return reduceMaxF32(l, x) }

func reduceMaxF32Generic(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, v := range x {
		m = max(m, v)
	}
	return m
}

// ReduceMinF32 returns the minimum of x, NaN if an element is NaN, or +Inf if x is empty.
func ReduceMinF32(l cpu.Level, x []float32) float32 { return reduceMinF32(l, x) }

func reduceMinF32Generic(x []float32) float32 {
	m := float32(math.Inf(1))
	for _, v := range x {
		m = min(m, v)
	}
	return m
}
