//go:build !purego

package gemm

import "github.com/onward-ml/onward/internal/cpu"

// columnSteps bounds the rows of a call of 256 columns to about 20 µs.
const columnSteps = 2048

// columnsAsm computes the first columns and returns how many.
func columnsAsm(l cpu.Level, dst, a, b []float32, ldb int) int {
	j := 0
	for j < len(dst) {
		n := 0
		for k := 0; k < len(a); k += columnSteps {
			x := a[k:min(len(a), k+columnSteps)]
			switch l {
			case cpu.AVX512:
				n = columnsAVX512(len(dst)-j, &dst[j], &x[0], &b[k*ldb+j], ldb*4, len(x))
			case cpu.AVX2:
				n = columnsAVX2(len(dst)-j, &dst[j], &x[0], &b[k*ldb+j], ldb*4, len(x))
			}
		}
		if n == 0 {
			return j
		}
		j += n
	}
	return j
}

// columnsAVX512 computes as many of left columns as one kernel can and returns their number.
func columnsAVX512(left int, dst, a, b *float32, ldb, k int) int {
	switch {
	case left >= 256:
		columns16AVX512(dst, a, b, ldb, k)
		return 256
	case left >= 128:
		columns8AVX512(dst, a, b, ldb, k)
		return 128
	case left >= 64:
		columns4AVX512(dst, a, b, ldb, k)
		return 64
	case left >= 32:
		columns2AVX512(dst, a, b, ldb, k)
		return 32
	case left >= 16:
		columns1AVX512(dst, a, b, ldb, k)
		return 16
	}
	return 0
}

func columnsAVX2(left int, dst, a, b *float32, ldb, k int) int {
	switch {
	case left >= 64:
		columns8AVX2(dst, a, b, ldb, k)
		return 64
	case left >= 32:
		columns4AVX2(dst, a, b, ldb, k)
		return 32
	case left >= 16:
		columns2AVX2(dst, a, b, ldb, k)
		return 16
	case left >= 8:
		columns1AVX2(dst, a, b, ldb, k)
		return 8
	}
	return 0
}
