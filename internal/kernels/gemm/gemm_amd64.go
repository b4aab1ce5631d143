//go:build !purego

package gemm

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

const (
	rowsAVX512 = 14
	rowsHalves = 6
	// halvesLevel is the level whose tiles have half the width of a panel.
	halvesLevel = cpu.AVX2
)

func tileHalves(rows int, k *tileF32) { tileAVX2(rows, k) }

func tileHalvesF16(rows int, k *tileF32) { tileHalfAVX2(rows, k) }

func tileAsm(level cpu.Level, t *tile[float32]) bool {
	switch level {
	case cpu.AVX512:
		panelAVX512(t)
	case cpu.AVX2:
		panelHalves(t)
	default:
		return false
	}
	return true
}

// panelAVX512 computes the rows of one panel in tiles of nearly equal height. Each tile prefetches
// two lines per four steps of K into the second-level cache. The first four tiles prefetch the next
// panel, the others the residual or the sums.
func panelAVX512(t *tile[float32]) {
	k := t.args()
	k.mask = uint32(1<<t.cols - 1)
	if t.acc {
		k.acc = 1
	}
	a, b, c := ptr(t.a), ptr(t.b), ptr(t.c)
	if t.k == 0 { // without elements, offsets would lead out of the slices
		a, b = nil, nil
	}
	if t.half == nil && t.k > 0 { // whole vectors of the other rows are within B
		width := PanelWidth
		if t.cols <= PanelWidth/2 {
			width /= 2
		}
		k.edge = t.k - min(t.k, max(0, len(t.b)-width+t.ldb)/t.ldb)
	}
	var row, add unsafe.Pointer
	if e := t.ep; e != nil {
		k.setEpilogue(e)
		if e.BiasCol != nil {
			k.bias = ptr(e.BiasCol[t.col:])
		}
		if e.BiasRow != nil {
			row = ptr(e.BiasRow[t.row:])
		}
		if e.Add != nil {
			add = ptr(e.Add[t.row*e.LdAdd+t.col:])
		}
	}
	tiles := (t.rows + rowsAVX512 - 1) / rowsAVX512
	for i, r := 0, 0; i < tiles; i++ {
		next := (t.rows*(i+1) + tiles - 1) / tiles
		k.a, k.b, k.c = at(a, r*t.lda), b, at(c, r*t.ldc)
		k.rowBias = at(row, r)
		k.prefetch, k.prefetchStep = uintptr(b), 0
		if t.next != nil && i < 4 {
			step := t.ldnext * 4
			k.prefetch, k.prefetchStep = uintptr(ptr(t.next))+uintptr(i*(t.k/4)*step), uintptr(step)
		} else if after := next % t.rows; add != nil && (!t.acc || i%2 == 0) {
			k.prefetch, k.prefetchStep = rowsAt(add, t.ep.LdAdd, after)
		} else if t.acc {
			k.prefetch, k.prefetchStep = rowsAt(c, t.ldc, after)
		}
		if add != nil {
			k.add = at(add, r*t.ep.LdAdd)
		}
		if t.half != nil && t.k > 0 && i == 0 {
			h := k
			h.b, h.ldb = unsafe.Pointer(unsafe.SliceData(t.half)), PanelWidth*2
			halfTile(next-r, &h, b)
		} else {
			tileAVX512(next-r, &k)
		}
		r = next
	}
}

// rowsAt returns the address and the stride in bytes of the rows of m, the residual or the sums, of
// the tile that begins at a row; of the first tile of the next panel for row 0.
func rowsAt(m unsafe.Pointer, ld, row int) (from, step uintptr) {
	from = uintptr(at(m, row*ld))
	if row == 0 {
		from += PanelWidth * 4
	}
	return from, uintptr(ld * 4)
}

// fewRows computes a block of at most rowsAVX512 rows with packed panels, in one call for each
// panel. For so few rows, the arguments of a tile would take as long to prepare as a tenth of the
// tile takes. It reports whether it did.
func fewRows(level cpu.Level, a *Args[float32], blk Block) bool {
	if level != cpu.AVX512 || !a.Packed && a.Half == nil || a.TransA || blk.Row1-blk.Row0 > rowsAVX512 ||
		a.K < 1 || a.K > MaxKC {
		return false
	}
	if a.Half != nil {
		var steps [4 * PanelWidth]float32 // where all steps are widened to
		fewPanels(a, blk, unsafe.Pointer(&a.Half[blk.Panel0*PanelWidth*a.K]), unsafe.Pointer(&steps))
	} else {
		fewPanels(a, blk, unsafe.Pointer(&a.B[blk.Panel0*PanelWidth*a.K]), nil)
	}
	return true
}

