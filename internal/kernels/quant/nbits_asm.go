//go:build !purego && (amd64 || arm64)

package quant

import (
	"math"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// nbitsK is the K of one assembly call, at most.
const nbitsK = 8192

func nbitsAsm(level cpu.Level, g *NBitsArgs, buf *nbitsBuffers, p0, p1 int) bool {
	switch {
	case !hasNBits(level) || g.B.K == 0:
		return false
	case g.Int8 && dotProduct(level):
		nbitsBytes(level, g, buf, p0, p1)
	case dotProduct(level) && g.splitRows(level, buf):
		nbitsDigits(g, buf, p0, p1)
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
	for pi := p0; pi < p1; pi++ {
		buf.bytesPanel(p, g.M, pi, g.C[pi*PanelWidth:], g.LdC)
	}
}

// bytesPanel multiplies the rows of bytes in buf by panel pi and writes the result to c.
func (buf *nbitsBuffers) bytesPanel(p *NBits, rows, pi int, c []float32, ldc int) {
	kp := p.blocks * p.Block
	part := max(1, nbitsK/p.Block)
	t := nbitsArgs{lda: uintptr(kp), lds: uintptr(p.blocks) * 4, ldc: uintptr(ldc) * 4}
	count := tiles(rows, nbitsRows)
	for b := 0; b < p.blocks; b += part {
		t.weights(p, pi, b, min(p.blocks, b+part))
		for k := range count {
			i, e := rows*k/count, rows*(k+1)/count
			t.a = unsafe.Pointer(&buf.bytes[i*kp+b*p.Block])
			t.aScale, t.aSum = unsafe.Pointer(&buf.scale[i*p.blocks+b]), unsafe.Pointer(&buf.sum[i*p.blocks+b])
			t.c = unsafe.Pointer(&c[i*ldc])
			runNBits(p.Bits, e-i, &t)
		}
	}
}

// digits is the number of bytes that represent a float32 of A: with a scale per block, their error is
// at most 2⁻²⁴ of the largest magnitude of the block, as much as float32's own at that magnitude.
const digits = 3

// digitBlock is the largest block that is multiplied as digits, so that the sum of its products is an
// int32.
const digitBlock = 1 << 16

// splitRows writes the rows of A to buf, each as three rows of bytes, which are the digits of its
// elements as integers to base 256, most significant first. It returns false if A has an element that is
// not finite, or a block whose scale would not be.
func (g *NBitsArgs) splitRows(level cpu.Level, buf *nbitsBuffers) bool {
	p := g.B
	if p.Block > digitBlock {
		return false
	}
	kp := p.blocks * p.Block
	row := grow(&buf.a, kp)
	a, scales, sums := grow(&buf.bytes, g.M*digits*kp), grow(&buf.scale, g.M*digits*p.blocks), grow(&buf.sum, g.M*digits*p.blocks)
	standard := int32(p.standard())
	for i := range g.M {
		g.padded(row, i)
		for b := range p.blocks {
			x := row[b*p.Block:][:p.Block]
			fraction, e := math.Frexp(float64(max(vec.ReduceMaxF32(level, x), -vec.ReduceMinF32(level, x))))
			if !(fraction < 1) || fraction != 0 && (e < -90 || e > 90) {
				return false
			}
			if fraction > 127./128 { // the largest integer is 127·2¹⁶
				e++
			}
			var sum [digits]int32
			digitBytes(level, a[i*digits*kp+b*p.Block:], kp, x, float32(math.Ldexp(1, 23-e)), &sum)
			for j, s := range sum {
				at := (i*digits+j)*p.blocks + b
				scales[at], sums[at] = float32(math.Ldexp(1, e-7-8*j)), -standard*s
			}
		}
	}
	return true
}

// nbitsDigits multiplies rows that are written as digits in buf.
func nbitsDigits(g *NBitsArgs, buf *nbitsBuffers, p0, p1 int) {
	c := grow(&buf.panel, g.M*digits*PanelWidth)
	for pi := p0; pi < p1; pi++ {
		buf.bytesPanel(g.B, g.M*digits, pi, c, PanelWidth)
		n := min(PanelWidth, g.B.N-pi*PanelWidth)
		for i := range g.M {
			y := g.C[i*g.LdC+pi*PanelWidth:][:n]
			d := c[i*digits*PanelWidth:]
			d0, d1, d2 := d[:n], d[PanelWidth:][:n], d[2*PanelWidth:][:n]
			for j := range y {
				y[j] = d0[j] + (d1[j] + d2[j])
			}
		}
	}
}

// digitBytesGeneric writes the digits of the elements of x·factor, rounded to integers, to dst, digit j
// at j·stride, and their sums to sum.
func digitBytesGeneric(dst []int8, stride int, x []float32, factor float32, sum *[digits]int32) {
	d0, d1, d2 := dst[:len(x)], dst[stride:][:len(x)], dst[2*stride:][:len(x)]
	*sum = [digits]int32{}
	for i, v := range x {
		const round = 3 << 51 // leaves the integer in the lowest bits of the sum
		q := int32(math.Float64bits(float64(v*factor) + round))
		const half = 0x808080 // makes the digits signed
		q = (q + half) ^ half
		d0[i], d1[i], d2[i] = int8(q>>16), int8(q>>8), int8(q)
		sum[0] += int32(d0[i])
		sum[1] += int32(d1[i])
		sum[2] += int32(d2[i])
	}
}
