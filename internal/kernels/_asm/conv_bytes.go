package main

import (
	"fmt"
	"strings"
)

// Offsets of the fields of conv's byteTile.
const (
	bA, bB, bC          = 0, 8, 16
	bOffsets            = 24
	bTaps, bK           = 32, 40
	bPixel, bSecond     = 48, 56
	bLdC, bSecondC      = 64, 72
	bBias, bScale       = 80, 88
	bZero, bLo, bHi     = 96, 100, 104
	bMask, bSums        = 108, 112
	bytePixels, byteCol = 14, 32
)

// halfAddr returns the operand of pixel i of a tile of mr pixels at displacement d. AX points to
// the first pixel of the first half, SI to that of the second; R8 is the distance of pixels, R9 and
// R10 three and five times that.
func halfAddr(i, mr, d int) string {
	h := (mr + 1) / 2
	base := "AX"
	if i >= h {
		base, i = "SI", i-h
	}
	return fmt.Sprintf("%d(%s)", d, base) + [...]string{"", "(R8*1)", "(R8*2)", "(R9*1)", "(R8*4)", "(R10*1)", "(R9*2)"}[i]
}

// byteTile writes the tile of mr pixels and 32 output channels of a convolution of bytes. For each
// tap, whose offset from a pixel is in a list, it takes k steps of four channels.
func byteTile(f *file, mr int) string {
	name := fmt.Sprintf("byteTile%dx%dAVX512", mr, byteCol)
	g := f.function(name, avx512, []arg{{"t", "*byteTile"}}, nil)
	sets := 1 // independent sums hide the latency of the multiply-add for few pixels
	if mr <= 2 {
		sets = 4
	} else if mr <= 4 {
		sets = 2
	}
	acc := func(s, r, j int) int { return 32 - 2*mr*sets + s*2*mr + r*2 + j }
	half := (mr + 1) / 2
	g.arg("t", "DX")
	for _, p := range []struct {
		off int
		reg string
	}{{bB, "DI"}, {bPixel, "R8"}, {bOffsets, "R11"}, {bTaps, "R12"}, {bA, "R13"}, {bBias, "AX"}} {
		g.e("MOVQ %d(DX), %s", p.off, p.reg)
	}
	g.e("LEAQ (R8)(R8*2), R9")
	g.e("LEAQ (R8)(R8*4), R10")
	for j := range 2 {
		g.op("VMOVDQU32", fmt.Sprintf("%d(AX)", j*64), acc(0, 0, j))
		for r := 1; r < mr; r++ {
			g.op("VMOVDQA32", acc(0, 0, j), acc(0, r, j))
		}
		for s := 1; s < sets; s++ {
			for r := range mr {
				g.op("VPXORQ", acc(s, r, j), acc(s, r, j), acc(s, r, j))
			}
		}
	}
	step := func(u, s int) {
		for j := range 2 {
			g.op("VMOVDQU32", fmt.Sprintf("%d(DI)", u*128+j*64), j)
		}
		for r := range mr {
			t := 2 + r%2
			g.op("VPBROADCASTD", halfAddr(r, mr, 4*u), t)
			for j := range 2 {
				g.op("VPDPBUSD", j, t, acc(s, r, j))
			}
		}
	}
	advance := func(n int) {
		g.e("ADDQ $%d, AX", 4*n)
		if half < mr {
			g.e("ADDQ $%d, SI", 4*n)
		}
		g.e("ADDQ $%d, DI", 128*n)
	}
	g.label("tap")
	g.e("MOVQ (R11), AX")
	g.e("ADDQ R13, AX")
	if half < mr {
		g.e("MOVQ %d(DX), SI", bSecond)
		g.e("ADDQ AX, SI")
	}
	g.e("ADDQ $8, R11")
	g.e("MOVQ %d(DX), CX", bK)
	g.e("SUBQ $4, CX")
	g.e("JLT rest")
	g.e("PCALIGN $32")
	g.label("loop")
	for u := range 4 {
		step(u, u%sets)
	}
	advance(4)
	g.e("SUBQ $4, CX")
	g.e("JGE loop")
	g.label("rest")
	g.e("ADDQ $4, CX")
	g.e("JZ next")
	g.label("one")
	step(0, 0)
	advance(1)
	g.e("DECQ CX")
	g.e("JNZ one")
	g.label("next")
	g.e("DECQ R12")
	g.e("JNZ tap")
	for s := sets - 1; s > 0; s-- {
		for r := range mr {
			for j := range 2 {
				g.op("VPADDD", acc(s, r, j), acc(0, r, j), acc(0, r, j))
			}
		}
	}
	g.e("MOVQ %d(DX), R15", bC)
	g.e("MOVQ %d(DX), BX", bLdC)
	g.e("MOVQ %d(DX), CX", bSecondC)
	g.e("ADDQ R15, CX")
	g.e("KMOVW %d(DX), K1", bMask)
	g.e("KMOVW %d(DX), K2", bMask+2)
	each := func(store func(r, j int, mem string)) {
		for r := range mr {
			reg, last := "R15", r == half-1 || r == mr-1
			if r >= half {
				reg = "CX"
			}
			for j := range 2 {
				store(r, j, reg)
			}
			if !last {
				g.e("ADDQ BX, %s", reg)
			}
		}
	}
	g.e("CMPQ %d(DX), $0", bSums)
	g.e("JEQ requantize")
	each(func(r, j int, reg string) {
		g.op("VMOVDQU32", acc(0, r, j), fmt.Sprintf("K%d", j+1), fmt.Sprintf("%d(%s)", j*64, reg))
	})
	g.e("VZEROUPPER")
	g.e("RET")
	g.label("requantize")
	// clip(round(x)+zero, lo, hi) = round(clip(x, lo-zero, hi-zero)) + zero, since the bounds are
	// integers.
	g.e("MOVQ %d(DX), AX", bScale)
	for j := range 2 {
		g.op("VMOVUPS", fmt.Sprintf("%d(AX)", j*64), j)
	}
	g.e("VBROADCASTSS %d(DX), Z2", bLo)
	g.e("VBROADCASTSS %d(DX), Z3", bHi)
	all := func(op func(a, j int)) {
		for r := range mr {
			for j := range 2 {
				op(acc(0, r, j), j)
			}
		}
	}
	all(func(a, j int) {
		g.op("VCVTDQ2PS", a, a)
		g.op("VMULPS", j, a, a)
		g.op("VMAXPS", 2, a, a) // NaN becomes the lower bound
		g.op("VMINPS", 3, a, a)
		g.op("VCVTPS2DQ", a, a)
	})
	g.e("VPBROADCASTD %d(DX), Z2", bZero)
	each(func(r, j int, reg string) {
		a := acc(0, r, j)
		g.op("VPADDD", 2, a, a)
		g.op("VPMOVDB", a, fmt.Sprintf("K%d", j+1), fmt.Sprintf("%d(%s)", j*16, reg))
	})
	g.e("VZEROUPPER")
	g.e("RET")
	return name
}

