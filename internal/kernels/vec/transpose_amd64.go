//go:build !purego

package vec

import "github.com/onward-ml/onward/internal/cpu"

// transposeBlock returns the block size of level l, or 0 if it has no kernel of its own for
// float32.
func transposeBlock(l cpu.Level) int {
	if l == cpu.AVX2 {
		return 8
	}
	return 0
}

func transposeBlocks(dst, src *float32, ldd, lds, n int) { transposeF32AVX2(dst, src, ldd, lds, n) }
