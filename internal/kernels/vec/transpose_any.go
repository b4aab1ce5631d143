package vec

import "github.com/onward-ml/onward/internal/cpu"

// Bits lists element types by width; their values do not matter.
type Bits interface {
	uint8 | uint16 | uint32 | uint64
}

// Transpose is [TransposeF32] for elements of any width. It reports whether it has a kernel for
// them; otherwise it does nothing.
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