// requantize converts the sums in register a to bytes: round(clip(a·scale, lo, hi)) + zero, which is clip(round(a·scale) + zero) within
// the bounds plus zero, since the bounds are integers.
func (g *fn) requantize(a, scale, lo, hi, zero int) {
	g.op("VCVTDQ2PS", a, a)
	g.op("VMULPS", scale, a, a)
	g.op("VMAXPS", lo, a, a) // NaN becomes the lower bound
	g.op("VMINPS", hi, a, a)
	g.op("VCVTPS2DQ", a, a)
	g.op("VPADDD", zero, a, a)
}

func writeConvBytes(dir string) {
	f := newFile("bytes")
	var dis strings.Builder
	dis.WriteString("\nfunc byteTileAVX512(pixels int, t *byteTile) {\n\tswitch pixels {\n")
	for mr := 1; mr <= bytePixels; mr++ {
		fmt.Fprintf(&dis, "\tcase %d:\n\t\t%s(t)\n", mr, byteTile(f, mr))
	}
	dis.WriteString("\t}\n}\n")
	dis.WriteString("\nfunc channelTileAVX512(pixels int, t *channelTile) {\n\tswitch pixels {\n")
	for mr := 1; mr <= lastPixels; mr++ {
		fmt.Fprintf(&dis, "\tcase %d:\n\t\t%s(t)\n", mr, lastTile(f, mr))
	}
	dis.WriteString("\t}\n}\n")
	for stride := 1; stride <= 2; stride++ {
		fmt.Fprintf(&dis, "\nfunc planeTile%dAVX512(rows int, t *planeTile) {\n\tswitch rows {\n", stride)
		for rows := 1; rows <= 4; rows++ {
			fmt.Fprintf(&dis, "\tcase %d:\n\t\t%s(t)\n", rows, planeTile(f, rows, stride))
		}
		dis.WriteString("\t}\n}\n")
	}
	write(dir+"/bytes_amd64.s", f.text())
	write(dir+"/bytes_stubs_amd64.go", generated+"//go:build !purego\n\npackage conv\n"+f.stubs.String()+dis.String())
}

