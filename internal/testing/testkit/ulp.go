// Package testkit holds what the tests of several packages share: errors in units in the
// last place, slices next to guard pages, the CPU levels of this machine and the list of
// assembly functions.
package testkit

import (
	"math"
)

// ULP32 returns the error of got against the exact value want, in units in the
// last place of float32 at want. Two NaN agree; the error of a NaN against a number is
// +Inf. A finite want beyond the float32 range agrees with an infinity of its sign.
func ULP32(got float32, want float64) float64 {
	g := float64(got)
	switch {
	case math.IsNaN(g) || math.IsNaN(want):
		if math.IsNaN(g) && math.IsNaN(want) {
			return 0
		}
		return math.Inf(1)
	case g == want || got == float32(want):
		return math.Abs(boundedDiff(g, want)) / ulpSize32(want)
	case math.IsInf(want, 0) || math.IsInf(g, 0):
		if math.IsInf(g, 0) && math.Signbit(g) == math.Signbit(want) && math.Abs(want) > math.MaxFloat32*(1-0x1p-22) {
			return 1
		}
		return math.Inf(1)
	}
	return math.Abs(g-want) / ulpSize32(want)
}

func boundedDiff(a, b float64) float64 {
	if a == b || math.IsInf(a, 0) || math.IsInf(b, 0) {
		return 0
	}
	return a - b
}

// ulpSize32 returns the distance between neighbouring float32 at magnitude |x|,
// at least the spacing of denormals.
func ulpSize32(x float64) float64 {
	x = math.Abs(x)
	if x < 0x1p-126 || math.IsInf(x, 0) {
		return 0x1p-149
	}
	_, e := math.Frexp(x) // x = f·2^e, f in [1/2, 1)
	return math.Ldexp(1, max(e-24, -149))
}

// Special32 returns float32 values at which kernels are likely to fail.
func Special32() []float32 {
	return []float32{
		0, float32(math.Copysign(0, -1)), 1, -1, 0.5, -0.5,
		float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)),
		math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 0x1p-127, -0x1p-127,
		0x1p-126, -0x1p-126, math.MaxFloat32, -math.MaxFloat32,
		88.7, 88.73, 89, 100, 104, -87, -87.4, -88, -100, -103.9, -104, -200,
		1e-10, -1e-10, 1e10, -1e10, 1e30, -1e30, 2, -2, 3, -3, 10, -10, 20, -20,
	}
}
