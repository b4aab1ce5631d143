//go:build !purego && (amd64 || arm64)

package quant

import (
	"math"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// nbitsK is the K of one assembly call, at most.
const nbitsK = 8192

// prepare converts the rows of A and sets the form of the GEMM.
func (r *blockRows) prepare(par gemm.Par) {
	g := r.g
	switch {
	case !hasNBits(r.level) || g.B.K == 0:
	case g.Int8 && dotProduct(r.level):
		r.each(par, nbitsBytes, 1)
		return
	case g.M >= manyRows && g.B.Block <= shortBlock:
	case dotProduct(r.level) && g.B.Block <= digitBlock && r.each(par, nbitsDigits, digits):
		return
	case g.M <= vectorRows:
		r.form = nbitsFloats
		r.sums(g)
		return
	}
	r.form = nbitsPanels
}

// For at least manyRows rows, blocks of at most shortBlock elements are converted to float32:
// scaling the sums of their digits takes longer.
const manyRows, shortBlock = 24, 16

// each converts each row of A to a form of so many rows of int8. It returns false if a row has no
// such form.
func (r *blockRows) each(par gemm.Par, form nbitsForm, rows int) bool {
	m, p := r.g.M*rows, r.g.B
	kp := p.blocks * p.Block
	r.bytes, r.scale, r.sum = grow(&r.bytes, m*kp), grow(&r.scale, m*p.blocks), grow(&r.sum, m*p.blocks)
	r.form = form
	r.infinite.Store(false)
	par(tiles(r.g.M, max(1, nbitsGroup/kp)), r.convert)
	return !r.infinite.Load()
}

// convertRows converts the groups [lo, hi) of rows of A, zero-padded to whole blocks.
func (r *blockRows) convertRows(lo, hi int) {
	g, p := r.g, r.g.B
	kp := p.blocks * p.Block
	group := max(1, nbitsGroup/kp)
	buf := nbitsPanelPool.Get().(*[]float32)
	defer nbitsPanelPool.Put(buf)
	for i := lo * group; i < min(g.M, hi*group); i++ {
		row := g.A[i*g.LdA:][:p.K]
		if kp > p.K {
			copied := grow(buf, kp)
			clear(copied[copy(copied, row):])
			row = copied
		}
		switch {
		case r.form == nbitsBytes:
			r.round(i, row)
		case !r.infinite.Load() && !r.split(i, row):
			r.infinite.Store(true)
		}
	}
}

// nbitsGroup is the number of elements of rows that are not distributed.
const nbitsGroup = 1 << 16

func (t *nbitsArgs) weights(p *NBits, pi, b0, b1 int) {
	t.b = unsafe.Pointer(&p.data[pi*p.panelBytes()+b0*p.Block/p.wordK()*PanelWidth*4])
	q := (pi*p.blocks + b0) * PanelWidth
	t.scale = unsafe.Pointer(&p.scale[q])
	if p.shift != nil {
		t.shift = unsafe.Pointer(&p.shift[q])
	}
	if p.zero != nil {
		t.zero, t.standard = unsafe.Pointer(&p.zero[q]), int32(p.standard())
	}
	t.blocks, t.steps = b1-b0, p.Block/p.wordK()
	t.mask = uint32(1<<min(PanelWidth, p.N-pi*PanelWidth) - 1)
	t.acc = min(uint64(b0), 1)
	t.far = gemm.Ahead(gemm.FarBytes * uintptr(p.Bits) / 4)
}

// panelsAsm computes the panels [p0, p1) of all rows.
func (r *blockRows) panelsAsm(buf *[]float32, p0, p1 int) {
	g, level := r.g, r.level
	for pi := p0; pi < p1; pi++ {
		c := g.C[pi*PanelWidth:]
		switch r.form {
		case nbitsFloats:
			r.floatsPanel(level, g.B, g.M, pi, c, g.LdC, g.B.shifts(level, buf, pi))
		case nbitsBytes:
			r.bytesPanel(g.B, g.M, pi, c, g.LdC)
		case nbitsDigits:
			r.digitsPanel(g.B, g.M, pi, c, g.LdC, grow(buf, g.M*digits*PanelWidth))
		}
	}
}

// sums copies the rows and adds up their blocks.
func (r *blockRows) sums(g *NBitsArgs) {
	p := g.B
	kp := p.blocks * p.Block
	a, sums := grow(&r.a, g.M*kp), grow(&r.fsum, g.M*p.blocks)
	for i := range g.M {
		row := a[i*kp:][:kp]
		clear(row[copy(row, g.A[i*g.LdA:][:p.K]):])
		for b := range p.blocks {
			var s float32
			for _, v := range row[b*p.Block:][:p.Block] {
				s += v
			}
			sums[i*p.blocks+b] = s
		}
	}
}

// floatsPanel multiplies a few rows in float32 by panel pi and writes the result to c.
func (r *blockRows) floatsPanel(level cpu.Level, p *NBits, rows, pi int, c []float32, ldc int, shifts []float32) {
	kp := p.blocks * p.Block
	part := max(1, nbitsK/p.Block)
	var t nbitsArgs
	for i := range rows {
		t.c = unsafe.Pointer(&c[i*ldc])
		for b := 0; b < p.blocks; b += part {
			t.weights(p, pi, b, min(p.blocks, b+part))
			if shifts != nil {
				t.shift = unsafe.Pointer(&shifts[b*PanelWidth])
			}
			t.a, t.aSum = unsafe.Pointer(&r.a[i*kp+b*p.Block]), unsafe.Pointer(&r.fsum[i*p.blocks+b])
			runNBitsVector(level, p.Bits, &t)
		}
	}
}

// sumFactor returns the number by which kernels want the negated sums of A multiplied.
func (p *NBits) sumFactor() int32 {
	if p.zero != nil {
		return 1
	}
	return int32(p.standard())
}

// round rounds row i of A to bytes.
func (r *blockRows) round(i int, row []float32) {
	p := r.g.B
	a, standard := r.bytes[i*len(row):][:len(row)], p.sumFactor()
	for b := range p.blocks {
		s, n := quantizeBlock(r.level, a[b*p.Block:][:p.Block], row[b*p.Block:][:p.Block])
		r.scale[i*p.blocks+b], r.sum[i*p.blocks+b] = s, -standard*n
	}
}

// bytesPanel multiplies the int8 rows by panel pi and writes the result to c.
func (r *blockRows) bytesPanel(p *NBits, rows, pi int, c []float32, ldc int) {
	kp := p.blocks * p.Block
	part := max(1, nbitsK/p.Block)
	t := nbitsArgs{lda: uintptr(kp), lds: uintptr(p.blocks) * 4, ldc: uintptr(ldc) * 4}
	count := tiles(rows, nbitsRows)
	for b := 0; b < p.blocks; b += part {
		t.weights(p, pi, b, min(p.blocks, b+part))
		for k := range count {
			i, e := rows*k/count, rows*(k+1)/count
			t.a = unsafe.Pointer(&r.bytes[i*kp+b*p.Block])
			t.aScale, t.aSum = unsafe.Pointer(&r.scale[i*p.blocks+b]), unsafe.Pointer(&r.sum[i*p.blocks+b])
			t.c = unsafe.Pointer(&c[i*ldc])
			runNBits(p.Bits, e-i, &t)
		}
	}
}

// digits is the number of int8 digits that represent a float32 of A: with a scale per block, their
// error is at most 2⁻²⁴ of the largest magnitude of the block, as much as float32's own at that
// magnitude.
const digits = 3

// digitBlock is the largest block that is multiplied as digits, so that the sum of its products is
// an int32.
const digitBlock = 1 << 16

// split writes row i of A as three int8 rows: the digits of its elements as integers to base 256,
// most significant first. It returns false if an element is not finite, or the scale of a block
// would not be.
func (r *blockRows) split(i int, row []float32) bool {
	p := r.g.B
	kp, standard := len(row), p.sumFactor()
	for b := range p.blocks {
		x := row[b*p.Block:][:p.Block]
		most := math.Float32bits(max(vec.ReduceMaxF32(r.level, x), -vec.ReduceMinF32(r.level, x)))
		e := int(most>>23) - 126 // most is below 2ᵉ
		if most == 0 {
			e = 0
		}
		if e < -90 || e > 90 {
			return false
		}
		if most&(1<<23-1) > 127<<17-1<<23 { // 127/128 of 2ᵉ: the largest integer is 127·2¹⁶
			e++
		}
		var sum [digits]int32
		digitBytes(r.level, r.bytes[i*digits*kp+b*p.Block:], kp, x, pow2(23-e), &sum)
		for j, s := range sum {
			at := (i*digits+j)*p.blocks + b
			r.scale[at], r.sum[at] = pow2(e-7-8*j), -standard*s
		}
	}
	return true
}

// pow2 returns 2ⁿ for -126 ≤ n ≤ 127.
func pow2(n int) float32 { return math.Float32frombits(uint32(n+127) << 23) }

// digitsPanel multiplies rows that are written as digits by panel pi and writes the result to y.
// products is scratch for the products of the digits.
func (r *blockRows) digitsPanel(p *NBits, rows, pi int, y []float32, ldy int, products []float32) {
	r.bytesPanel(p, rows*digits, pi, products, PanelWidth)
	n := min(PanelWidth, p.N-pi*PanelWidth)
	for i := range rows {
		y, d := y[i*ldy:][:n], products[i*digits*PanelWidth:]
		d0, d1, d2 := d[:n], d[PanelWidth:][:n], d[2*PanelWidth:][:n]
		for j := range y {
			y[j] = d0[j] + (d1[j] + d2[j])
		}
	}
}

// digitBytesGeneric writes the digits of the elements of x·factor, rounded to integers, to dst,
// digit j at j·stride, and their sums to sum.
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
