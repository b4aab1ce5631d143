package main

import (
	"fmt"
	"slices"
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
	bWord, bFlip        = 124, 128
	bPrefetch, bPfStep  = 136, 144
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
	return fmt.Sprintf("%d(%s)", d, base) + [...]string{"", "(R8*1)", "(R8*2)", "(R9*1)", "(R8*4)",
		"(R10*1)", "(R9*2)"}[i]
}

// byteTile writes the tile of mr pixels and 32 output channels of an int8 convolution. For each
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
	}{{bB, "DI"}, {bPixel, "R8"}, {bOffsets, "R11"}, {bTaps, "R12"}, {bA, "R13"}, {bBias, "AX"}, {bPrefetch, "BX"},
		{bPfStep, "R15"}} {
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
		if u < 2 {
			g.e("PREFETCHT1 %d(BX)", u*64)
		}
		step(u, u%sets)
	}
	advance(4)
	g.e("ADDQ R15, BX")
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
	const scale, word = 0, 3
	g.e("MOVQ %d(DX), AX", bScale)
	for j := range 2 {
		g.op("VMOVUPS", fmt.Sprintf("%d(AX)", j*64), scale+j)
	}
	g.e("VPBROADCASTW %d(DX), Z%d", bWord, word)
	g.e("KMOVD %d(DX), K3", bMask)
	reg := "R15"
	store := func(r, v int) {
		g.op("VMOVDQU8", fmt.Sprintf("Y%d", v), "K3", fmt.Sprintf("(%s)", reg))
		if r == half-1 {
			reg = "CX"
		} else {
			g.e("ADDQ BX, %s", reg)
		}
	}
	for r := 0; r < mr; r += 2 {
		next := min(r+1, mr-1)
		v := [4]int{acc(0, r, 0), acc(0, r, 1), acc(0, next, 0), acc(0, next, 1)}
		g.narrow4(f, [4]any{v[0], v[1], v[2], v[3]}, v, [4]int{scale, scale + 1, scale, scale + 1},
			-1, word, bFlip, v[1])
		store(r, v[0])
		if r < next {
			g.e("VEXTRACTI64X4 $1, Z%d, Y%d", v[0], v[0])
			store(next, v[0])
		}
	}
	g.e("VZEROUPPER")
	g.e("RET")
	return name
}

// narrow4 requantizes four registers of 16 sums to int8 or uint8: saturate(round(sum·scale) +
// zero). The result is in v[0], first the bytes of v[0], last those of v[3]. Packing instructions
// saturate to the bounds of bytes, and the conversion makes NaN and values below the range the
// lowest integer. Values above the range need the bound in register hi, which is negative if no
// value can be above it. word holds the zero point of unsigned bytes, which the 32 bits at flip(DX)
// convert to signed ones. The registers v and order change; a register may occur several times at
// the end of v, and order may be v[1].
func (g *fn) narrow4(f *file, sums [4]any, v, scale [4]int, hi, word, flip, order int) {
	for i, r := range v {
		if slices.Contains(v[:i], r) {
			continue
		}
		g.op("VCVTDQ2PS", sums[i], r)
		g.op("VMULPS", scale[i], r, r)
		if hi >= 0 {
			g.op("VMINPS", r, hi, r)
		}
		g.op("VCVTPS2DQ", r, r)
	}
	for i := 0; i < 4; i += 2 {
		if i == 0 || !slices.Contains(v[:2], v[i]) {
			g.op("VPACKSSDW", v[i+1], v[i], v[i])
			g.op("VPADDSW", word, v[i], v[i])
		}
	}
	g.op("VPACKUSWB", v[2], v[0], v[0])
	g.op("VPXORD.BCST", fmt.Sprintf("%d(DX)", flip), v[0], v[0])
	g.op("VMOVDQU32", packedOrder(f)+"(SB)", order)
	g.op("VPERMD", v[0], order, v[0])
}

// requantize converts the sums in register a to bytes: round(clip(a·scale, lo, hi)) + zero, which
// is clip(round(a·scale) + zero) within the bounds plus zero, since the bounds are integers.
func (g *fn) requantize(a, scale, lo, hi, zero int) {
	g.op("VCVTDQ2PS", a, a)
	g.op("VMULPS", scale, a, a)
	g.op("VMAXPS", lo, a, a) // NaN becomes the lower bound
	g.op("VMINPS", hi, a, a)
	g.op("VCVTPS2DQ", a, a)
	g.op("VPADDD", zero, a, a)
}

var _ = register("conv", writeConvBytes)

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
	dis.WriteString("\nfunc windowTileAVX512(channels, stride int, t *windowTile) {\n\tswitch channels + stride {\n")
	for _, channels := range []int{windowHalf, windowMost} {
		for stride := 1; stride <= 2; stride++ {
			fmt.Fprintf(&dis, "\tcase %d:\n\t\t%s(t)\n", channels+stride, windowTile(f, channels, stride))
		}
	}
	dis.WriteString("\t}\n}\n")
	for stride := 1; stride <= 2; stride++ {
		fmt.Fprintf(&dis, "\nfunc planeTile%dAVX512(rows int, t *planeTile) {\n\tswitch rows {\n", stride)
		for rows := 1; rows <= 4; rows++ {
			fmt.Fprintf(&dis, "\tcase %d:\n\t\t%s(t)\n", rows, planeTile(f, rows, stride))
		}
		dis.WriteString("\t}\n}\n")
	}
	f.write(dir, "conv", dis.String())
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

