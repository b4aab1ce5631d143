package vec

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
)

// The kernels of this file round once, so that all levels give the same bits, except for the
// payload of NaN.

// AddF32 computes
//
//	b = b[:len(dst)]
//	for i, v := range a[:len(dst)] {
//		dst[i] = v + b[i]
//	}
func AddF32(l cpu.Level, dst, a, b []float32) { addF32(l, dst, a, b) }

func addF32Generic(dst, a, b []float32) {
	b = b[:len(dst)]
	for i, v := range a[:len(dst)] {
		dst[i] = v + b[i]
	}
}

// SubF32 computes
//
//	b = b[:len(dst)]
//	for i, v := range a[:len(dst)] {
//		dst[i] = v - b[i]
//	}
func SubF32(l cpu.Level, dst, a, b []float32) { subF32(l, dst, a, b) }

func subF32Generic(dst, a, b []float32) {
	b = b[:len(dst)]
	for i, v := range a[:len(dst)] {
		dst[i] = v - b[i]
	}
}

// MulF32 computes
//
//	b = b[:len(dst)]
//	for i, v := range a[:len(dst)] {
//		dst[i] = v * b[i]
//	}
func MulF32(l cpu.Level, dst, a, b []float32) { mulF32(l, dst, a, b) }

func mulF32Generic(dst, a, b []float32) {
	b = b[:len(dst)]
	for i, v := range a[:len(dst)] {
		dst[i] = v * b[i]
	}
}

// DivF32 computes
//
//	b = b[:len(dst)]
//	for i, v := range a[:len(dst)] {
//		dst[i] = v / b[i]
//	}
func DivF32(l cpu.Level, dst, a, b []float32) { divF32(l, dst, a, b) }

func divF32Generic(dst, a, b []float32) {
	b = b[:len(dst)]
	for i, v := range a[:len(dst)] {
		dst[i] = v / b[i]
	}
}

// MinF32 computes
//
//	b = b[:len(dst)]
//	for i, v := range a[:len(dst)] {
//		dst[i] = min(v, b[i])
//	}
//
// NaN in either operand gives NaN; the sign of min(0, -0) is open.
func MinF32(l cpu.Level, dst, a, b []float32) { minF32(l, dst, a, b) }

func minF32Generic(dst, a, b []float32) {
	b = b[:len(dst)]
	for i, v := range a[:len(dst)] {
		dst[i] = min(v, b[i])
	}
}

// MaxF32 computes
//
//	b = b[:len(dst)]
//	for i, v := range a[:len(dst)] {
//		dst[i] = max(v, b[i])
//	}
//
// NaN in either operand gives NaN; the sign of max(0, -0) is open.
func MaxF32(l cpu.Level, dst, a, b []float32) { maxF32(l, dst, a, b) }

func maxF32Generic(dst, a, b []float32) {
	b = b[:len(dst)]
	for i, v := range a[:len(dst)] {
		dst[i] = max(v, b[i])
	}
}

// AddScalarF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = v + s
//	}
func AddScalarF32(l cpu.Level, dst, x []float32, s float32) { addScalarF32(l, dst, x, s) }

func addScalarF32Generic(dst, x []float32, s float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = v + s
	}
}

// SubScalarF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = v - s
//	}
func SubScalarF32(l cpu.Level, dst, x []float32, s float32) { subScalarF32(l, dst, x, s) }

func subScalarF32Generic(dst, x []float32, s float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = v - s
	}
}

// ScalarSubF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = s - v
//	}
func ScalarSubF32(l cpu.Level, dst, x []float32, s float32) { scalarSubF32(l, dst, x, s) }

func scalarSubF32Generic(dst, x []float32, s float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = s - v
	}
}

// MulScalarF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = v * s
//	}
func MulScalarF32(l cpu.Level, dst, x []float32, s float32) { mulScalarF32(l, dst, x, s) }

