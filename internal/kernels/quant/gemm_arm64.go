//go:build !purego

package quant

import "github.com/onward-ml/onward/internal/cpu"

func tileHeight(l cpu.Level) int {
	if cpu.DotProduct(l) {
		return 6
	}
	return tileRows
}

func runTile(l cpu.Level, dot bool, rows, cols int, t *tileI32) {
	if dot && cpu.DotProduct(l) {
		tileHalves(rows, cols, t)
		return
	}
	tileGeneric(dot, rows, cols, t)
}

func tileHalf(rows int, t *tileI32) { tileDOT(rows, t) }
