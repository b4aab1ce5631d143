//go:build !(amd64 || arm64) || purego

package gemm

import "github.com/onward-ml/onward/internal/cpu"

func (t *bf16Tiles) amx(int) {}

func (t *bf16Tiles) dots(int, *Epilogue[float32], int, int) {}

func rowsBF16(_ cpu.Level, dst []uint16, x []float32, ldx, rows, n int) {
	rowsBF16Generic(dst, x, ldx, rows, n)
}

func foursBF16(_ cpu.Level, dst []uint16, x []float32, n int) { foursGeneric(dst, x, n) }

func splitRows(_ cpu.Level, dst, most []uint16, x []float32, ldx, rows, n int) {
	splitRowsGeneric(dst, most, x, ldx, rows, n)
}

func splitPanel(_ cpu.Level, dst []uint16, rows []float32) { splitPanelGeneric(dst, rows) }
