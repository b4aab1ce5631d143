package vec

import "github.com/onward-ml/onward/internal/cpu"

// Bits are the elements that move without regard to what they mean.
type Bits interface {
	uint8 | uint16 | uint32 | uint64
}

// Transpose is [TransposeF32] for elements of any width. It reports whether there is a kernel
// for them; without one it does nothing.
func Transpose[E Bits](l cpu.Level, dst []E, ldd int, src []E, lds, rows, cols int) bool {
	if !canTranspose[E](l) {
		return false
	}
	if rows <= 0 || cols <= 0 {
		return true
	}
	_, _ = dst[(cols-1)*ldd+rows-1], src[(rows-1)*lds+cols-1]
	transposeAny(dst, ldd, src, lds, rows, cols)
	return true
}
