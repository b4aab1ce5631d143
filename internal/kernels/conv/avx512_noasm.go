//go:build !amd64 || purego

package conv

// Kernels that only AVX-512 has.

import "github.com/onward-ml/onward/internal/cpu"

func winogradFilter(_ cpu.Level, m int, src, dst *float32, xi, n int) {
	winogradFilterGeneric(m, src, dst, xi, n)
}

func runPlaneTile(_ cpu.Level, rows, stride int, t *planeTile) { planeTileGeneric(rows, stride, t) }

func runPlanar(_ cpu.Level, k int, t *planarTile) { planarGeneric(k, t) }
