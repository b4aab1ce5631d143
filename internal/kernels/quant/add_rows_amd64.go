//go:build !purego

package quant

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

func addRows(l cpu.Level, g *Rows, p0, p1 int) bool {
	const most = 256 << 10 // bytes of B in one call
	p := g.B
	run, tallest := addRowsVNNI, 4
	amx := g.M >= amxRows && p.ManyRows(l)
	switch {
	case p.steps > maxSteps:
		return false
	case amx:
		run, tallest = func(_ int, t *rowsTile) { addRowsAMX(t) }, TileRows
	case l == cpu.AVX2 && !p.dot:
		run, tallest = addRowsAVX2, 2
	case !cpu.VNNI(l) || !p.dot:
		return false
	}
	var more [TileRows]int32
	t := rowsTile{ldy: uintptr(g.LdY) * 4, ldx: uintptr(g.LdX), steps: p.steps, more: unsafe.Pointer(&more),
		zero: g.XZero, factor: g.Factor}
	var b *buffers
	if amx || !p.dot {
		b = pool.Get().(*buffers)
		defer pool.Put(b)
	}
	var words []byte // rows of X minus the zero point
	if !p.dot {
		t.ldx = uintptr(p.steps * 4)
		words = grow(&b.a, tallest*p.steps*4)
	}
	zero, size := g.BZero-p.shift, p.steps*PanelWidth*p.group()
	for i, rows := 0, 0; i < g.M; i += rows {
		if rows = min(g.M-i, tallest); rows == 3 && !amx {
			rows = 2
		}
		t.x = unsafe.Pointer(&g.X[i*g.LdX])
		for r := range rows {
			x := g.X[(i+r)*g.LdX:][:p.K]
			if !p.dot {
				copyWords(l, words[r*p.steps*4:][:p.steps*4], x, false, -g.XZero)
				t.x = unsafe.Pointer(&words[0])
			}
			if more[r] = 0; zero != 0 {
				if more[r] = int32(SumU8(l, x)); !p.dot {
					more[r] -= int32(p.K) * g.XZero
				}
				more[r] *= zero
			}
			if g.Store && !amx {
				clear(g.Y[(i+r)*g.LdY+p0*PanelWidth:][:(p1-p0)*PanelWidth])
			}
		}
		if amx && rows != t.rows {
			b.tilesOf(&t, rows, p, !g.Store)
		}
		for n := p0; n < p1; n += t.panels {
			t.panels = min(p1-n, max(1, most/size))
			j := n * PanelWidth
			t.y, t.b = unsafe.Pointer(&g.Y[i*g.LdY+j]), unsafe.Pointer(&p.bytes[n*size])
			t.less, t.bias = unsafe.Pointer(&g.Less[j]), unsafe.Pointer(&g.Bias[j])
			t.scale = unsafe.Pointer(&g.Scale[j])
			run(rows, &t)
		}
	}
	return true
}

// tilesOf sets the fields for AMX.
func (b *buffers) tilesOf(t *rowsTile, rows int, p *Packed, add bool) {
	if b.tiles == nil {
		b.tiles = new(Tiles)
	}
	b.tiles.Configure(1, rows, p.steps/p.each, p.each)
	t.config, t.sums, t.rows = &b.tiles.config, b.tiles.sumsOf(), rows
	t.chunks, t.stepX, t.stepB = b.tiles.chunks, b.tiles.stepA, b.tiles.stepB
	if add {
		t.add = 0xffff
	}
}

// widenBytes widens the first bytes and returns their number.
func widenBytes(l cpu.Level, dst, src []byte, flip byte, shift int32) int {
	n := len(src) &^ 15
	if n == 0 || l != cpu.AVX2 && l != cpu.AVX512 {
		return 0
	}
	_ = dst[2*n-1]
	for at := 0; at < n; at += chunk {
		widenBytesAVX2(&dst[2*at], &src[at], min(n-at, chunk), uint32(flip)*0x01010101, uint32(uint16(shift))*0x10001)
	}
	return n
}
