package vec

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
)

// AsinF32 computes the following, within 2.5 ULP. Magnitudes over 1 give NaN.
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.Asin(float64(v)))
//	}
func AsinF32(l cpu.Level, dst, x []float32) { asinF32(l, dst, x) }

// AcosF32 computes the following, within 2 ULP. Magnitudes over 1 give NaN.
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.Acos(float64(v)))
//	}
func AcosF32(l cpu.Level, dst, x []float32) { acosF32(l, dst, x) }

// AtanF32 computes the following, within 2 ULP.
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.Atan(float64(v)))
//	}
func AtanF32(l cpu.Level, dst, x []float32) { atanF32(l, dst, x) }

// SinhF32 computes the following, within 2.5 ULP.
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.Sinh(float64(v)))
//	}
func SinhF32(l cpu.Level, dst, x []float32) { sinhF32(l, dst, x) }

// CoshF32 computes the following, within 2 ULP.
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.Cosh(float64(v)))
//	}
func CoshF32(l cpu.Level, dst, x []float32) { coshF32(l, dst, x) }

// AsinhF32 computes the following, within 3 ULP.
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.Asinh(float64(v)))
//	}
func AsinhF32(l cpu.Level, dst, x []float32) { asinhF32(l, dst, x) }

// AcoshF32 computes the following, within 3 ULP. Numbers under 1 give NaN.
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.Acosh(float64(v)))
//	}
func AcoshF32(l cpu.Level, dst, x []float32) { acoshF32(l, dst, x) }

// AtanhF32 computes the following, within 3 ULP. Magnitudes over 1 give NaN.
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.Atanh(float64(v)))
//	}
func AtanhF32(l cpu.Level, dst, x []float32) { atanhF32(l, dst, x) }

func asinF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.Asin(float64(v)))
	}
}

func acosF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.Acos(float64(v)))
	}
}

func atanF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.Atan(float64(v)))
	}
}

func sinhF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.Sinh(float64(v)))
	}
}

func coshF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.Cosh(float64(v)))
	}
}

func asinhF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.Asinh(float64(v)))
	}
}

func acoshF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.Acosh(float64(v)))
	}
}

func atanhF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.Atanh(float64(v)))
	}
}
