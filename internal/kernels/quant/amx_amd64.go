//go:build !purego

package quant

func tilesAMX(t *Tiles) {
	if t.halves == 1 {
		tiles1AMX(t)
	} else {
		tiles2AMX(t)
	}
}
