package vec

import (
	"encoding/binary"

	"github.com/onward-ml/onward/internal/cpu"
)

// Twice writes each element of rows of n elements of size bytes twice. It also writes each row
// twice if dst is four times as long as src: nearest-neighbour interpolation by 2. size is 1, 2 or
// 4.
func Twice(l cpu.Level, dst, src []byte, n, size int) {
	n *= size
	if n == 0 || len(src) == 0 {
		return
	}
	times, pair := 2, 0
	if len(dst) > 2*len(src) {
		times, pair = 4, 2*n
	}
	for part := max(1, 4*chunk/n) * n; len(src) > 0; {
		from := src[:min(len(src), part)]
		to := dst[:times*len(from)]
		if width(l) == 0 || n < 16 || n > 4*chunk {
			twiceGeneric(to, from, n, pair, size)
		} else if size == 1 {
			twiceU8(&to[0], &from[0], n, pair, len(from)/n)
		} else if size == 2 {
			twiceU16(&to[0], &from[0], n, pair, len(from)/n)
		} else {
			twiceU32(&to[0], &from[0], n, pair, len(from)/n)
		}
		dst, src = dst[len(to):], src[len(from):]
	}
}

func twiceGeneric(dst, src []byte, n, pair, size int) {
	for ; len(src) > 0; src = src[n:] {
		switch size {
		case 1:
			for i, v := range src[:n] {
				dst[2*i], dst[2*i+1] = v, v
			}
		case 2:
			for i := 0; i < n; i += 2 {
				v := uint32(binary.LittleEndian.Uint16(src[i:]))
				binary.LittleEndian.PutUint32(dst[2*i:], v|v<<16)
			}
		case 4:
			for i := 0; i < n; i += 4 {
				v := uint64(binary.LittleEndian.Uint32(src[i:]))
				binary.LittleEndian.PutUint64(dst[2*i:], v|v<<32)
			}
		}
		copy(dst[2*n:][:pair], dst)
		dst = dst[2*n+pair:]
	}
}
