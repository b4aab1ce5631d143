package vec

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
)

// Erf, Gelu and Tanh are odd (Gelu up to a linear term) and constant beyond 4 to 9. With AVX-512, a
// register holds one coefficient of 16 polynomials, and VPERMPS selects it per element. The 16
// pieces, of degree 5 to 7, replace an exponential, a division and a second polynomial, in a third
// of the time. AVX2 and NEON have no such lookup and keep the other form. Gelu is -0 below -5.625.

// ErfF32 computes the following, within 2.5 ULP:
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.Erf(float64(v)))
//	}
func ErfF32(l cpu.Level, dst, x []float32) { erfF32(l, dst, x) }

func erfF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.Erf(float64(v)))
	}
}

// GeluF32 computes the following, within 4·2⁻²⁴·|v| (absolute):
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = v / 2 * (1 + erf(v/√2))
//	}
//
// -Inf gives -0.
func GeluF32(l cpu.Level, dst, x []float32) { geluF32(l, dst, x) }

func geluF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		c := math.Erfc(-float64(v) / math.Sqrt2)
		if c == 0 { // v·0 would be NaN for -Inf
			dst[i] = float32(math.Copysign(0, float64(v)))
			continue
		}
		dst[i] = float32(float64(v) / 2 * c)
	}
}

// GeluTanhF32 computes the following, within 4·2⁻²⁴·|v| (absolute):
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = v / 2 * (1 + tanh(√(2/π)*(v+0.044715*v*v*v)))
//	}
//
// This is Gelu with approximate="tanh". -Inf gives -0.
func GeluTanhF32(l cpu.Level, dst, x []float32) { geluTanhF32(l, dst, x) }

func geluTanhF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		// 1+tanh(u) = 2/(1+exp(-2u))
		w := float64(v)
		e := math.Exp(-2 * geluTanhScale * (w + 0.044715*w*w*w))
		if math.IsInf(e, 1) {
			dst[i] = float32(math.Copysign(0, w))
			continue
		}
		dst[i] = float32(w / (1 + e))
	}
}

const geluTanhScale = 0.7978845608028654 // √(2/π)
