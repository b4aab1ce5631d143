//go:build !purego

package quant

import "github.com/onward-ml/onward/internal/cpu"

// tileHeight returns the rows of the largest tile of int8, if dot is set, or of int16.
func tileHeight(l cpu.Level, dot bool) int {
	switch {
	case l == cpu.AVX2:
		return 6
	case l == cpu.AVX512 && !dot:
		return 8
	}
	return tileRows
}

func runTile(l cpu.Level, dot bool, rows, cols int, t *tileI32) {
	switch {
	case l == cpu.AVX512 && dot:
		tileVNNI(rows, t)
	case l == cpu.AVX512:
		tileAVX512(rows, t)
	case l == cpu.AVX2:
		tileHalves(l, rows, cols, t)
	default:
		tileGeneric(dot, rows, cols, t)
	}
}

func tileHalf(_ cpu.Level, rows int, t *tileI32) {
	if t.ldb == 4*PanelWidth {
		tileDotAVX2(rows, t)
	} else {
		tileAVX2(rows, t)
	}
}

const blockLevel = cpu.AVX512

func sumU8(l cpu.Level, x []uint8) (s uint32) {
	for l == cpu.AVX512 && len(x) >= 64 || l == cpu.AVX2 && len(x) >= 32 {
		n := min(len(x)&^63, chunk)
		if l == cpu.AVX512 {
			s += sumU8AVX512(&x[0], n)
		} else {
			n = min(len(x)&^31, chunk)
			s += sumU8AVX2(&x[0], n)
		}
		x = x[n:]
	}
	return s + sumU8Generic(x)
}

func quantizeF32(l cpu.Level, dst []uint8, x []float32, scale, zero, lo, hi float32) {
	x = x[:len(dst)]
	for l == cpu.AVX512 && len(dst) >= 16 || l == cpu.AVX2 && len(dst) >= 8 {
		n := min(len(dst)&^15, chunk)
		if l == cpu.AVX512 {
			quantizeF32AVX512(&dst[0], &x[0], n, scale, zero, lo, hi)
		} else {
			n = min(len(dst)&^7, chunk)
			quantizeF32AVX2(&dst[0], &x[0], n, scale, zero, lo, hi)
		}
		dst, x = dst[n:], x[n:]
	}
	quantizeF32Generic(dst, x, scale, zero, lo, hi)
}

func requantizeI32(l cpu.Level, dst []uint8, x []int32, scale []float32, zero, lo, hi float32) {
	width, kernel := 16, requantizeI32AVX512
	if l == cpu.AVX2 {
		width, kernel = 8, requantizeI32AVX2
	}
	step := min(max(0, len(scale)-1), 1)
	if l != cpu.AVX512 && l != cpu.AVX2 || len(dst) < width {
		requantizeI32Generic(dst, x, scale, step, zero, lo, hi)
		return
	}
	for at := 0; at < len(dst); {
		n := min((len(dst)-at)&^(width-1), chunk)
		if n == 0 { // the last elements, some of them once more
			at, n = len(dst)-width, width
		}
		kernel(&dst[at], &x[at], &scale[at*step], step, n, zero, lo, hi)
		at += n
	}
}

// packBlocks packs steps times four rows of 32 columns. Matrices for VNNI are packed only where it
// exists.
func packBlocks(dst *int8, b *uint8, sums *int32, ldb, steps int, flip uint8) {
	packRowsVNNI(dst, b, sums, ldb, steps, uint32(flip)*0x01010101)
}

func transposeBlocks(dst, src *uint8, ldd, lds, n int) { transposeBytesAVX512(dst, src, ldd, lds, n) }

func interleaveBlocks(dst, src *uint8, lds, n int) { interleaveBytesAVX512(dst, src, lds, n) }

// combineBlocks calls combine for ranges of the first n elements that the kernels of level l take,
// and returns n.
func combineBlocks(l cpu.Level, n, most int, combine func(avx512 bool, at, n int)) int {
	switch l {
	case cpu.AVX512:
		n &^= 15
	case cpu.AVX2:
		n &^= 7
	default:
		return 0
	}
	for i := 0; i < n; i += most {
		combine(l == cpu.AVX512, i, min(n-i, most))
	}
	return n
}

// addBytesAsm adds the first elements and returns their number. Sums are below 2³¹.
func addBytesAsm(l cpu.Level, dst, a, b []uint8, flip int32, sa, sb, c, zero, lo, hi float32) int {
	return combineBlocks(l, len(dst), chunk, func(avx512 bool, at, n int) {
		add := addBytesAVX2
		if avx512 {
			add = addBytesAVX512
		}
		add(&dst[at], &a[at], &b[at], n, flip, sa, sb, c, zero, lo, hi)
	})
}

// mulBytesAsm multiplies the first elements and returns their number.
func mulBytesAsm(l cpu.Level, dst, a, b []uint8, za, zb, flip int32, scale, offset, lo, hi float32) int {
	const small = 1 << 14 // scales for which results are below 2³¹
	most := chunk
	if !(max(scale, -scale) < small) {
		most = 48 // less than the kernel's loop for such results takes
	}
	return combineBlocks(l, len(dst), most, func(avx512 bool, at, n int) {
		mul := mulBytesAVX2
		if avx512 {
			mul = mulBytesAVX512
		}
		mul(&dst[at], &a[at], &b[at], n, za, zb, flip, scale, offset, 0, lo, hi)
	})
}

// maxRangesAsm computes the maxima, and reports whether it did.
func maxRangesAsm(l cpu.Level, dst, x []uint8, n, step, lds, taps int, flip uint32) bool {
	most := chunk / (taps * max(n, 64)) // ranges of a call
	if l != cpu.AVX512 || most == 0 {
		return false
	}
	for i := 0; i < len(dst)/n; i += most {
		maxWindow1AVX512(&dst[i*n], &x[i*step], lds, taps, 1, n, min(most, len(dst)/n-i), step, flip)
	}
	return true
}

// maxWindowAsm computes the maxima, and reports whether it did.
func maxWindowAsm(l cpu.Level, dst, x []uint8, lds, kh, kw, stride int, flip uint32) bool {
	if l != cpu.AVX512 || kh*kw > 1<<12 {
		return false
	}
	for i := 0; i < len(dst); {
		n := min(len(dst)-i, max(1, chunk/(kh*kw)+31)&^31)
		if stride == 1 {
			maxWindow1AVX512(&dst[i], &x[i], lds, kh, kw, n, 1, 0, flip)
		} else {
			maxWindow2AVX512(&dst[i], &x[2*i], lds, kh, kw, n, flip)
		}
		i += n
	}
	return true
}
