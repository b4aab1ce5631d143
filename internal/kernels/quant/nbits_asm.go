//go:build !purego && (amd64 || arm64)

package quant

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

// nbitsK is the K of one assembly call, at most.
const nbitsK = 8192

func nbitsAsm(level cpu.Level, g *NBitsArgs, buf *nbitsBuffers, p0, p1 int) bool {
	switch {
	case !hasNBits(level) || g.B.K == 0:
		return false
	case g.Int8 && dotProduct(level):
		nbitsBytes(level, g, buf, p0, p1)
	case g.M <= vectorRows:
		nbitsFloats(g, buf, p0, p1)
	default:
		return false
	}
	return true
}

// padded copies row i of A, zero-padded to whole blocks.
func (g *NBitsArgs) padded(dst []float32, i int) {
	clear(dst[copy(dst, g.A[i*g.LdA:][:g.B.K]):])
}

func (t *nbitsArgs) weights(p *NBits, pi, b0, b1 int) {
	t.b = unsafe.Pointer(&p.data[pi*p.panelBytes()+b0*p.Block/p.wordK()*PanelWidth*4])
	q := (pi*p.blocks + b0) * PanelWidth
	t.scale = unsafe.Pointer(&p.scale[q])
	if p.shift != nil {
		t.shift = unsafe.Pointer(&p.shift[q])
	}
	t.blocks, t.steps = b1-b0, p.Block/p.wordK()
	t.mask = uint32(1<<min(PanelWidth, p.N-pi*PanelWidth) - 1)
	t.acc = min(uint64(b0), 1)
}

// nbitsFloats multiplies a few rows in float32.
func nbitsFloats(g *NBitsArgs, buf *nbitsBuffers, p0, p1 int) {
	p := g.B
	kp := p.blocks * p.Block
	a, sums := grow(&buf.a, g.M*kp), grow(&buf.fsum, g.M*p.blocks)
	for i := range g.M {
		row := a[i*kp:][:kp]
		g.padded(row, i)
		for b := range p.blocks {
			var s float32
			for _, v := range row[b*p.Block:][:p.Block] {
				s += v
			}
			sums[i*p.blocks+b] = s
		}
	}
	part := max(1, nbitsK/p.Block)
	var t nbitsArgs
	for pi := p0; pi < p1; pi++ {
		for i := range g.M {
			t.c = unsafe.Pointer(&g.C[i*g.LdC+pi*PanelWidth])
			for b := 0; b < p.blocks; b += part {
				t.weights(p, pi, b, min(p.blocks, b+part))
				t.a, t.aSum = unsafe.Pointer(&a[i*kp+b*p.Block]), unsafe.Pointer(&sums[i*p.blocks+b])
				runNBitsVector(p.Bits, &t)
			}
		}
	}
}

// nbitsBytes multiplies rows rounded to bytes.
func nbitsBytes(level cpu.Level, g *NBitsArgs, buf *nbitsBuffers, p0, p1 int) {
	p := g.B
	kp := p.blocks * p.Block
	row := grow(&buf.a, kp)
	a, scales, sums := grow(&buf.bytes, g.M*kp), grow(&buf.scale, g.M*p.blocks), grow(&buf.sum, g.M*p.blocks)
	standard := int32(p.standard())
	for i := range g.M {
		g.padded(row, i)
		for b := range p.blocks {
			s, n := quantizeBlock(level, a[i*kp+b*p.Block:][:p.Block], row[b*p.Block:][:p.Block])
			scales[i*p.blocks+b], sums[i*p.blocks+b] = s, -standard*n
		}
	}
	part := max(1, nbitsK/p.Block)
	t := nbitsArgs{lda: uintptr(kp), lds: uintptr(p.blocks) * 4, ldc: uintptr(g.LdC) * 4}
	count := tiles(g.M, nbitsRows)
	for pi := p0; pi < p1; pi++ {
		for b := 0; b < p.blocks; b += part {
			t.weights(p, pi, b, min(p.blocks, b+part))
			for k := range count {
				i, e := g.M*k/count, g.M*(k+1)/count
				t.a = unsafe.Pointer(&a[i*kp+b*p.Block])
				t.aScale, t.aSum = unsafe.Pointer(&scales[i*p.blocks+b]), unsafe.Pointer(&sums[i*p.blocks+b])
				t.c = unsafe.Pointer(&g.C[i*g.LdC+pi*PanelWidth])
				runNBits(p.Bits, e-i, &t)
			}
		}
	}
}
