package main

import (
	"fmt"
	"slices"
)

// tileDotBF16 adds to tile c the matrix product of bfloat16 tiles a and b.
func (g *fn) tileDotBF16(b, a, c int) {
	g.amx(fmt.Sprintf("TDPBF16PS TMM%d, TMM%d, TMM%d", b, a, c),
		append(vex(vexF3, c, 0, a, b, 0x5c), byte(0xc0|c&7<<3|a&7)))
}

// dotBF16 emits VDPBF16PS, which adds to the elements of register c the products of the pairs of
// bfloat16 numbers of register b and of the pair at disp(base). disp is a multiple of 4 below 512.
// Go's assembler has no such instruction (Intel SDM, volume 2, section 2.7).
func (g *fn) dotBF16(disp int, base string, b, c int) {
	at := slices.Index(registersAMD64, base)
	g.amx(fmt.Sprintf("VDPBF16PS.BCST %d(%s), Z%d, Z%d", disp, base, b, c),
		[]byte{0x62, byte(^c&8<<4 | 0x40 | ^at&8<<2 | ^c&16 | 2), byte(^b&15<<3 | 0x06),
			byte(0x50 | ^b&16>>1), 0x52, byte(0x40 | c&7<<3 | at&7), byte(disp / 4)})
}

// dotRegistersBF16 is dotBF16 for registers b and a.
func (g *fn) dotRegistersBF16(b, a, c int) {
	g.amx(fmt.Sprintf("VDPBF16PS Z%d, Z%d, Z%d", a, b, c),
		[]byte{0x62, byte(^c&8<<4 | ^a&16<<2 | ^a&8<<2 | ^c&16 | 2), byte(^b&15<<3 | 0x06),
			byte(0x40 | ^b&16>>1), 0x52, byte(0xc0 | c&7<<3 | a&7)})
}

// Offsets of the fields of gemm's dotsBF16.
const (
	bdA, bdB      = 0, 8
	bdChunks      = 16
	bdOut, bdStep = 24, 32
	bdBias        = 40
	bdMore        = 48
	bdMoreStep    = 56
	bdAlpha       = 64
	bdTiles       = 72
	bdUnit        = 80

	pairRows = 8 // of a tile
)

