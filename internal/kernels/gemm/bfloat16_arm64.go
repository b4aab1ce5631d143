//go:build !purego

package gemm

import "github.com/onward-ml/onward/internal/cpu"

func (t *bf16Tiles) amx(int) {}

// dotChunks makes each call compute one tile.
const dotChunks = 1

// rowsBF16 is for one row in the order of BFMMLA.
func rowsBF16(level cpu.Level, dst []uint16, x []float32, ldx, rows, n int) {
	if cpu.RunsBF16(level) != cpu.BF16Fours {
		rowsBF16Generic(dst, x, ldx, rows, n)
		return
	}
	rowBF16NEON(&dst[0], &x[0], n)
}

func foursBF16(level cpu.Level, dst []uint16, x []float32, n int) {
	if cpu.RunsBF16(level) != cpu.BF16Fours {
		foursGeneric(dst, x, n)
	} else if n > 0 {
		foursBF16NEON(&dst[0], &x[0], n)
	}
}

func splitRows(_ cpu.Level, dst, most []uint16, x []float32, ldx, rows, n int) {
	splitRowsGeneric(dst, most, x, ldx, rows, n)
}

func splitPanel(_ cpu.Level, dst []uint16, rows []float32) { splitPanelGeneric(dst, rows) }
