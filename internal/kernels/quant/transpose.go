package quant

import (
	"encoding/binary"

	"github.com/onward-ml/onward/internal/cpu"
)

// TransposeBytes writes the transpose of the rows×cols bytes at src with lds bytes between its rows
// to dst, cols×rows with ldd bytes between its rows.
//
//	for i := range rows {
//		for j := range cols {
//			dst[j*ldd+i] = src[i*lds+j]
//		}
//	}
func TransposeBytes(l cpu.Level, dst []byte, ldd int, src []byte, lds, rows, cols int) {
	if rows <= 0 || cols <= 0 {
		return
	}
	_, _ = dst[(cols-1)*ldd+rows-1], src[(rows-1)*lds+cols-1]
	if ldd == rows && (rows == 1 || rows == 3 && cols >= 16 && interleaveBytesAsm(l, dst, src, lds, cols)) {
		if rows == 1 {
			copy(dst, src[:cols])
		}
		return
	}
	i := 0
	if rows >= 16 && cols >= 16 && transposeBytesAsm(l, dst, ldd, src, lds, cols&^15) {
		// The last block overlaps the previous one.
		for ; i < rows; i += 16 {
			i = min(i, rows-16)
			d, s := dst[i:], src[i*lds:]
			if i > 0 {
				transposeBytesAsm(l, d, ldd, s, lds, cols&^15)
			}
			if cols&15 != 0 {
				transposeBytesAsm(l, d[(cols-16)*ldd:], ldd, s[cols-16:], lds, 16)
			}
		}
		return
	}
	for ; i+8 <= rows; i += 8 {
		j := 0
		for ; j+8 <= cols; j += 8 {
			var v [8]uint64
			for k := range v {
				v[k] = binary.LittleEndian.Uint64(src[(i+k)*lds+j:])
			}
			transpose8(&v)
			for k := range v {
				binary.LittleEndian.PutUint64(dst[(j+k)*ldd+i:], v[k])
			}
		}
		for ; j < cols; j++ {
			for k := range 8 {
				dst[j*ldd+i+k] = src[(i+k)*lds+j]
			}
		}
	}
	for ; i < rows; i++ {
		for j := range cols {
			dst[j*ldd+i] = src[i*lds+j]
		}
	}
}

// transpose8 transposes 8×8 bytes by exchanging blocks of four, two and one.
func transpose8(v *[8]uint64) {
	swap := func(a, b *uint64, shift uint, mask uint64) {
		t := (*a>>shift ^ *b) & mask
		*b ^= t
		*a ^= t << shift
	}
	for i := range 4 {
		swap(&v[i], &v[i+4], 32, 0x00000000ffffffff)
	}
	for _, i := range [4]int{0, 1, 4, 5} {
		swap(&v[i], &v[i+2], 16, 0x0000ffff0000ffff)
	}
	for i := 0; i < 8; i += 2 {
		swap(&v[i], &v[i+1], 8, 0x00ff00ff00ff00ff)
	}
}
