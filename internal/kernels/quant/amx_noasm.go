//go:build !amd64 || purego

package quant

func tilesAMX(t *Tiles) { tilesGeneric(t) }
