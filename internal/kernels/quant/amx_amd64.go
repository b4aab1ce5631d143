//go:build !purego

package quant

func tilesAMX(t *Tiles) {
	if t.rows(1) == 0 {
		tiles1AMX(t)
	} else {
		tiles2AMX(t)
	}
}
