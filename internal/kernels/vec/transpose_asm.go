//go:build (amd64 || arm64) && !purego

package vec

import "github.com/onward-ml/onward/internal/cpu"

// transposeBlocksF32 transposes block by block and returns the number of rows and columns done:
// all, or 0 if a side is shorter than a block.
func transposeBlocksF32(l cpu.Level, dst []float32, ldd int, src []float32, lds, rows, cols int) (r, c int) {
	w := transposeBlock(l)
	if w == 0 || rows < w || cols < w {
		return 0, 0
	}
	// If sizes are not multiples of the block size, the last blocks overlap their neighbours.
	const most = 64 // blocks per call
	for i := 0; i < rows; i += w {
		i := min(i, rows-w)
		for j := 0; j < cols; {
			at, n := j, min(most, (cols-j)/w)
			if n == 0 {
				at, n = cols-w, 1
			}
			transposeBlocks(&dst[at*ldd+i], &src[i*lds+at], ldd*4, lds*4, n)
			j = at + n*w
		}
	}
	return rows, cols
}