// bfloatDots writes the GEMM of tiles of some bfloat16 rows and a panel of columns by dot products
// of pairs. Tiles follow each other only if two of them are a unit of rows.
func bfloatDots(f *file, rows int) string {
	name := fmt.Sprintf("dots%dBF16", rows)
	g := f.function(name, avx512, []arg{{"t", "*dotsBF16"}}, nil)
	g.arg("t", "DX")
	for _, p := range []struct {
		off int
		reg string
	}{{bdA, "R9"}, {bdOut, "R12"}, {bdMore, "R13"}} {
		g.e("MOVQ %d(DX), %s", p.off, p.reg)
	}
	several := rows == pairRows
	if several {
		g.e("MOVQ %d(DX), R15", bdTiles)
		g.e("MOVQ $%d, R10", pairRows*bfRow) // from a tile of A to the next
		g.e("MOVQ %d(DX), R11", bdUnit)
		g.e("SUBQ R10, R11") // from that to the first of the next unit
	}
	const b = 2 * pairRows // the first of two registers
	g.label("tile")
	g.e("MOVQ R9, SI")
	g.e("MOVQ %d(DX), DI", bdB)
	g.e("MOVQ %d(DX), R8", bdChunks)
	for c := range 2 * rows {
		g.op("VPXORD", c, c, c)
	}
	if several { // what the end of the tile reads and writes
		g.prefetchRows(rows, "R13", bdMoreStep)
		g.prefetchRows(rows, "R12", bdStep)
	}
	const unroll = 4
	g.label("chunk")
	g.e("MOVQ $%d, CX", 16/unroll)
	g.label("pairs")
	for p := range unroll {
		for j := range 2 {
			g.op("VMOVUPS", fmt.Sprintf("%d(DI)", p*tileStride+j*64), b+j)
		}
		for i := range rows {
			for j := range 2 {
				g.dotBF16(i*bfRow+p*4, "SI", b+j, 2*i+j)
			}
		}
	}
	g.e("ADDQ $%d, SI", 4*unroll)
	g.e("ADDQ $%d, DI", unroll*tileStride)
	g.e("DECQ CX")
	g.e("JNZ pairs")
	g.e("ADDQ $%d, SI", bfStepA-bfRow)
	g.e("DECQ R8")
	g.e("JNZ chunk")
	each := func(base string, step int, instruction func(c int, at string)) {
		g.e("MOVQ %d(DX), CX", step)
		for i := range rows {
			for j := range 2 {
				instruction(2*i+j, fmt.Sprintf("%d(%s)", j*64, base))
			}
			if i+1 < rows || several {
				g.e("ADDQ CX, %s", base)
			}
		}
	}
	skip := func(field int, label string) {
		g.e("CMPQ %d(DX), $0", field)
		g.e("JE %s", label)
	}
	skip(bdAlpha, "store")
	g.e("VBROADCASTSS %d(DX), Z%d", bdAlpha, b)
	for c := range 2 * rows {
		g.op("VMULPS", b, c, c)
	}
	skip(bdBias, "more")
	g.e("MOVQ %d(DX), AX", bdBias)
	for j := range 2 {
		g.op("VMOVUPS", fmt.Sprintf("%d(AX)", j*64), b+j)
	}
	for c := range 2 * rows {
		g.op("VADDPS", b+c%2, c, c)
	}
	g.label("more")
	skip(bdMore, "store")
	each("R13", bdMoreStep, func(c int, at string) { g.op("VADDPS", at, c, c) })
	g.label("store")
	each("R12", bdStep, func(c int, at string) { g.op("VMOVUPS", c, at) })
	if several {
		g.e("ADDQ R10, R9")
		g.e("XCHGQ R10, R11")
		g.e("DECQ R15")
		g.e("JNZ tile")
	}
	g.e("VZEROUPPER")
	g.e("RET")
	return name
}

// prefetchRows prefetches two lines of each row at base into the second-level cache. step is the
// offset of the distance of rows.
func (g *fn) prefetchRows(rows int, base string, step int) {
	g.e("MOVQ %s, AX", base)
	for i := range rows {
		g.e("PREFETCHT1 (AX)")
		g.e("PREFETCHT1 64(AX)")
		if i+1 < rows {
			g.e("ADDQ %d(DX), AX", step)
		}
	}
}

// Offsets of the fields of gemm's tilesBF16.
const (
	bfA, bfB, bfC = 64, 72, 80 // the configuration comes first
	bfTile        = 88
	bfChunks      = 96
	bfBlock       = 104
	bfTiles       = 112
	bfZero        = 120
	bfLeft        = 128 // variables of the function
	bfTilesLeft   = 136
	bfABlock      = 144
	bfNext        = 152
	bfLines       = 160
	bfFrom, bfTo  = 168, 176
	bfPairs       = 184

	bfRow   = 64 // bytes of a row in a tile of A
	bfStepA = 16 * bfRow
	bfStepB = 16 * tileStride
)

