//go:build (amd64 || arm64) && !purego

package gemm

import "unsafe"

// dotsBF16 holds the arguments of a function for pairs; the generator knows the field offsets.
type dotsBF16 struct {
	a, b   unsafe.Pointer
	chunks int
	out    unsafe.Pointer // for the sums
	step   int            // bytes between rows of out

	// What follows is applied if alpha is not 0.
	bias     unsafe.Pointer // to add to each row, or nil
	more     unsafe.Pointer // rows to add, or nil
	moreStep int            // bytes between them
	alpha    float32
	_        float32

	tiles int // of 8 rows, 1 of fewer
	unit  int // bytes of a unit of rows of A
}

// dots computes tiles of 8, 4, 2 or 1 rows. B is read from the second-level cache for every tile: K
// is not divided into blocks that stay in the first one, which would save less time than loading
// and storing sums takes. e, if not nil, is the epilogue for the columns from col on and the rows
// from row on; it has no activation and no bias per row.
func (t *bf16Tiles) dots(rows int, e *Epilogue[float32], row, col int) {
	const most = 8
	k := dotsBF16{b: unsafe.Pointer(&t.b[0]), chunks: t.chunks, step: t.ld * 4, unit: t.unit * 2}
	if e != nil {
		if k.alpha = e.Alpha; k.alpha == 0 {
			k.alpha = 1
		}
		if e.BiasCol != nil {
			k.bias = unsafe.Pointer(&e.BiasCol[col:][:PanelWidth][0])
		}
		k.moreStep = e.LdAdd * 4
	}
	height := most
	for r := 0; r < rows; r += height * k.tiles {
		for height > rows-r {
			height /= 2
		}
		k.tiles = 1
		if height == most {
			k.tiles = min((rows-r)/most, max(1, dotChunks/t.chunks))
		}
		k.a, k.out = unsafe.Pointer(&t.a[r/unitRows*t.unit+r%unitRows*chunkK]),
			unsafe.Pointer(&t.out[r*t.ld])
		if k.alpha != 0 && e.Add != nil {
			k.more = unsafe.Pointer(&e.Add[(row+r)*e.LdAdd+col])
		}
		dotBF16(height, &k)
	}
}
