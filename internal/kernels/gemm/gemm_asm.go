//go:build (amd64 || arm64) && !purego

package gemm

import "unsafe"

// tileF32 holds the arguments of a tile function; the generator knows the field offsets. Strides
// are in bytes.
type tileF32 struct {
	a, b, c       unsafe.Pointer
	lda, ldb, ldc uintptr
	k             int
	bias, rowBias unsafe.Pointer
	add           unsafe.Pointer
	ldadd         uintptr
	acc           uint64 // accumulate: start from C instead of zero
	act           uint64 // an Activation
	alpha         float32
	lo, hi        float32
	mask          uint32         // of the columns of an AVX-512 tile
	scaled        uint64         // multiply by alpha
	prefetch      uintptr        // a hint; need not keep its target alive
	prefetchStep  uintptr        // increment per four steps of k
	far           uintptr        // distance of b to prefetch for few rows
	wide          unsafe.Pointer // where tiles for AVX-512 widen binary16 to, prefetchStep bytes per four steps of k
	// last steps of k in which tiles for AVX-512 read only the columns of mask: a whole row of 32,
	// or 16, would lead beyond b
	edge int
}

const halfPanel = PanelWidth / 2

func ptr(s []float32) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

func at(p unsafe.Pointer, elements int) unsafe.Pointer {
	if p == nil {
		return nil
	}
	return unsafe.Add(p, elements*4)
}

// args returns the arguments for t, without the pointers to rows.
func (t *tile[T]) args() tileF32 {
	return tileF32{lda: uintptr(t.lda) * 4, ldb: uintptr(t.ldb) * 4, ldc: uintptr(t.ldc) * 4,
		k: t.k, far: Ahead(FarBytes)}
}

func (k *tileF32) setEpilogue(e *Epilogue[float32]) {
	k.act, k.lo, k.hi = uint64(e.Act), e.Lo, e.Hi
	if e.Act == Relu {
		k.lo = 0
	}
	if e.Alpha != 0 && e.Alpha != 1 {
		k.alpha, k.scaled = e.Alpha, 1
	}
	k.ldadd = uintptr(e.LdAdd) * 4
}

// panelHalves computes the rows of one panel in two halves. A half with fewer than 16 columns is
// computed in a buffer, since AVX2 and NEON have no cheap partial loads. The architecture's
// tileHalves and tileHalvesF16 compute 16 columns of at most rowsHalves rows.
func panelHalves(t *tile[float32]) {
	for j := 0; j < t.cols; j += halfPanel {
		if t.cols-j >= halfPanel {
			wholeHalf(t, j)
		} else {
			partHalf(t, j, t.cols-j)
		}
	}
}

func wholeHalf(t *tile[float32], j int) {
	k := t.args()
	if t.acc {
		k.acc = 1
	}
	a, b, c := ptr(t.a), ptr(t.b), at(ptr(t.c), j)
	if t.k == 0 {
		a, b = nil, nil
	}
	b = at(b, j)
	var row, add unsafe.Pointer
	if e := t.ep; e != nil {
		k.setEpilogue(e)
		if e.BiasCol != nil {
			k.bias = ptr(e.BiasCol[t.col+j:])
		}
		if e.BiasRow != nil {
			row = ptr(e.BiasRow[t.row:])
		}
		if e.Add != nil {
			add = ptr(e.Add[t.row*e.LdAdd+t.col+j:])
		}
	}
	tiles := (t.rows + rowsHalves - 1) / rowsHalves
	for i, r := 0, 0; i < tiles; i++ {
		next := t.rows * (i + 1) / tiles
		k.a, k.b, k.c = at(a, r*t.lda), b, at(c, r*t.ldc)
		k.rowBias = at(row, r)
		if add != nil {
			k.add = at(add, r*t.ep.LdAdd)
		}
		if t.half != nil && t.k > 0 {
			k.b, k.ldb = unsafe.Add(unsafe.Pointer(unsafe.SliceData(t.half)), j*2), PanelWidth*2
			tileHalvesF16(next-r, &k)
		} else {
			tileHalves(next-r, &k)
		}
		r = next
	}
}

// partHalf computes w < 16 columns from column j on: whole tiles in a buffer, and the epilogue in
// Go.
func partHalf(t *tile[float32], j, w int) {
	t = t.widened(halvesLevel)
	const stepK = 64 // rows of B copied at a time
	var bbuf [stepK * halfPanel]float32
	var cbuf [rowsHalves * halfPanel]float32
	packed := t.ldb == PanelWidth && len(t.b) >= t.k*PanelWidth // padded with zeros, safe to read
	tiles := (t.rows + rowsHalves - 1) / rowsHalves
	for i := range tiles {
		r := t.rows * i / tiles
		n := t.rows*(i+1)/tiles - r
		k := t.args()
		k.c, k.ldc = unsafe.Pointer(&cbuf), halfPanel*4
		if t.acc {
			k.acc = 1
			for i := range n {
				copy(cbuf[i*halfPanel:], t.c[(r+i)*t.ldc+j:][:w])
			}
		}
		for k0 := 0; k0 == 0 || k0 < t.k; {
			k.k = t.k - k0
			if packed {
				k.b = at(ptr(t.b), j)
			} else {
				k.k = min(k.k, stepK)
				for p := range k.k {
					copy(bbuf[p*halfPanel:][:w], t.b[(k0+p)*t.ldb+j:])
				}
				k.b, k.ldb = unsafe.Pointer(&bbuf), halfPanel*4
			}
			k.a = at(ptr(t.a), r*t.lda+k0)
			tileHalves(n, &k)
			k.acc = 1
			k0 += max(k.k, 1)
		}
		for i := range n {
			d := t.c[(r+i)*t.ldc+j:][:w]
			copy(d, cbuf[i*halfPanel:])
			if t.ep != nil {
				t.ep.apply(d, t.row+r+i, t.col+j)
			}
		}
	}
}
