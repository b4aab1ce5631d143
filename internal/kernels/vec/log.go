package vec

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
)

// LogF32 computes the following, within 1.5 ULP:
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.Log(float64(v)))
//	}
//
// Zero gives -Inf, a negative number NaN.
func LogF32(l cpu.Level, dst, x []float32) { logF32(l, dst, x) }

func logF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.Log(float64(v)))
	}
}
