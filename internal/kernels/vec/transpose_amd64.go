//go:build !purego

package vec

import "github.com/onward-ml/onward/internal/cpu"

// transposeBlocksF32 transposes as many whole blocks as there are and returns how many
// rows and columns that were.
func transposeBlocksF32(l cpu.Level, dst []float32, ldd int, src []float32, lds, rows, cols int) (r, c int) {
	var w int
	switch l {
	case cpu.AVX512:
		w = 16
	case cpu.AVX2:
		w = 8
	default:
		return 0, 0
	}
	r, c = rows&^(w-1), cols&^(w-1)
	if r == 0 || c == 0 {
		return 0, 0
	}
	const most = 64 // blocks per call
	for i := 0; i < r; i += w {
		for j := 0; j < c; {
			n := min(most, (c-j)/w)
			if w == 16 {
				transposeF32AVX512(&dst[j*ldd+i], &src[i*lds+j], ldd*4, lds*4, n)
			} else {
				transposeF32AVX2(&dst[j*ldd+i], &src[i*lds+j], ldd*4, lds*4, n)
			}
			j += n * w
		}
	}
	return r, c
}
