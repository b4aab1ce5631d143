//go:build purego || !(amd64 || arm64)

package quant

import "github.com/onward-ml/onward/internal/cpu"

func tileHeight(cpu.Level, bool) int { return tileRows }

func runTile(_ cpu.Level, dot bool, rows, cols int, t *tileI32) { tileGeneric(dot, rows, cols, t) }
