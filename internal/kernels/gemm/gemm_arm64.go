//go:build !purego

package gemm

import "github.com/onward-ml/onward/internal/cpu"

const (
	rowsHalves  = 6
	halvesLevel = cpu.NEON
)

func tileAsm(level cpu.Level, t *tile[float32]) bool {
	if level != cpu.NEON {
		return false
	}
	panelHalves(t)
	return true
}

func tileHalves(rows int, k *tileF32) { tileNEON(rows, k) }

func tileHalvesF16(rows int, k *tileF32) { tileHalfNEON(rows, k) }

func hasVector(level cpu.Level) bool { return level == cpu.NEON }

func dotRows(_ cpu.Level, dst, a, b *float32, ldb, k, n int) {
	dotRowsF32NEON(dst, a, b, ldb, k, n)
}

func addRows(_ cpu.Level, y, a, b *float32, ldb, n, groups int) {
	addRowsF32NEON(y, a, b, ldb, n, groups)
}

func columnsPart(level cpu.Level, left int, dst, a, b *float32, ldb, k int) int {
	switch {
	case level != cpu.NEON:
		return 0
	case left >= 64:
		columns16NEON(dst, a, b, ldb, k)
		return 64
	case left >= 32:
		columns8NEON(dst, a, b, ldb, k)
		return 32
	case left >= 16:
		columns4NEON(dst, a, b, ldb, k)
		return 16
	case left >= 8:
		columns2NEON(dst, a, b, ldb, k)
		return 8
	case left >= 4:
		columns1NEON(dst, a, b, ldb, k)
		return 4
	}
	return 0
}

func hasRowPanels(level cpu.Level) bool { return false }

func rowPanels(int, *float32, *float32, *float32, int, int) {}

func rowHalves(int, *float32, *float32, *uint16, int, int) {}

func fewRows(cpu.Level, *Args[float32], Block) bool { return false }

func dotHeads(_ cpu.Level, t HeadFormat, heads int, dst *float32, ldd int, a *float32, lda int, b *byte, ldb, k,
	n int) {
	dotHeadsNEON(t, heads, dst, ldd, a, lda, b, ldb, k, n)
}

func addHeads(_ cpu.Level, t HeadFormat, heads int, y *float32, ldy int, a *float32, lda int, b *byte, ldb, columns,
	n int) {
	addHeadsNEON(t, heads, y, ldy, a, lda, b, ldb, columns, n)
}
