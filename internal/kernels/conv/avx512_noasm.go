//go:build !amd64 || purego

package conv

// Kernels that only AVX-512 has.

import "github.com/onward-ml/onward/internal/cpu"

func winogradFilter(_ cpu.Level, m int, src, dst *float32, xi, n int) {
	winogradFilterGeneric(m, src, dst, xi, n)
}

func runGrouped(_ cpu.Level, pixels int, t *tileArgs) { groupedGeneric(pixels, t) }

func runPlaneTile(_ cpu.Level, rows, stride int, t *planeTile) { planeTileGeneric(rows, stride, t) }

func runPlanar(_ cpu.Level, k int, t *planarTile) { planarGeneric(k, t) }

func runPairs(_ cpu.Level, pixels, blocks int, t *tileArgs) { pairTilesGeneric(pixels, blocks, t) }

func roundOctets(_ cpu.Level, dst []uint16, x []float32, n, step, next int, mask uint32) {
	roundOctetsGeneric(dst, x, n, step, next, mask)
}
