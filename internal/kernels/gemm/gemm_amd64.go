//go:build !purego

package gemm

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

// tileF32 is what a tile function reads; the generator knows the offsets. Strides are in bytes.
type tileF32 struct {
	a, b, c       unsafe.Pointer
	lda, ldb, ldc uintptr
	k             int
	bias, rowBias unsafe.Pointer
	add           unsafe.Pointer
	ldadd         uintptr
	acc           uint64 // start from C instead of zero
	act           uint64 // an Activation
	alpha         float32
	lo, hi        float32
	mask          uint32  // columns of AVX-512 tiles
	scaled        uint64  // multiply by alpha
	prefetch      uintptr // a hint, which no collector needs to follow
	prefetchStep  uintptr // per four steps of k
}

const (
	rowsAVX512 = 14
	rowsAVX2   = 6
	halfPanel  = PanelWidth / 2
)

func tileAsm(level cpu.Level, t *tile[float32]) bool {
	switch level {
	case cpu.AVX512:
		panelAVX512(t)
	case cpu.AVX2:
		panelAVX2(t)
	default:
		return false
	}
	return true
}

func ptr(s []float32) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

func at(p unsafe.Pointer, elements int) unsafe.Pointer {
	if p == nil {
		return nil
	}
	return unsafe.Add(p, elements*4)
}

// args translates t without its pointers of rows.
func (t *tile[T]) args() tileF32 {
	return tileF32{lda: uintptr(t.lda) * 4, ldb: uintptr(t.ldb) * 4, ldc: uintptr(t.ldc) * 4, k: t.k}
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

// panelAVX512 computes the rows of one panel, split into tiles of nearly equal height.
func panelAVX512(t *tile[float32]) {
	k := t.args()
	k.mask = uint32(1<<t.cols - 1)
	if t.acc {
		k.acc = 1
	}
	a, b, c := ptr(t.a), ptr(t.b), ptr(t.c)
	if t.k == 0 { // offsets would lead out of slices without elements
		a, b = nil, nil
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
		next := t.rows * (i + 1) / tiles
		k.a, k.b, k.c = at(a, r*t.lda), b, at(c, r*t.ldc)
		k.rowBias = at(row, r)
		// The first four tiles fetch the next panel into the second-level cache: two lines per four steps.
		k.prefetch, k.prefetchStep = uintptr(b), 0
		if t.next != nil && i < 4 {
			k.prefetch, k.prefetchStep = uintptr(ptr(t.next))+uintptr(i*t.k/4*128), 128
		}
		if add != nil {
			k.add = at(add, r*t.ep.LdAdd)
		}
		if t.half != nil && t.k > 0 {
			k.b, k.ldb, k.prefetch, k.prefetchStep = unsafe.Pointer(unsafe.SliceData(t.half)), PanelWidth*2, 0, 0
			tileHalfAVX512(next-r, &k)
		} else {
			tileAVX512(next-r, &k)
		}
		r = next
	}
}

// panelAVX2 computes the rows of one panel in two halves. A half with fewer than 16 columns
// goes through copies, since AVX2 has no cheap partial loads.
func panelAVX2(t *tile[float32]) {
	for j := 0; j < t.cols; j += halfPanel {
		if t.cols-j >= halfPanel {
			halfAVX2(t, j)
		} else {
			partAVX2(t, j, t.cols-j)
		}
	}
}

func halfAVX2(t *tile[float32], j int) {
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
	tiles := (t.rows + rowsAVX2 - 1) / rowsAVX2
	for i, r := 0, 0; i < tiles; i++ {
		next := t.rows * (i + 1) / tiles
		k.a, k.b, k.c = at(a, r*t.lda), b, at(c, r*t.ldc)
		k.rowBias = at(row, r)
		if add != nil {
			k.add = at(add, r*t.ep.LdAdd)
		}
		if t.half != nil && t.k > 0 {
			k.b, k.ldb = unsafe.Add(unsafe.Pointer(unsafe.SliceData(t.half)), j*2), PanelWidth*2
			tileHalfAVX2(next-r, &k)
		} else {
			tileAVX2(next-r, &k)
		}
		r = next
	}
}

// partAVX2 computes w < 16 columns from column j on: whole tiles into a buffer, the
// epilogue in Go.
func partAVX2(t *tile[float32], j, w int) {
	t = t.widened(cpu.AVX2)
	const stepK = 64 // rows of B copied at a time
	var bbuf [stepK * halfPanel]float32
	var cbuf [rowsAVX2 * halfPanel]float32
	packed := t.ldb == PanelWidth && len(t.b) >= t.k*PanelWidth // padded with zeros, safe to read
	for r := 0; r < t.rows; r += rowsAVX2 {
		n := min(rowsAVX2, t.rows-r)
		k := t.args()
		k.c, k.ldc = unsafe.Pointer(&cbuf), halfPanel*4
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
			tileAVX2(n, &k)
			k.acc = 1
			k0 += max(k.k, 1)
		}
		for i := range n {
			d := t.c[(r+i)*t.ldc+j:][:w]
			s := cbuf[i*halfPanel:][:w]
			if t.acc {
				for x, v := range s {
					d[x] += v
				}
			} else {
				copy(d, s)
			}
			if t.ep != nil {
				t.ep.apply(d, t.row+r+i, t.col+j)
			}
		}
	}
}