// fewPanels is fewRows for the panels from b on: of float32, or of binary16, of which each four
// steps are widened to wide.
func fewPanels(a *Args[float32], blk Block, b, wide unsafe.Pointer) {
	half, size := wide != nil, 4
	if half {
		size = 2
	}
	k := tileF32{lda: uintptr(a.LdA) * 4, ldb: uintptr(PanelWidth * size), ldc: uintptr(a.LdC) * 4, k: a.K,
		far: Ahead(FarBytes), mask: 1<<PanelWidth - 1, wide: wide}
	k.setEpilogue(&a.Epilogue)
	from := blk.Panel0 * PanelWidth
	k.a, k.b, k.c = ptr(a.A[blk.Row0*a.LdA:]), b, ptr(a.C[blk.Row0*a.LdC+from:])
	if a.BiasCol != nil {
		k.bias = ptr(a.BiasCol[from:])
	}
	if a.BiasRow != nil {
		k.rowBias = ptr(a.BiasRow[blk.Row0:])
	}
	if a.Add != nil {
		k.add = ptr(a.Add[blk.Row0*a.LdAdd+from:])
	}
	rows, panel := blk.Row1-blk.Row0, a.K*PanelWidth*size
	for p := blk.Panel0; ; p++ {
		last := p+1 == blk.Panel1
		k.prefetch, k.prefetchStep = uintptr(k.b), 0
		if last {
			k.mask = uint32(1<<min(PanelWidth, a.N-p*PanelWidth) - 1)
		} else if !half {
			k.prefetch, k.prefetchStep = uintptr(unsafe.Add(k.b, panel)), PanelWidth*4
		}
		if half {
			tileHalfAVX512(rows, &k)
		} else {
			tileAVX512(rows, &k)
		}
		if last {
			return
		}
		k.b, k.c, k.bias, k.add = unsafe.Add(k.b, panel), at(k.c, PanelWidth), at(k.bias, PanelWidth),
			at(k.add, PanelWidth)
	}
}

// halfTile computes a tile with B in binary16 and widens B to wide, for the tiles that follow if
// there are any.
func halfTile(rows int, k *tileF32, wide unsafe.Pointer) {
	var steps [4 * PanelWidth]float32
	k.wide, k.prefetchStep = wide, unsafe.Sizeof(steps)
	if wide == nil { // the same memory for all steps
		k.wide, k.prefetchStep = unsafe.Pointer(&steps), 0
	}
	tileHalfAVX512(rows, k)
}

func hasVector(level cpu.Level) bool { return level == cpu.AVX512 || level == cpu.AVX2 }

func dotRows(level cpu.Level, dst, a, b *float32, ldb, k, n int) {
	if level == cpu.AVX512 {
		dotRowsF32AVX512(dst, a, b, ldb, k, n)
	} else {
		dotRowsF32AVX2(dst, a, b, ldb, k, n)
	}
}

func addRows(level cpu.Level, y, a, b *float32, ldb, n, groups int) {
	if level == cpu.AVX512 {
		addRowsF32AVX512(y, a, b, ldb, n, groups)
	} else {
		addRowsF32AVX2(y, a, b, ldb, n, groups)
	}
}

func columnsPart(level cpu.Level, left int, dst, a, b *float32, ldb, k int) int {
	switch level {
	case cpu.AVX512:
		return columnsAVX512(left, dst, a, b, ldb, k)
	case cpu.AVX2:
		return columnsAVX2(left, dst, a, b, ldb, k)
	}
	return 0
}

// columnsAVX512 computes the first columns, as many as one kernel can, and returns their number.
func columnsAVX512(left int, dst, a, b *float32, ldb, k int) int {
	switch {
	case left >= 256:
		columns16AVX512(dst, a, b, ldb, k)
		return 256
	case left >= 128:
		columns8AVX512(dst, a, b, ldb, k)
		return 128
	case left >= 64:
		columns4AVX512(dst, a, b, ldb, k)
		return 64
	case left >= 32:
		columns2AVX512(dst, a, b, ldb, k)
		return 32
	case left >= 16:
		columns1AVX512(dst, a, b, ldb, k)
		return 16
	}
	return 0
}

func columnsAVX2(left int, dst, a, b *float32, ldb, k int) int {
	switch {
	case left >= 64:
		columns8AVX2(dst, a, b, ldb, k)
		return 64
	case left >= 32:
		columns4AVX2(dst, a, b, ldb, k)
		return 32
	case left >= 16:
		columns2AVX2(dst, a, b, ldb, k)
		return 16
	case left >= 8:
		columns1AVX2(dst, a, b, ldb, k)
		return 8
	}
	return 0
}

func hasRowPanels(level cpu.Level) bool { return level == cpu.AVX512 }

// rowPanels adds the GEMV of a row and n adjacent panels, 1 or 2, to dst.
func rowPanels(n int, dst, a, b *float32, panel, k int) {
	if n == 2 {
		rowPanels2AVX512(dst, a, b, panel, k)
	} else {
		rowPanels1AVX512(dst, a, b, panel, k)
	}
}

// rowHalves is rowPanels for panels of binary16.
func rowHalves(n int, dst, a *float32, b *uint16, panel, k int) {
	if n == 2 {
		rowHalves2AVX512(dst, a, b, panel, k)
	} else {
		rowHalves1AVX512(dst, a, b, panel, k)
	}
}

func dotHeads(l cpu.Level, t HeadFormat, heads int, dst *float32, ldd int, a *float32, lda int, b *byte, ldb, k,
	n int) {
	if l == cpu.AVX512 {
		dotHeadsAVX512(t, heads, dst, ldd, a, lda, b, ldb, k, n)
	} else {
		dotHeadsAVX2(t, heads, dst, ldd, a, lda, b, ldb, k, n)
	}
}

func addHeads(l cpu.Level, t HeadFormat, heads int, y *float32, ldy int, a *float32, lda int, b *byte, ldb, columns,
	n int) {
	if l == cpu.AVX512 {
		addHeadsAVX512(t, heads, y, ldy, a, lda, b, ldb, columns, n)
	} else {
		addHeadsAVX2(t, heads, y, ldy, a, lda, b, ldb, columns, n)
	}
}
