//go:build !purego

package vec

import "github.com/onward-ml/onward/internal/cpu"

// transposeBlock returns the side of the blocks of level l, 0 where it has none.
func transposeBlock(l cpu.Level) int {
	if l == cpu.NEON {
		return 4
	}
	return 0
}

func transposeBlocks(_ int, dst, src *float32, ldd, lds, n int) {
	transposeF32NEON(dst, src, ldd, lds, n)
}
