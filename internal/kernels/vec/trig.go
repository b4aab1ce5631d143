package vec

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
)

// maxReduced is the largest argument that the assembly reduces exactly.
const maxReduced = 30000

// SinF32 computes the following, within 1.5 ULP. Chunks of 8192 elements with a NaN or a magnitude
// over 30,000 use the generic code.
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.Sin(float64(v)))
//	}
func SinF32(l cpu.Level, dst, x []float32) {
	for x = x[:len(dst)]; len(dst) > 0; {
		n := min(len(dst), chunk)
		if reducible(l, x[:n]) {
			sinF32(l, dst[:n], x)
		} else {
			sinF32Generic(dst[:n], x)
		}
		dst, x = dst[n:], x[n:]
	}
}

// CosF32 computes the following, within 1.5 ULP, in chunks as [SinF32] does.
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.Cos(float64(v)))
//	}
func CosF32(l cpu.Level, dst, x []float32) {
	for x = x[:len(dst)]; len(dst) > 0; {
		n := min(len(dst), chunk)
		if reducible(l, x[:n]) {
			cosF32(l, dst[:n], x)
		} else {
			cosF32Generic(dst[:n], x)
		}
		dst, x = dst[n:], x[n:]
	}
}

// TanF32 computes the following, within 3.5 ULP, in chunks as [SinF32] does.
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.Tan(float64(v)))
//	}
func TanF32(l cpu.Level, dst, x []float32) {
	for x = x[:len(dst)]; len(dst) > 0; {
		n := min(len(dst), chunk)
		if reducible(l, x[:n]) {
			tanF32(l, dst[:n], x)
		} else {
			tanF32Generic(dst[:n], x)
		}
		dst, x = dst[n:], x[n:]
	}
}

func reducible(l cpu.Level, x []float32) bool {
	return reduceMaxF32(l, x) <= maxReduced && reduceMinF32(l, x) >= -maxReduced
}

func sinF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.Sin(float64(v)))
	}
}

func cosF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.Cos(float64(v)))
	}
}

func tanF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.Tan(float64(v)))
	}
}
