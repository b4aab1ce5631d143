//go:build !purego

package vec

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

func canTranspose[E Bits](l cpu.Level) bool { return l == cpu.AVX512 }

// fewElements are moved one by one in the time that a kernel takes for the edge of a matrix.
const fewElements = 32

func transposeAny[E Bits](dst []E, ldd int, src []E, lds, rows, cols int) {
	var z E
	size := int(unsafe.Sizeof(z))
	w := 16
	if size == 8 {
		w = 8
	}
	switch {
	case rows*cols <= fewElements:
		for j := range cols {
			d, at := dst[j*ldd:][:rows], j
			for i := range d {
				d[i] = src[at]
				at += lds
			}
		}
		return
	case rows < 16 || lds != cols:
	case size == 1 && cols == 3:
		channels(threeChannelsAVX512, dst, src, ldd, 3, rows)
		return
	case size == 4 && cols == 2:
		channels(twoChannelsAVX512, dst, src, ldd, 2, rows)
		return
	}
	const most = 64 // blocks per call
	// run transposes blocks of h×v elements from row i and column j on. It processes whole blocks
	// along the longer side in one call.
	run := func(i, j, h, v, down, right int) {
		for n := max(down, right); n > 0; n -= most {
			m := min(n, most)
			d, s := (*byte)(unsafe.Pointer(&dst[j*ldd+i])), (*byte)(unsafe.Pointer(&src[i*lds+j]))
			dstStep, srcStep := w*size, w*lds*size
			if right > down {
				dstStep, srcStep = w*ldd*size, w*size
				j += w * m
			} else {
				i += w * m
			}
			full := h == w && v == w
			switch {
			case size == 1 && full:
				transposeU8AVX512(d, s, ldd, lds, dstStep, srcStep, m)
			case size == 1:
				transposeU8EdgeAVX512(d, s, ldd, lds, dstStep, srcStep, m, h, v)
			case size == 2 && full:
				transposeU16AVX512(d, s, 2*ldd, 2*lds, dstStep, srcStep, m)
			case size == 2:
				transposeU16EdgeAVX512(d, s, 2*ldd, 2*lds, dstStep, srcStep, m, h, v)
			case size == 4 && full:
				transposeU32AVX512(d, s, 4*ldd, 4*lds, dstStep, srcStep, m)
			case size == 4:
				transposeU32EdgeAVX512(d, s, 4*ldd, 4*lds, dstStep, srcStep, m, h, v)
			case full:
				transposeU64AVX512(d, s, 8*ldd, 8*lds, dstStep, srcStep, m)
			default:
				transposeU64EdgeAVX512(d, s, 8*ldd, 8*lds, dstStep, srcStep, m, h, v)
			}
		}
	}
	r, c := rows/w*w, cols/w*w
	if rows >= cols {
		for j := 0; j < c; j += w {
			run(0, j, w, w, rows/w, 1)
		}
	} else {
		for i := 0; i < r; i += w {
			run(i, 0, w, w, 1, cols/w)
		}
	}
	if c < cols && r > 0 {
		run(0, c, w, cols-c, rows/w, 1)
	}
	if r < rows && c > 0 {
		run(r, 0, rows-r, w, 1, cols/w)
	}
	if r < rows && c < cols {
		run(r, c, rows-r, cols-c, 1, 1)
	}
}

// channels divides at least 16 pixels of several numbers into planes. kernel divides n times 16
// pixels.
func channels[E Bits](kernel func(dst, src *byte, ldd, n int), dst, src []E, ldd, cols, pixels int) {
	const most = 1 << 10 // blocks per call
	for i := 0; i < pixels; {
		n := min(most, (pixels-i)/16)
		if n == 0 { // the last block overlaps the one before it
			i, n = pixels-16, 1
		}
		kernel((*byte)(unsafe.Pointer(&dst[i])), (*byte)(unsafe.Pointer(&src[cols*i])),
			ldd*int(unsafe.Sizeof(dst[0])), n)
		i += 16 * n
	}
}