// lastTile writes the tile of mr pixels of an int8 depthwise convolution with the channels
// innermost, in blocks of 16 channels.
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

// Offsets of the fields of conv's windowTile.
const (
	wRows, wB, wC          = 0, 24, 32
	wColumn, wLdC, wN      = 40, 48, 56
	wLeft, wRight          = 64, 72
	wBias, wScale          = 80, 88
	wMask, wPad            = 96, 104
	wWord, wFlip           = 120, 124
	windowMost, windowHalf = 64, 32 // channels
)

// windowTile writes the tile of a row of an int8 depthwise 3×3 convolution with the channels
// innermost, for up to 64 or 32 channels. The three bytes of a column of the window are interleaved
// to the 32 bits of a channel, once for all pixels that it belongs to. Interleaving distributes the
// channels of each 16 bytes over four registers, and packing the results restores the order.
func windowTile(f *file, channels, stride int) string {
	name := fmt.Sprintf("windowTile%dx%dAVX512", channels, stride)
	i := avx512
	if channels == windowHalf {
		i.width, i.reg = 8, "Y"
	}
	g := f.function(name, i, []arg{{"t", "*windowTile"}}, nil)
	size := channels
	const weights, sums, temp, word = 0, 20, 24, 30
	first, second, third := []int{12, 13, 14, 15}, []int{16, 17, 18, 19}, []int{28, 27, 29, 24}
	g.arg("t", "DX")
	for k, p := range []struct {
		off int
		reg string
	}{{wB, "AX"}, {wRows, "SI"}, {wRows + 8, "DI"}, {wRows + 16, "R9"}, {wC, "R15"}, {wColumn, "R8"}, {wLdC, "R12"},
		{wN, "CX"}, {wRight, "R13"}, {wBias, "R10"}, {wScale, "R11"}} {
		g.e("MOVQ %d(DX), %s", p.off, p.reg)
		if k == 0 {
			for w := range 12 {
				g.op("VMOVDQU32", fmt.Sprintf("%d(AX)", w*size), weights+w)
			}
		}
	}
	g.op("VPBROADCASTW", fmt.Sprintf("%d(DX)", wWord), word)
	g.e("KMOVQ %d(DX), K1", wMask)
	g.e("XORL BX, BX") // offset of the column
	load := func() {
		for k, p := range []string{"SI", "DI", "R9"} {
			g.op("VMOVDQU8.Z", fmt.Sprintf("(%s)(BX*1)", p), "K1", temp+k)
		}
		g.e("ADDQ R8, BX")
	}
	pad := func() {
		for k := range 3 {
			g.op("VPBROADCASTD", fmt.Sprintf("%d(DX)", wPad), temp+k)
		}
	}
	spread := func(to []int) {
		g.op("VPUNPCKLBW", temp+1, temp, temp+3)
		g.op("VPUNPCKHBW", temp+1, temp, temp)
		g.op("VPUNPCKLBW", temp+2, temp+2, temp+1)
		g.op("VPUNPCKHBW", temp+2, temp+2, temp+2)
		g.op("VPUNPCKLWD", temp+1, temp+3, to[0])
		g.op("VPUNPCKHWD", temp+1, temp+3, to[1])
		g.op("VPUNPCKLWD", temp+2, temp, to[2])
		g.op("VPUNPCKHWD", temp+2, temp, to[3])
	}
	add := func(k int, x []int) {
		for j := range 4 {
			g.op("VPDPBUSD", weights+4*k+j, x[j], sums+j)
		}
	}
	g.e("CMPQ %d(DX), $0", wLeft)
	g.e("JEQ inside")
	pad()
	g.e("JMP start")
	g.label("inside")
	load()
	g.label("start")
	spread(first)
	if stride == 1 {
		load()
		spread(second)
	}
	g.label("loop")
	if stride == 2 {
		load()
		spread(second)
	}
	g.e("CMPQ CX, R13")
	g.e("JEQ outside")
	load()
	g.label("last")
	spread(third)
	for j := range 4 {
		g.op("VMOVDQU32", fmt.Sprintf("%d(R10)", j*size), sums+j)
	}
	add(0, first)
	add(1, second)
	add(2, third)
	for j := range 4 {
		switch stride {
		case 1:
			g.op("VMOVDQA32", second[j], first[j])
			g.op("VMOVDQA32", third[j], second[j])
		default:
			g.op("VMOVDQA32", third[j], first[j])
		}
	}
	for j := range 4 {
		g.op("VCVTDQ2PS", sums+j, sums+j)
		g.op("VMULPS", fmt.Sprintf("%d(R11)", j*size), sums+j, sums+j)
		g.op("VCVTPS2DQ", sums+j, sums+j) // the sums are so small that this overflows for NaN alone
	}
	for j := 0; j < 4; j += 2 {
		g.op("VPACKSSDW", sums+j+1, sums+j, sums+j)
		g.op("VPADDSW", word, sums+j, sums+j)
	}
	g.op("VPACKUSWB", sums+2, sums, sums)
	g.op("VPXORD.BCST", fmt.Sprintf("%d(DX)", wFlip), sums, sums)
	g.op("VMOVDQU8", sums, "K1", "(R15)")
	g.e("ADDQ R12, R15")
	g.e("DECQ CX")
	g.e("JNZ loop")
	g.e("VZEROUPPER")
	g.e("RET")
	g.label("outside")
	pad()
	g.e("JMP last")
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

// planeTile writes the tile of rows rows of an int8 depthwise convolution of a plane with the given
// stride.
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
