//go:build !amd64 || purego

package quant

import "github.com/onward-ml/onward/internal/cpu"

func tilesAMX(t *Tiles) { tilesGeneric(t) }

func storeSums(_ cpu.Level, t *tileI32, sums []int32, cols int) { storeSumsGeneric(t, sums, cols) }
