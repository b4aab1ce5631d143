package vec

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

// CumulateMost is the largest step of [Cumulate].
const CumulateMost = 64

// Cumulate computes the following for rows of step elements, from 1 to [CumulateMost], and row -1
// being before.
//
//	dst[r][i] = dst[r-1][i] + src[r][i]
func Cumulate[T int32 | int64 | float32 | float64](l cpu.Level, dst, src, before []T, step int) {
	src, before = src[:len(dst)], before[:step]
	size := int(unsafe.Sizeof(T(0)))
	lanes := 32 / size
	if width(l) == 0 || l == cpu.NEON || step < lanes || step > CumulateMost {
		for i, v := range src[:step] {
			dst[i] = before[i] + v
		}
		y, x := dst[step:], src[step:]
		for i, v := range dst[:len(y)] {
			y[i] = v + x[i]
		}
		return
	}
	var sums [CumulateMost + 8]T
	copy(sums[:], before)
	copy(sums[(step-1)/lanes*lanes:], before[step-lanes:])
	const pause = 1 << 14
	for most := pause / step * step; len(dst) > 0; {
		n := min(len(dst), most)
		y, x, s := (*byte)(unsafe.Pointer(&dst[0])), (*byte)(unsafe.Pointer(&src[0])), (*byte)(unsafe.Pointer(&sums))
		switch any(T(0)).(type) {
		case float32:
			cumulateF32(y, x, s, step*size, n/step)
		case float64:
			cumulateF64(y, x, s, step*size, n/step)
		case int32:
			cumulateI32(y, x, s, step*size, n/step)
		case int64:
			cumulateI64(y, x, s, step*size, n/step)
		}
		dst, src = dst[n:], src[n:]
	}
}
