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
	block   int    // chunks that are summed before the next rows
	tiles   int    // of 32 rows, or of up to 16
	_       [4]int // variables of the function
}

// amx computes tiles of 32 rows, and then the rest.
func (t *bf16Tiles) amx(rows int) {
	k := tilesBF16{tile: t.chunks * unitRows * chunkK * 2, chunks: t.chunks, block: t.chunks}
	if rows > 2*unitRows {
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
		k.a, k.b, k.c = unsafe.Pointer(&t.a[r*t.chunks*chunkK]), unsafe.Pointer(&t.b[0]), unsafe.Pointer(&t.c[r*PanelWidth])
		if halves == 2 {
			tiles2BF16(&k)
		} else {
			tiles1BF16(&k)
		}
		r += k.tiles * height
	}
}

// dotsBF16 holds the arguments of a function for pairs; the generator knows the field offsets.
type dotsBF16 struct {
	a, b, c unsafe.Pointer
	chunks  int
	add     int            // 1 to add the sums of c
	out     unsafe.Pointer // for the sums
	step    int            // bytes between rows of out

	// What follows is applied if alpha is not 0.
	bias     unsafe.Pointer // to add to each row, or nil
	more     unsafe.Pointer // rows to add, or nil
	moreStep int            // bytes between them
	alpha    float32
	_        float32
}

// dots computes tiles of 8, 4, 2 or 1 rows for each block of chunks. c holds the sums between blocks. e, if not nil, is the
// epilogue for the columns from col on and the rows from row on; it has no activation and no bias per row.
func (t *bf16Tiles) dots(rows int, e *Epilogue[float32], row, col int) {
	const most = 8
	block := t.chunks
	if rows > 2*most {
		block = blockChunks
	}
	k := dotsBF16{step: PanelWidth * 4}
	out, ld := t.c, PanelWidth
	for first := 0; first < t.chunks; first += block {
		if first+block >= t.chunks {
			out, ld = t.out, t.ld
			k.step = ld * 4
			if e != nil {
				if k.alpha = e.Alpha; k.alpha == 0 {
					k.alpha = 1
				}
				if e.BiasCol != nil {
					k.bias = unsafe.Pointer(&e.BiasCol[col:][:PanelWidth][0])
				}
				k.moreStep = e.LdAdd * 4
			}
		}
		k.b, k.chunks = unsafe.Pointer(&t.b[first*chunkK*PanelWidth]), min(block, t.chunks-first)
		height := most
		for r := 0; r < rows; r += height {
			for height > rows-r {
				height /= 2
			}
			k.a, k.c = unsafe.Pointer(&t.a[((r/unitRows*t.chunks+first)*unitRows+r%unitRows)*chunkK]), unsafe.Pointer(&t.c[r*PanelWidth])
			k.out = unsafe.Pointer(&out[r*ld])
			if k.alpha != 0 && e.Add != nil {
				k.more = unsafe.Pointer(&e.Add[(row+r)*e.LdAdd+col])
			}
			dotBF16(height, &k)
		}
		k.add = 1
	}
}

func rowBF16(level cpu.Level, dst []uint16, x []float32, n int) {
	if !cpu.BFloat16(level) {
		rowGeneric(dst, x, n)
		return
	}
	rowBF16AVX512(&dst[0], &x[0], unitRows*chunkK*2, n)
}

func pairsBF16(level cpu.Level, dst []uint16, x []float32, n int) {
	if level != cpu.AVX512 {
		pairsGeneric(dst, x, n)
	} else if n > 0 {
		pairsBF16AVX512(&dst[0], &x[0], n)
	}
}