// Offsets of the fields of conv's channelTile.
const (
	chA, chB, chC      = 0, 8, 16
	chOffsets          = 24
	chTaps, chBlocks   = 32, 40
	chPixel, chLdC     = 48, 56
	chBias, chScale    = 64, 72
	chZero, chLo, chHi = 80, 84, 88
	chMask             = 92
	chIndex            = 96
	lastPixels         = 8
)

// lastTile writes the tile of mr pixels of a depthwise convolution of bytes with the channels innermost,
// in blocks of 16 channels.
func lastTile(f *file, mr int) string {
	name := fmt.Sprintf("channelTile%dAVX512", mr)
	g := f.function(name, avx512, []arg{{"t", "*channelTile"}}, nil)
	const weights, zero, lo, hi, scale, bias = 8, 9, 10, 11, 12, 13
	g.arg("t", "DX")
	for _, p := range []struct {
		off int
		reg string
	}{{chB, "DI"}, {chPixel, "R8"}, {chA, "R13"}, {chC, "R15"}, {chBlocks, "CX"}, {chBias, "BX"}, {chScale, "SI"}} {
		g.e("MOVQ %d(DX), %s", p.off, p.reg)
	}
	g.e("LEAQ (R8)(R8*2), R9")
	g.e("LEAQ (R8)(R8*4), R10")
	g.e("VPBROADCASTD %d(DX), Z%d", chZero, zero)
	g.e("VBROADCASTSS %d(DX), Z%d", chLo, lo)
	g.e("VBROADCASTSS %d(DX), Z%d", chHi, hi)
	g.e("MOVL $0xffff, AX")
	g.e("KMOVW AX, K1")
	g.label("block")
	g.e("CMPQ CX, $1")
	g.e("JNE whole")
	g.e("KMOVW %d(DX), K1", chMask)
	g.label("whole")
	g.e("VMOVDQU32 (BX), Z%d", bias)
	for r := range mr {
		g.op("VMOVDQA32", bias, r)
	}
	g.e("MOVQ %d(DX), R11", chOffsets)
	g.e("MOVQ %d(DX), R12", chTaps)
	g.label("tap")
	g.e("MOVQ (R11), AX")
	g.e("ADDQ R13, AX")
	g.e("VMOVDQU32 (DI), Z%d", weights)
	for r := range mr {
		m := "(AX)" + [...]string{"", "(R8*1)", "(R8*2)", "(R9*1)", "(R8*4)", "(R10*1)", "(R9*2)"}[r%7]
		if r == 7 {
			g.e("LEAQ (AX)(R9*2), AX")
			m = "(AX)(R8*1)"
		}
		g.e("VPMOVZXBD.Z %s, K1, Z%d", m, 16+r)
		g.op("VPDPWSSD", weights, 16+r, r)
	}
	g.e("ADDQ $64, DI")
	g.e("ADDQ $8, R11")
	g.e("DECQ R12")
	g.e("JNZ tap")
	g.e("VMOVUPS (SI), Z%d", scale)
	g.e("MOVQ R15, AX")
	for r := range mr {
		g.requantize(r, scale, lo, hi, zero)
		g.e("VPMOVDB Z%d, K1, (AX)", r)
		if r < mr-1 {
			g.e("ADDQ %d(DX), AX", chLdC)
		}
	}
	g.e("ADDQ $16, R13")
	g.e("ADDQ $16, R15")
	g.e("ADDQ $64, BX")
	g.e("ADDQ $64, SI")
	g.e("DECQ CX")
	g.e("JNZ block")
	g.e("VZEROUPPER")
	g.e("RET")
	return name
}

