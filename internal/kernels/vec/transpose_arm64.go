//go:build !purego

package vec

import "github.com/onward-ml/onward/internal/cpu"

// transposeBlock returns the block size of level l, or 0 if it has no kernel.
func transposeBlock(l cpu.Level) int {
	if l == cpu.NEON {
		return 4
	}
	return 0
}

func transposeBlocks(dst, src *float32, ldd, lds, n int) {
	transposeF32NEON(dst, src, ldd, lds, n)
}
