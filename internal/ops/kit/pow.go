package kit

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// PowFloat stores a to the power of b. Small constant exponents are computed by products.
func PowFloat[T FloatNumber](dst, a, b []T) {
	if len(b) == 1 && len(a) == len(dst) {
		switch y := b[0]; y {
		case 2:
			for i, x := range a {
				dst[i] = x * x
			}
			return
		case 3:
			for i, x := range a {
				dst[i] = x * x * x
			}
			return
		default:
			for i, x := range a {
				dst[i] = T(math.Pow(float64(x), float64(y)))
			}
			return
		}
	}
	if len(a) == 1 && len(b) == len(dst) {
		x := float64(a[0])
		for i, y := range b {
			dst[i] = T(math.Pow(x, float64(y)))
		}
		return
	}
	if len(a) == 1 {
		RepeatOf(dst, T(math.Pow(float64(a[0]), float64(b[0]))))
		return
	}
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Pow(float64(a[i]), float64(b[i])))
	}
}

// PowFloats computes powers of a by b. Either may have one element, which is broadcast.
func PowFloats(dst, a, b []float32) {
	l := cpu.Active()
	if len(b) == 1 && len(a) == len(dst) && b[0] == -1 { // 1/x, rounded once
		vec.ReciprocalF32(l, dst, a)
		return
	}
	var one [LoopBlock]float32 // the broadcast element
	switch {
	case len(dst) == 1:
	case len(a) == 1:
		RepeatOf(one[:min(len(one), len(dst))], a[0])
	case len(b) == 1:
		RepeatOf(one[:min(len(one), len(dst))], b[0])
	}
	for lo := 0; lo < len(dst); lo += len(one) {
		hi := min(lo+len(one), len(dst))
		x, y := one[:], one[:]
		if len(a) == len(dst) {
			x = a[lo:hi]
		}
		if len(b) == len(dst) {
			y = b[lo:hi]
		}
		vec.PowF32(l, dst[lo:hi], x, y)
	}
}