// bfloatTiles writes the bfloat16 GEMM of one or two tiles of rows and two tiles of columns. With
// three parts, it is the float32 GEMM of operands that are split into them.
func bfloatTiles(f *file, halves, parts int) {
	name := fmt.Sprintf("tiles%dBF16", halves)
	if parts > 1 {
		name = fmt.Sprintf("tiles%dSplit", halves)
	}
	g := f.function(name, avx512, []arg{{"t", "*tilesBF16"}}, nil)
	g.arg("t", "DX")
	g.tileConfig("DX")
	g.e("MOVQ %d(DX), R11", bfB)
	g.e("MOVQ $%d, R8", bfRow)
	g.e("MOVQ $%d, R9", parts*tileStride)
	sums := func(each func(t, disp int, base, index string)) {
		g.e("MOVQ $%d, CX", tileStride)
		for i := range 2 * halves {
			each(i, i/2*16*tileStride+i%2*64, "R15", "CX")
		}
	}
	if parts > 1 {
		splitConstants(g)
		g.e("MOVQ %d(DX), BX", bfFrom)
		g.e("MOVQ %d(DX), R14", bfTo)
	} else {
		g.e("MOVQ %d(DX), BX", bfNext)
	}
	for _, p := range [][2]int{{bfA, bfABlock}, {bfChunks, bfLeft}} {
		g.e("MOVQ %d(DX), AX", p[0])
		g.e("MOVQ AX, %d(DX)", p[1])
	}
	g.label("block")
	g.e("MOVQ %d(DX), R13", bfABlock)
	g.e("MOVQ %d(DX), R15", bfC)
	g.e("MOVQ %d(DX), AX", bfTiles)
	g.e("MOVQ AX, %d(DX)", bfTilesLeft)
	g.e("MOVQ %d(DX), R12", bfBlock)
	g.e("CMPQ R12, %d(DX)", bfLeft)
	g.e("CMOVQGT %d(DX), R12", bfLeft)
	g.label("tile")
	g.e("MOVQ %d(DX), AX", bfLeft)
	g.e("CMPQ AX, %d(DX)", bfZero)
	g.e("JNE load")
	for i := range 2 * halves {
		g.tileZero(i)
	}
	g.e("JMP start")
	g.label("load")
	sums(func(t, disp int, base, index string) { g.tileLoad(disp, base, index, t) })
	g.label("start")
	g.e("MOVQ R11, DI")
	g.e("MOVQ R13, AX")
	if halves == 2 {
		g.e("MOVQ R13, SI")
		g.e("ADDQ %d(DX), SI", bfTile)
	}
	g.e("MOVQ R12, CX")
	g.label("chunk")
	if parts > 1 {
		g.splitProducts(halves)
	} else {
		g.tileProducts(halves, g.tileDotBF16)
		g.e("MOVQ %d(DX), R10", bfLines) // of the next panel, into the second-level cache
		g.label("ahead")
		g.e("PREFETCHT1 (BX)")
		g.e("ADDQ $64, BX")
		g.e("DECQ R10")
		g.e("JNZ ahead")
	}
	if halves == 2 {
		g.e("ADDQ $%d, SI", parts*bfStepA)
	}
	g.e("ADDQ $%d, AX", parts*bfStepA)
	g.e("ADDQ $%d, DI", parts*bfStepB)
	g.e("DECQ CX")
	g.e("JNZ chunk")
	sums(func(t, disp int, base, index string) { g.tileStore(t, disp, base, index) })
	g.e("ADDQ $%d, R15", 32*tileStride)
	g.e("MOVQ %d(DX), AX", bfTile)
	g.e("LEAQ (R13)(AX*2), R13")
	g.e("DECQ %d(DX)", bfTilesLeft)
	g.e("JNZ tile")
	g.e("MOVQ DI, R11") // the next block of B follows
	g.e("MOVQ R12, AX")
	g.e("IMULQ $%d, AX", parts*bfStepA)
	g.e("ADDQ AX, %d(DX)", bfABlock)
	g.e("SUBQ R12, %d(DX)", bfLeft)
	g.e("JNZ block")
	g.tileRelease()
	if parts > 1 {
		g.e("VZEROUPPER")
	}
	g.e("RET")
}

// convertBF16 emits VCVTNE2PS2BF16, which rounds the numbers of two registers below 8, low and
// high, to one: to nearest, ties to even, and subnormal numbers to zero.
func (g *fn) convertBF16(high, low, to int) {
	g.amx(fmt.Sprintf("VCVTNE2PS2BF16 Z%d, Z%d, Z%d", low, high, to),
		[]byte{0x62, 0xf2, byte(^high&15<<3 | 0x07), 0x48, 0x72, byte(0xc0 | to<<3 | low)})
}

