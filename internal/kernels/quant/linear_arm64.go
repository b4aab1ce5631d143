//go:build !purego

package quant

import "github.com/onward-ml/onward/internal/cpu"

// least is the number of elements from which on kernels run.
const least = 16

func sumU8(l cpu.Level, x []uint8) (s uint32) {
	const width = 32
	for l == cpu.NEON && len(x) >= width {
		n := min(len(x)&^(width-1), chunk)
		s += sumU8NEON(&x[0], n)
		x = x[n:]
	}
	return s + sumU8Generic(x)
}

func quantizeF32(l cpu.Level, dst []uint8, x []float32, scale, zero, lo, hi float32) {
	x = x[:len(dst)]
	for l == cpu.NEON && len(dst) >= least {
		n := min(len(dst)&^(least-1), chunk)
		quantizeF32NEON(&dst[0], &x[0], n, scale, zero, lo, hi)
		dst, x = dst[n:], x[n:]
	}
	quantizeF32Generic(dst, x, scale, zero, lo, hi)
}

func requantizeI32(l cpu.Level, dst []uint8, x []int32, scale []float32, zero, lo, hi float32) {
	step := min(max(0, len(scale)-1), 1)
	if l != cpu.NEON || len(dst) < least {
		requantizeI32Generic(dst, x, scale, step, zero, lo, hi)
		return
	}
	for at := 0; at < len(dst); {
		n := min((len(dst)-at)&^(least-1), chunk)
		if n == 0 { // the last elements, some of them once more
			at, n = len(dst)-least, least
		}
		requantizeI32NEON(&dst[at], &x[at], &scale[at*step], step, n, zero, lo, hi)
		at += n
	}
}

const blockLevel = cpu.NEON

func packBlocks(dst *int8, b *uint8, sums *int32, ldb, steps int, flip uint8) {
	packRowsNEON(dst, b, sums, ldb, steps, uint32(flip))
}

func transposeBlocks(dst, src *uint8, ldd, lds, n int) { transposeBytesNEON(dst, src, ldd, lds, n) }

func interleaveBlocks(dst, src *uint8, lds, n int) { interleaveBytesNEON(dst, src, lds, n) }

func addBytesAsm(l cpu.Level, dst, a, b []uint8, flip int32, sa, sb, c, zero, lo, hi float32) int {
	if l != cpu.NEON {
		return 0
	}
	end := len(dst) &^ (least - 1)
	for i := 0; i < end; i += chunk {
		addBytesNEON(&dst[i], &a[i], &b[i], min(end-i, chunk), flip, sa, sb, c, zero, lo, hi)
	}
	return end
}

func mulBytesAsm(l cpu.Level, dst, a, b []uint8, za, zb, flip int32, scale, offset, lo, hi float32) int {
	if l != cpu.NEON || uint32(za) > 255 || uint32(zb) > 255 {
		return 0
	}
	end := len(dst) &^ (least - 1)
	for i := 0; i < end; i += chunk {
		mulBytesNEON(&dst[i], &a[i], &b[i], min(end-i, chunk), za, zb, flip, scale, offset, 0, lo, hi)
	}
	return end
}

func maxWindowAsm(l cpu.Level, dst, x []uint8, lds, kh, kw, stride int, flip uint32) bool {
	const width = 8
	if l != cpu.NEON || kh*kw > 1<<12 || len(dst) < width {
		return false
	}
	for i := 0; i < len(dst); {
		i = min(i, len(dst)-width) // the last block overlaps the previous one
		n := min(len(dst)-i, max(1, chunk/(kh*kw)+15)&^15)
		if stride == 1 {
			maxWindow1NEON(&dst[i], &x[i], lds, kh, kw, n, flip)
		} else {
			maxWindow2NEON(&dst[i], &x[2*i], lds, kh, kw, n, flip)
		}
		i += n
	}
	return true
}

func maxRangesAsm(cpu.Level, []uint8, []uint8, int, int, int, int, uint32) bool { return false }
