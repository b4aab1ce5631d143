//go:build !purego

package vec

import "github.com/onward-ml/onward/internal/cpu"

// transposeBlock returns the block size of level l, or 0 if it has no kernel.
func transposeBlock(l cpu.Level) int {
	switch l {
	case cpu.AVX512:
		return 16
	case cpu.AVX2:
		return 8
	}
	return 0
}

func transposeBlocks(w int, dst, src *float32, ldd, lds, n int) {
	if w == 16 {
		transposeF32AVX512(dst, src, ldd, lds, n)
	} else {
		transposeF32AVX2(dst, src, ldd, lds, n)
	}
}
