//go:build !purego

package quant

import "github.com/onward-ml/onward/internal/cpu"

func tileHeight(l cpu.Level, _ bool) int {
	if cpu.DotProduct(l) {
		return 6
	}
	return tileRows
}

func runTile(l cpu.Level, dot bool, rows, cols int, t *tileI32) {
	if dot && cpu.DotProduct(l) {
		tileHalves(l, rows, cols, t)
		return
	}
	tileGeneric(dot, rows, cols, t)
}

func tileHalf(l cpu.Level, rows int, t *tileI32) {
	if rows > 1 && cpu.Int8Matrix(l) {
		tileMatrix(rows, t)
	} else {
		tileDOT(rows, t)
	}
}
