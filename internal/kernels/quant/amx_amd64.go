//go:build !purego

package quant

import "github.com/onward-ml/onward/internal/cpu"

func tilesAMX(t *Tiles) {
	if t.rows(1) == 0 {
		tiles1AMX(t)
	} else {
		tiles2AMX(t)
	}
}

func storeSums(l cpu.Level, t *tileI32, sums []int32, cols int) {
	if l != cpu.AVX512 {
		storeSumsGeneric(t, sums, cols)
		return
	}
	storeSumsAVX512(t, &sums[0], len(sums)/PanelWidth)
}
