//go:build (amd64 || arm64) && !purego

package gemm

import "github.com/onward-ml/onward/internal/cpu"

// columnSteps limits a call for 256 columns to about 20 µs: rows.
const columnSteps = 2048

// columnsAsm computes the first columns and returns their number.
func columnsAsm(l cpu.Level, dst, a, b []float32, ldb int) int {
	j := 0
	for j < len(dst) {
		n := 0
		for k := 0; k < len(a); k += columnSteps {
			x := a[k:min(len(a), k+columnSteps)]
			n = columnsPart(l, len(dst)-j, &dst[j], &x[0], &b[k*ldb+j], ldb*4, len(x))
		}
		if n == 0 {
			return j
		}
		j += n
	}
	return j
}
