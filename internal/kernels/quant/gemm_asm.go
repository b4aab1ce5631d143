//go:build !purego && (amd64 || arm64)

package quant

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

// tileHalves computes the two halves of a panel. A half with fewer than 16 columns is computed in a
// buffer.
func tileHalves(l cpu.Level, rows, cols int, t *tileI32) {
	const half = PanelWidth / 2
	for j := 0; j < cols; j += half {
		h := *t
		h.c = unsafe.Add(t.c, j*4)
		if t.b != nil { // nil if K is 0
			h.b = unsafe.Add(t.b, j*int(t.ldb/PanelWidth))
		}
		if t.bias != nil {
			h.bias = unsafe.Add(t.bias, j*4)
		}
		w := cols - j
		if w >= half {
			tileHalf(l, rows, &h)
			continue
		}
		var buf [6 * half]int32
		if t.acc != 0 {
			for r := range rows {
				copy(buf[r*half:], unsafe.Slice((*int32)(unsafe.Add(h.c, r*int(t.ldc))), w))
			}
		}
		c := h.c
		h.c, h.ldc = unsafe.Pointer(&buf), half*4
		tileHalf(l, rows, &h)
		for r := range rows {
			copy(unsafe.Slice((*int32)(unsafe.Add(c, r*int(t.ldc))), w), buf[r*half:])
		}
	}
}