// bfloatRows writes the conversion of rows to bfloat16 numbers. 32 numbers are followed by those of
// other rows.
func bfloatRows(f *file) {
	g := f.function("rowsBF16AVX512", avx512, []arg{{"dst", "*uint16"}, {"x", "*float32"}, {"step", "int"},
		{"ldx", "int"}, {"rows", "int"}, {"n", "int"}}, nil)
	g.arg("dst", "R8")
	g.arg("x", "R9")
	g.arg("step", "DX")
	g.arg("ldx", "R10")
	g.arg("rows", "R11")
	g.arg("n", "BX")
	g.label("chunk")
	g.e("MOVQ R8, DI")
	g.e("MOVQ R9, SI")
	g.e("MOVQ R11, CX")
	g.label("row")
	for k := range 2 {
		g.e("VMOVDQU32 %d(SI), Z%d", k*64, k)
	}
	g.convertBF16(1, 0, 0)
	g.e("VMOVDQU32 Z0, (DI)")
	g.e("ADDQ R10, SI")
	g.e("ADDQ $%d, DI", bfRow)
	g.e("DECQ CX")
	g.e("JNZ row")
	g.e("ADDQ DX, R8")
	g.e("ADDQ $128, R9")
	g.e("DECQ BX")
	g.e("JNZ chunk")
	g.e("VZEROUPPER")
	g.e("RET")
}

// bfloatConstants loads the constants of bfloatRound.
func bfloatConstants(g *fn) {
	for i, c := range []uint32{1, 0x7fff, 0x00400000, 0xffff0000} {
		g.op("VMOVDQU32", c, 28+i)
	}
}

// bfloatRound writes a bfloat16 number to the upper half of the elements of register to. The lower
// half is undefined.
func bfloatRound(g *fn, x, to int) {
	g.op("VCMPPS", "$3", x, x, "K1") // NaN
	g.op("VPSRLD", "$16", x, to)
	g.op("VPANDD", 28, to, to)
	g.op("VPADDD", 29, to, to)
	g.op("VPADDD", x, to, to)
	g.op("VPORD", 30, x, "K1", to)
}

// bfloatPairs writes the conversion of pairs of rows of a panel to pairs of bfloat16 numbers,
// rounded to nearest, ties to even.
func bfloatPairs(f *file) {
	g := f.function("pairsBF16AVX512", avx512, []arg{{"dst", "*uint16"}, {"x", "*float32"}, {"n", "int"}}, nil)
	g.arg("dst", "DI")
	g.arg("x", "SI")
	g.arg("n", "CX")
	bfloatConstants(g)
	g.label("row")
	for j := range 2 { // halves of the row
		for k := range 2 {
			x, odd := 4*j+2*k, 4*j+2*k+1
			g.e("VMOVDQU32 %d(SI), Z%d", k*128+j*64, x)
			bfloatRound(g, x, odd)
			if k == 0 {
				g.op("VPSRLD", "$16", odd, odd)
			} else {
				g.op("VPANDD", 31, odd, odd)
			}
		}
		g.op("VPORD", 4*j+1, 4*j+3, 4*j+1)
		g.e("VMOVDQU32 Z%d, %d(DI)", 4*j+1, j*64)
	}
	g.e("ADDQ $256, SI")
	g.e("ADDQ $128, DI")
	g.e("DECQ CX")
	g.e("JNZ row")
	g.e("VZEROUPPER")
	g.e("RET")
}

var _ = register("gemm", writeBFloat16)

func writeBFloat16(dir string) {
	f := newFile("bfloat16")
	for halves := 1; halves <= 2; halves++ {
		bfloatTiles(f, halves, 1)
	}
	bfloatRows(f)
	bfloatPairs(f)
	dispatch := dispatchDots(f, bfloatDots)
	f.write(dir, "gemm", dispatch)
}
