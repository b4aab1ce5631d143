//go:build !amd64 || purego

package conv

// Kernels that only AVX-512 has.

import "github.com/onward-ml/onward/internal/cpu"

func winogradFilter(_ cpu.Level, m int, src, dst *float32, xi, n int) {
	winogradFilterGeneric(m, src, dst, xi, n)
}

func winogradInput(_ cpu.Level, m int, src, dst *float32, row, xi, n int) {
	winogradInputGeneric(m, src, dst, row, xi, n)
}

func winogradOutput(_ cpu.Level, m int, src, dst, bias, add *float32, row, addRow, xi, n int, lo, hi float32) {
	winogradOutputGeneric(m, src, dst, bias, add, row, addRow, xi, n, lo, hi)
}

func runPlaneTile(_ cpu.Level, rows, stride int, t *planeTile) { planeTileGeneric(rows, stride, t) }

func runPlanar(_ cpu.Level, k int, t *planarTile) { planarGeneric(k, t) }
