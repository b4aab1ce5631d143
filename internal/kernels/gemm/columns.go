package gemm

import "github.com/onward-ml/onward/internal/cpu"

// Columns adds the GEMV of a vector and a row-major matrix to dst. It is fastest if the matrix has
// 256 columns and ldb is 256. |error| ≤ (len(a)+1)·2⁻²⁴·(|dst| + Σ|a||b|) per element; the order of
// the additions depends on the level and on len(dst). Columns computes
//
//	for k, v := range a {
//		for j := range dst {
//			dst[j] += v * b[k*ldb+j]
//		}
//	}
func Columns(l cpu.Level, dst, a, b []float32, ldb int) {
	if len(a) == 0 || len(dst) == 0 {
		return
	}
	_ = b[(len(a)-1)*ldb+len(dst)-1]
	n := columnsAsm(l, dst, a, b, ldb)
	columnsGeneric(dst[n:], a, b[n:], ldb)
}

func columnsGeneric(dst, a, b []float32, ldb int) {
	if len(dst) == 0 {
		return
	}
	for k, v := range a {
		for j, w := range b[k*ldb:][:len(dst)] {
			dst[j] += v * w
		}
	}
}
