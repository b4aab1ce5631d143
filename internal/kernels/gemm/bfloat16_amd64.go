//go:build !purego

package gemm

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

// tilesBF16 holds the arguments of a function for tiles; the generator knows the field offsets.
type tilesBF16 struct {
	config  [64]byte
	a, b, c unsafe.Pointer
	tile    int // bytes of 16 rows of A
	chunks  int
	block   int     // chunks that are summed before the next rows
	tiles   int     // of 32 rows, or of up to 16
	zero    int     // chunks that are left when the sums start from zero; -1 to add to c
	_       [3]int  // variables of the function
	next    uintptr // lines to prefetch: a hint; need not keep its target alive
	lines   int     // of next with each chunk of a tile, at least 1
	// Pairs of rows at from are split to to, lines at each of four points of a chunk of a tile.
	from, to unsafe.Pointer
	pairs    int
}

// dotChunks is the number of chunks of all tiles of a call, at most, unless one has more: 40 µs.
const dotChunks = 512

// amx computes tiles of 32 rows, and then the rest.
func (t *bf16Tiles) amx(rows int) {
	k := tilesBF16{tile: t.unit * 2, chunks: t.chunks, block: t.chunks, zero: t.chunks}
	if t.add {
		k.zero = -1
	}
	split := t.parts == splitParts
	if rows > 2*unitRows && !split {
		k.block = blockChunks
	}
	for r := 0; r < rows; {
		halves, height := 1, min(rows-r, unitRows)
		if rows-r >= 2*unitRows {
			halves = 2
		}
		k.config = TileConfig(halves, height, 2*chunkK, unitRows)
		height *= halves
		k.tiles = (rows - r) / height
		// All chunks of these tiles together split or prefetch the next panel. Tiles of rows that
		// are left find it in the cache.
		k.pairs = 0
		k.next, k.lines = uintptr(unsafe.Pointer(&t.b[0])), 1
		if r == 0 && len(t.from) > 0 {
			k.from, k.to, k.pairs = unsafe.Pointer(&t.from[0]), unsafe.Pointer(&t.to[0]), len(t.from)/(2*PanelWidth)
			points := 4 * k.tiles * t.chunks
			k.lines = (k.pairs + points - 1) / points
		} else if r == 0 && t.next != 0 {
			k.next, k.lines = t.next, (2*unitRows+k.tiles-1)/k.tiles
		}
		k.a, k.b, k.c = unsafe.Pointer(&t.a[r/unitRows*t.unit]), unsafe.Pointer(&t.b[0]),
			unsafe.Pointer(&t.c[r*PanelWidth])
		switch {
		case split && halves == 2:
			tiles2Split(&k)
		case split:
			tiles1Split(&k)
		case halves == 2:
			tiles2BF16(&k)
		default:
			tiles1BF16(&k)
		}
		r += k.tiles * height
	}
}

func rowsBF16(level cpu.Level, dst []uint16, x []float32, ldx, rows, n int) {
	if cpu.RunsBF16(level) == cpu.BF16None {
		rowsBF16Generic(dst, x, ldx, rows, n)
		return
	}
	_ = x[(rows-1)*ldx+n*chunkK-1]
	rowsBF16AVX512(&dst[0], &x[0], unitRows*chunkK*2, ldx*4, rows, n)
}

func foursBF16(level cpu.Level, dst []uint16, x []float32, n int) {
	if level != cpu.AVX512 {
		foursGeneric(dst, x, n)
	} else if n > 0 {
		pairsBF16AVX512(&dst[0], &x[0], 2*n)
	}
}

func splitRows(level cpu.Level, dst, most []uint16, x []float32, ldx, rows, n int) {
	if cpu.RunsBF16(level) != cpu.BF16Tiles {
		splitRowsGeneric(dst, most, x, ldx, rows, n)
		return
	}
	_ = x[(rows-1)*ldx+n*chunkK-1]
	splitRowsAVX512(&dst[0], &most[0], &x[0], ldx*4, rows, n)
}

func splitPanel(level cpu.Level, dst []uint16, rows []float32) {
	if level != cpu.AVX512 {
		splitPanelGeneric(dst, rows)
	} else if len(rows) > 0 {
		splitPanelAVX512(&dst[0], &rows[0], len(rows)/(2*PanelWidth))
	}
}
