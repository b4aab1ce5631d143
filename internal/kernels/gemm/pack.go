package gemm

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// PackPanels is [Pack] for panels [p0, p1) only. dst is the whole packed matrix.
func PackPanels[T Number](dst, b []T, ldb int, trans bool, k, n, p0, p1 int) {
	for p := p0; p < p1; p++ {
		packPanel(dst[p*k*PanelWidth:][:k*PanelWidth], b, ldb, trans, k, p*PanelWidth,
			min(PanelWidth, n-p*PanelWidth), 0)
	}
}

// packPanel writes rows [k0, k0+k) of w columns from column j0 on as a [k][32] panel.
func packPanel[T Number](dst, b []T, ldb int, trans bool, k, j0, w, k0 int) {
	if !trans {
		for i := range k {
			d := dst[i*PanelWidth:][:PanelWidth]
			if w == PanelWidth { // a call of copy takes longer
				*(*[PanelWidth]T)(d) = *(*[PanelWidth]T)(b[(k0+i)*ldb+j0:])
				continue
			}
			clear(d[copy(d, b[(k0+i)*ldb+j0:][:w]):])
		}
		return
	}
	if w < PanelWidth {
		clear(dst[:k*PanelWidth])
	}
	if k > 0 && w > 0 {
		transpose(dst, PanelWidth, b[j0*ldb+k0:], ldb, w, k)
	}
}

// transpose writes the transpose of rows×cols elements of src. It only moves elements, so it can
// use the machine's level for callers of every level.
func transpose[T Number](dst []T, ldd int, src []T, lds, rows, cols int) {
	switch d := any(dst).(type) {
	case []float32:
		vec.TransposeF32(cpu.Active(), d, ldd, any(src).([]float32), lds, rows, cols)
		return
	case []float64:
		vec.TransposeF64(cpu.Active(), d, ldd, any(src).([]float64), lds, rows, cols)
		return
	}
	for i := range rows {
		for j, v := range src[i*lds:][:cols] {
			dst[j*ldd+i] = v
		}
	}
}

// packRows writes the transpose of the k×m block of a that starts at (k0, m0) to dst, m rows of k.
func packRows[T Number](dst, a []T, lda, k0, k, m0, m int) {
	if k > 0 {
		transpose(dst, k, a[k0*lda+m0:], lda, k, m)
	}
}
