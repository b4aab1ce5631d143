//go:build !purego && (amd64 || arm64)

package quant

import "github.com/onward-ml/onward/internal/cpu"

// chunk is the number of elements of a call.
const chunk = 1 << 15

// packRowsAsm packs the 32 columns at b of up to steps times four rows, and returns the number of
// steps it did.
func packRowsAsm(dst []int8, b []uint8, sums []int32, ldb, steps int, flip uint8) int {
	const most = 1 << 12 // keeps calls short
	for s := 0; s < steps; s += most {
		packBlocks(&dst[s*PanelWidth*4], &b[s*4*ldb], &sums[0], ldb, min(most, steps-s), flip)
	}
	return steps
}

// transposeBytesAsm transposes sixteen rows of whole blocks, and reports whether it did.
func transposeBytesAsm(l cpu.Level, dst []byte, ldd int, src []byte, lds, cols int) bool {
	if l != blockLevel || cols == 0 {
		return false
	}
	const most = 256 // blocks per call
	for j := 0; j < cols; {
		n := min(most, (cols-j)/16)
		transposeBlocks(&dst[j*ldd], &src[j], ldd, lds, n)
		j += n * 16
	}
	return true
}

// interleaveBytesAsm transposes three rows, and reports whether it did.
func interleaveBytesAsm(l cpu.Level, dst, src []byte, lds, cols int) bool {
	if l != blockLevel {
		return false
	}
	const most = 1 << 10 // blocks per call
	for j := 0; j < cols; {
		n := min(most, (cols-j)/16)
		if n == 0 { // the last block overlaps the previous one
			j, n = cols-16, 1
		}
		interleaveBlocks(&dst[j*3], &src[j], lds, n)
		j += n * 16
	}
	return true
}
