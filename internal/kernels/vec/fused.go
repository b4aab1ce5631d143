package vec

import (
	"github.com/onward-ml/onward/internal/cpu"
)

// The kernels of this file differ between levels by one rounding: the assembly fuses multiplication
// and addition, as Go does on some architectures.

// ScaleShiftF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = v*scale + shift
//	}
func ScaleShiftF32(l cpu.Level, dst, x []float32, scale, shift float32) {
	scaleShiftF32(l, dst, x, scale, shift)
}

func scaleShiftF32Generic(dst, x []float32, scale, shift float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = v*scale + shift
	}
}

// AxpyF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] += v * s
//	}
func AxpyF32(l cpu.Level, dst, x []float32, s float32) { axpyF32(l, dst, x, s) }

func axpyF32Generic(dst, x []float32, s float32) {
	for i, v := range x[:len(dst)] {
		dst[i] += v * s
	}
}

// AxpyRowsF32 calls [AxpyF32] for each element of s, with n elements of dst and of x, which begin
// dstStep and xStep elements after those of the call before. A step may be 0: the product of a
// vector and a matrix has one for dst, the outer product of two vectors one for x.
func AxpyRowsF32(l cpu.Level, dst []float32, dstStep int, x []float32, xStep, n int, s []float32) {
	if len(s) == 0 || n == 0 {
		return
	}
	_, _ = dst[(len(s)-1)*dstStep+n-1], x[(len(s)-1)*xStep+n-1]
	axpyRowsF32(l, dst, dstStep, x, xStep, n, s)
}

func axpyRowsF32Generic(dst []float32, dstStep int, x []float32, xStep, n int, s []float32) {
	for i, f := range s {
		axpyF32Generic(dst[i*dstStep:][:n], x[i*xStep:], f)
	}
}

// SubRowsF64 subtracts from rows of dst, dstStep elements apart, the multiples of x by elements of
// s, sStep elements apart:
//
//	for i := range rows {
//		for j, v := range x {
//			dst[i*dstStep+j] -= s[i*sStep] * v
//		}
//	}
//
// Products may be rounded before the subtraction or not.
func SubRowsF64(l cpu.Level, dst []float64, dstStep int, x, s []float64, sStep, rows int) {
	if rows <= 0 || len(x) == 0 {
		return
	}
	_, _ = dst[(rows-1)*dstStep+len(x)-1], s[(rows-1)*sStep]
	subRowsF64(l, dst, dstStep, x, s, sStep, rows)
}

func subRowsF64Generic(dst []float64, dstStep int, x, s []float64, sStep, rows int) {
	for i := range rows {
		f, d := s[i*sStep], dst[i*dstStep:][:len(x)]
		for j, v := range x {
			d[j] -= f * v
		}
	}
}

// MulAddF32 computes
//
//	b, c = b[:len(dst)], c[:len(dst)]
//	for i, v := range a[:len(dst)] {
//		dst[i] = v*b[i] + c[i]
//	}
func MulAddF32(l cpu.Level, dst, a, b, c []float32) { mulAddF32(l, dst, a, b, c) }

func mulAddF32Generic(dst, a, b, c []float32) {
	b, c = b[:len(dst)], c[:len(dst)]
	for i, v := range a[:len(dst)] {
		dst[i] = v*b[i] + c[i]
	}
}

// HardSigmoidF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = min(max(alpha*v+beta, 0), 1)
//	}
//
// NaN stays NaN.
func HardSigmoidF32(l cpu.Level, dst, x []float32, alpha, beta float32) {
	hardSigmoidF32(l, dst, x, alpha, beta)
}

func hardSigmoidF32Generic(dst, x []float32, alpha, beta float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = min(max(alpha*v+beta, 0), 1)
	}
}

// HardSwishF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = v * min(max(v*(1.0/6)+0.5, 0), 1)
//	}
func HardSwishF32(l cpu.Level, dst, x []float32) { hardSwishF32(l, dst, x) }

func hardSwishF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = v * min(max(v*(1.0/6)+0.5, 0), 1)
	}
}
