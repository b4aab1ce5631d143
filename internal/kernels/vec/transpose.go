package vec

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

// TransposeF32 writes the transpose of the rows×cols matrix src with lds elements between its rows
// to dst, cols×rows with ldd elements between its rows. The two must not overlap.
//
//	for i := range rows {
//		for j := range cols {
//			dst[j*ldd+i] = src[i*lds+j]
//		}
//	}
func TransposeF32(l cpu.Level, dst []float32, ldd int, src []float32, lds, rows, cols int) {
	if rows <= 0 || cols <= 0 {
		return
	}
	_, _ = dst[(cols-1)*ldd+rows-1], src[(rows-1)*lds+cols-1]
	if rows == 1 && ldd == 1 || cols == 1 && lds == 1 {
		copy(dst[:rows*cols], src) // blocks would be masked
		return
	}
	if canTranspose[uint32](l) {
		transposeAny(bits32(dst), ldd, bits32(src), lds, rows, cols)
		return
	}
	r, c := transposeBlocksF32(l, dst, ldd, src, lds, rows, cols)
	// Transpose the remainder of whole blocks: the columns on the right, then the rows below.
	transposeGeneric(dst[min(c, cols-1)*ldd:], ldd, src[min(c, cols-1):], lds, r, cols-c)
	if r < rows {
		transposeGeneric(dst[r:], ldd, src[r*lds:], lds, rows-r, cols)
	}
}

// TransposeF64 is [TransposeF32] for float64.
func TransposeF64(l cpu.Level, dst []float64, ldd int, src []float64, lds, rows, cols int) {
	if !Transpose(l, bits64(dst), ldd, bits64(src), lds, rows, cols) {
		transposeGeneric(dst, ldd, src, lds, rows, cols)
	}
}

func bits32(x []float32) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

func bits64(x []float64) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// transposeGeneric is the loop above. If it were inlined, the program would
// contain it five times.
//
//go:noinline
func transposeGeneric[T float32 | float64](dst []T, ldd int, src []T, lds, rows, cols int) {
	const tile = 8 // lines of both matrices that fit in the first-level cache together
	for i0 := 0; i0 < rows; i0 += tile {
		i1 := min(rows, i0+tile)
		for j := range cols {
			d := dst[j*ldd+i0:][:i1-i0]
			for i := range d {
				d[i] = src[(i0+i)*lds+j]
			}
		}
	}
}