// Offsets of the fields of conv's planeTile.
const (
	pA, pB, pC      = 0, 8, 16
	pKH, pKW        = 24, 32
	pDX, pDY        = 40, 48
	pRow, pLdC      = 56, 64
	pN              = 72
	pBias, pScale   = 80, 84
	pLo, pHi, pZero = 88, 92, 96
	pSums           = 104
)

// planeTile writes the tile of rows rows of a depthwise convolution of a plane of bytes with the
// given stride.
func planeTile(f *file, rows, stride int) string {
	name := fmt.Sprintf("planeTile%dx%dAVX512", rows, stride)
	g := f.function(name, avx512, []arg{{"t", "*planeTile"}}, nil)
	g.arg("t", "DX")
	for _, p := range []struct {
		off int
		reg string
	}{{pA, "SI"}, {pC, "DI"}, {pRow, "R8"}, {pLdC, "R9"}, {pDX, "R10"}, {pN, "CX"}} {
		g.e("MOVQ %d(DX), %s", p.off, p.reg)
	}
	g.e("LEAQ (R8)(R8*2), R11")
	for i, off := range []int{pBias, pZero} {
		g.e("VPBROADCASTD %d(DX), Z%d", off, 16+i)
	}
	for i, off := range []int{pScale, pLo, pHi} {
		g.e("VBROADCASTSS %d(DX), Z%d", off, 18+i)
	}
	if stride == 2 {
		g.e("MOVL $255, AX")
		g.e("VPBROADCASTD AX, Z21")
	}
	g.label("block") // of 16 outputs
	g.e("MOVL $-1, AX")
	g.e("CMPQ CX, $16")
	g.e("JGE full")
	g.e("MOVL $1, AX")
	g.e("SHLL CX, AX")
	g.e("DECL AX")
	g.label("full")
	g.e("KMOVW AX, K1")
	for r := range rows {
		g.e("VMOVDQA32 Z16, Z%d", r)
	}
	g.e("MOVQ %d(DX), BX", pB)
	g.e("MOVQ SI, R12")
	g.e("MOVQ %d(DX), R13", pKH)
	g.label("row")
	g.e("MOVQ R12, AX")
	g.e("MOVQ %d(DX), R15", pKW)
	g.label("tap")
	g.e("VPBROADCASTD (BX), Z8")
	for r := range rows {
		m := [...]string{"(AX)", "(AX)(R8*1)", "(AX)(R8*2)", "(AX)(R11*1)"}[r]
		if stride == 1 {
			g.e("VPMOVZXBD %s, Z%d", m, 9+r)
		} else {
			g.e("VPMOVZXWD %s, Z%d", m, 9+r)
			g.e("VPANDD Z21, Z%d, Z%d", 9+r, 9+r)
		}
		g.e("VPDPWSSD Z8, Z%d, Z%d", 9+r, r)
	}
	g.e("ADDQ $4, BX")
	g.e("ADDQ R10, AX")
	g.e("DECQ R15")
	g.e("JNZ tap")
	g.e("ADDQ %d(DX), R12", pDY)
	g.e("DECQ R13")
	g.e("JNZ row")
	g.e("MOVQ DI, AX")
	g.e("CMPQ %d(DX), $0", pSums)
	g.e("JEQ requantize")
	for r := range rows {
		g.e("VMOVDQU32 Z%d, K1, (AX)", r)
		g.e("ADDQ R9, AX")
	}
	g.e("ADDQ $48, DI")
	g.e("JMP next")
	g.label("requantize")
	for r := range rows {
		g.op("VCVTDQ2PS", r, r)
		g.op("VMULPS", 18, r, r)
		g.op("VMAXPS", 19, r, r) // NaN becomes the lower bound
		g.op("VMINPS", 20, r, r)
		g.op("VCVTPS2DQ", r, r)
		g.op("VPADDD", 17, r, r)
		g.e("VPMOVDB Z%d, K1, (AX)", r)
		g.e("ADDQ R9, AX")
	}
	g.label("next")
	g.e("ADDQ $16, DI")
	g.e("ADDQ $%d, SI", 16*stride)
	g.e("SUBQ $16, CX")
	g.e("JG block")
	g.e("VZEROUPPER")
	g.e("RET")
	return name
}