func mulScalarF32Generic(dst, x []float32, s float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = v * s
	}
}

// DivScalarF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = v / s
//	}
func DivScalarF32(l cpu.Level, dst, x []float32, s float32) { divScalarF32(l, dst, x, s) }

func divScalarF32Generic(dst, x []float32, s float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = v / s
	}
}

// ScalarDivF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = s / v
//	}
func ScalarDivF32(l cpu.Level, dst, x []float32, s float32) { scalarDivF32(l, dst, x, s) }

func scalarDivF32Generic(dst, x []float32, s float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = s / v
	}
}

// MinScalarF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = min(v, s)
//	}
//
// NaN in either operand gives NaN.
func MinScalarF32(l cpu.Level, dst, x []float32, s float32) { minScalarF32(l, dst, x, s) }

func minScalarF32Generic(dst, x []float32, s float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = min(v, s)
	}
}

// MaxScalarF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = max(v, s)
//	}
//
// NaN in either operand gives NaN.
func MaxScalarF32(l cpu.Level, dst, x []float32, s float32) { maxScalarF32(l, dst, x, s) }

func maxScalarF32Generic(dst, x []float32, s float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = max(v, s)
	}
}

// ClipF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = min(max(v, lo), hi)
//	}
//
// lo and hi are numbers; NaN in x stays NaN.
func ClipF32(l cpu.Level, dst, x []float32, lo, hi float32) { clipF32(l, dst, x, lo, hi) }

func clipF32Generic(dst, x []float32, lo, hi float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = min(max(v, lo), hi)
	}
}

// ReluF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = max(v, 0)
//	}
//
// NaN stays NaN.
func ReluF32(l cpu.Level, dst, x []float32) { reluF32(l, dst, x) }

func reluF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = max(v, 0)
	}
}

// SqrtF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.Sqrt(float64(v)))
//	}
func SqrtF32(l cpu.Level, dst, x []float32) { sqrtF32(l, dst, x) }

func sqrtF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.Sqrt(float64(v)))
	}
}

// ReciprocalF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = 1 / v
//	}
func ReciprocalF32(l cpu.Level, dst, x []float32) { reciprocalF32(l, dst, x) }

func reciprocalF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = 1 / v
	}
}

// NegF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = -v
//	}
func NegF32(l cpu.Level, dst, x []float32) { negF32(l, dst, x) }

func negF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = -v
	}
}

// AbsF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = math.Float32frombits(math.Float32bits(v) &^ (1 << 31))
//	}
func AbsF32(l cpu.Level, dst, x []float32) { absF32(l, dst, x) }

func absF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = math.Float32frombits(math.Float32bits(v) &^ (1 << 31))
	}
}

// FloorF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.Floor(float64(v)))
//	}
func FloorF32(l cpu.Level, dst, x []float32) { floorF32(l, dst, x) }

func floorF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.Floor(float64(v)))
	}
}

// CeilF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.Ceil(float64(v)))
//	}
func CeilF32(l cpu.Level, dst, x []float32) { ceilF32(l, dst, x) }

func ceilF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.Ceil(float64(v)))
	}
}

// RoundEvenF32 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.RoundToEven(float64(v)))
//	}
//
// This is ONNX Round: halves go to the even number.
func RoundEvenF32(l cpu.Level, dst, x []float32) { roundEvenF32(l, dst, x) }

func roundEvenF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.RoundToEven(float64(v)))
	}
}

// LeakyReluF32 computes
//
//	for i, v := range x[:len(dst)] {
//		if v < 0 {
//			v *= alpha
//		}
//		dst[i] = v
//	}
func LeakyReluF32(l cpu.Level, dst, x []float32, alpha float32) { leakyReluF32(l, dst, x, alpha) }

func leakyReluF32Generic(dst, x []float32, alpha float32) {
	for i, v := range x[:len(dst)] {
		if v < 0 {
			v *= alpha
		}
		dst[i] = v
	}
}
