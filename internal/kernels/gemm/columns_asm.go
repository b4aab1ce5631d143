//go:build (amd64 || arm64) && !purego

package gemm

import "github.com/onward-ml/onward/internal/cpu"

// columnSteps limits a call for 256 columns to about 20 µs: rows.
const columnSteps = 2048

// columnsAsm computes the first columns and returns their number.
func columnsAsm(l cpu.Level, dst, a, b []float32, ldb int, backward bool) int {
	j := 0
	for j < len(dst) {
		n := 0
		for done := 0; done < len(a); {
			rows := min(len(a)-done, columnSteps)
			if k := len(a) - 1 - done; backward {
				n = columnsPart(l, len(dst)-j, &dst[j], &a[k], &b[k*ldb+j], -4, -4*ldb, rows)
			} else {
				n = columnsPart(l, len(dst)-j, &dst[j], &a[done], &b[done*ldb+j], 4, 4*ldb, rows)
			}
			done += rows
		}
		if n == 0 {
			return j
		}
		j += n
	}
	return j
}
