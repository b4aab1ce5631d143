//go:build !purego

package quant

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

func addRows(l cpu.Level, g *Rows, p0, p1 int) bool {
	const most = 256 << 10 // bytes of B in one call
	p := g.B
	if !cpu.VNNI(l) || p.steps > maxSteps {
		return false
	}
	var more [4]int32
	t := rowsTile{ldy: uintptr(g.LdY) * 4, ldx: uintptr(g.LdX), steps: p.steps, more: unsafe.Pointer(&more),
		zero: g.XZero, factor: g.Factor}
	zero, size := g.BZero-p.shift, p.steps*PanelWidth*4
	for i, rows := 0, 0; i < g.M; i += rows {
		if rows = min(g.M-i, 4); rows == 3 {
			rows = 2
		}
		for r := range rows {
			if zero != 0 {
				more[r] = zero * int32(SumU8(l, g.X[(i+r)*g.LdX:][:p.K]))
			}
		}
		t.x = unsafe.Pointer(&g.X[i*g.LdX])
		for n := p0; n < p1; n += t.panels {
			t.panels = min(p1-n, max(1, most/size))
			j := n * PanelWidth
			t.y, t.b = unsafe.Pointer(&g.Y[i*g.LdY+j]), unsafe.Pointer(&p.bytes[n*size])
			t.less, t.bias = unsafe.Pointer(&g.Less[j]), unsafe.Pointer(&g.Bias[j])
			t.scale = unsafe.Pointer(&g.Scale[j])
			addRowsVNNI(rows, &t)
		}
	}
	return true
}
