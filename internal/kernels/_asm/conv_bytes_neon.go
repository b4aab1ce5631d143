package main

import (
	"fmt"
	"strings"
)

var _ = register("conv", writeConvBytesNEON)

// writeConvBytesNEON writes the tiles of int8 convolutions for arm64. Dense ones use SDOT for int8
// pixels, or USMMLA and for one pixel SUDOT for uint8 pixels. Depthwise ones use SMLAL.
func writeConvBytesNEON(dir string) {
	f := newFile("bytes")
	var dis strings.Builder
	for _, name := range []string{"SDOT", "SUDOT", "Matrix"} {
		fmt.Fprintf(&dis, "\n// byteTile%s computes 16 output channels of a tile.\n"+
			"func byteTile%s(pixels int, t *byteTile) {\n\tswitch pixels {\n", name, name)
		for mr := 1; mr <= rowsNEON; mr++ {
			if name != "SDOT" && (mr == 1) != (name == "SUDOT") {
				continue
			}
			fmt.Fprintf(&dis, "\tcase %d:\n\t\t%s(t)\n", mr, byteTileNEON(f, name, mr))
		}
		dis.WriteString("\t}\n}\n")
	}
	dis.WriteString("\n// channelTileNEON computes up to four pixels of a tile.\n" +
		"func channelTileNEON(pixels int, t *channelTile) {\n\tswitch pixels {\n")
	for mr := 1; mr <= 4; mr++ {
		fmt.Fprintf(&dis, "\tcase %d:\n\t\t%s(t)\n", mr, lastTileNEON(f, mr))
	}
	dis.WriteString("\t}\n}\n")
	f.write(dir, "conv", dis.String())
}

// dotLane is sdotLane, or the same by SUDOT, where the bytes of m are unsigned.
func (g *fn) dotLane(name string, m, lane, n, d int) {
	if name == "SDOT" {
		g.sdotLane(m, lane, n, d)
		return
	}
	code := uint32(0x4f00f000) | uint32(lane&1)<<21 | uint32(lane>>1)<<11
	g.word(code|uint32(m)<<16|uint32(n)<<5|uint32(d), "sudot v%d.4s, v%d.16b, v%d.4b[%d]", d, n, m, lane)
}

// boundsNEON loads the bounds and the zero point of a tile into registers.
func (g *fn) boundsNEON(lo, hi, zero, atLo, atHi, atZero int) {
	for _, p := range [][2]int{{lo, atLo}, {hi, atHi}, {zero, atZero}} {
		g.raw("FMOVS %d(R3), F%d", p[1], p[0])
		g.raw("VDUP V%d.S[0], V%d.S4", p[0], p[0])
	}
}

// packBytesNEON sets register a to the low bytes of the elements of four registers.
func (g *fn) packBytesNEON(a, b, c, d int) {
	g.raw("VUZP1 V%d.H8, V%d.H8, V%d.H8", b, a, a)
	g.raw("VUZP1 V%d.H8, V%d.H8, V%d.H8", d, c, c)
	g.raw("VUZP1 V%d.B16, V%d.B16, V%d.B16", c, a, a)
}

// dotLoop multiplies R2 steps of each of R12 taps by dot products.
func (g *fn) dotLoop(mr, unroll, stride int, step func(u, lane int)) {
	const firstA = 24
	g.raw("SUBS $%d, R2", unroll)
	g.raw("BLT rest")
	g.label("loop")
	for r := range mr {
		g.raw("VLD1.P 16(%s), [V%d.B16]", rowRegs[r], firstA+r)
	}
	for u := range unroll {
		step(u, u)
	}
	g.raw("ADD $%d, R5", unroll*stride)
	g.raw("SUBS $%d, R2", unroll)
	g.raw("BGE loop")
	g.label("rest")
	g.raw("ADDS $%d, R2", unroll)
	g.raw("BEQ next")
	g.label("single")
	for r := range mr {
		g.raw("FMOVS (%s), F%d", rowRegs[r], firstA+r)
		g.raw("ADD $4, %s", rowRegs[r])
	}
	step(0, 0)
	g.raw("ADD $%d, R5", stride)
	g.raw("SUBS $1, R2")
	g.raw("BNE single")
	g.label("next")
	g.raw("SUBS $1, R12")
	g.raw("BNE tap")
}

// byteTileNEON writes the tile of mr pixels and 16 of 32 output channels. The sums are in V0 to
// V23, 16 channels of each pixel in V24 to V29, and weights in V30 and V31. Few pixels have several
// sets of sums, to hide the latency of a multiplication.
func byteTileNEON(f *file, product string, mr int) string {
	const (
		nv, firstA, firstB = 4, 24, 30
		stride             = byteCol * 4 // bytes of the weights of a step
		unroll             = 4           // steps
	)
	name := fmt.Sprintf("byteTile%dx16%s", mr, product)
	g := f.function(name, neon, []arg{{"t", "*byteTile"}}, nil)
	sets := []int{1: 4, 2: 2, 3: 2, 4: 1, 5: 1, 6: 1}[mr]
	acc := func(s, r, j int) int { return s*nv*mr + r*nv + j }
	matrix := matrixNEON{g, "usmmla", mr}
	if product == "Matrix" {
		sets, acc = 1, func(_, r, j int) int { return matrix.row(r, j) }
	}
	half := (mr + 1) / 2
	g.raw("MOVD t+0(FP), R3")
	for _, p := range []struct {
		off int
		reg string
	}{{bB, "R5"}, {bPixel, "R8"}, {bOffsets, "R11"}, {bTaps, "R12"}, {bA, "R13"}, {bBias, "R6"}, {bSecond, "R9"},
		{bC, "R15"}, {bLdC, "R1"}, {bSecondC, "R4"}} {
		g.raw("MOVD %d(R3), %s", p.off, p.reg)
	}
	if product == "Matrix" { // whose sums are in another order until the end
		g.zeroNEON(0, matrix.pairs()*matrixPairs)
	} else {
		g.raw("VLD1 (R6), [V0.S4, V1.S4, V2.S4, V3.S4]")
		for r := 1; r < mr; r++ {
			for j := range nv {
				g.move(j, acc(0, r, j))
			}
		}
		if sets > 1 {
			g.zeroNEON(nv*mr, (sets-1)*nv*mr)
		}
	}
	step := func(u, lane int) {
		for j := 0; j < nv; j += 2 {
			g.raw("FLDPQ %d(R5), (F%d, F%d)", u*stride+j*16, firstB, firstB+1)
			for r := range mr {
				for i := range 2 {
					g.dotLane(product, firstA+r, lane, firstB+i, acc(u%sets, r, j+i))
				}
			}
		}
	}
	g.label("tap")
	g.raw("MOVD.P 8(R11), R6")
	g.raw("ADD R13, R6, %s", rowRegs[0])
	for r := 1; r < mr; r++ {
		if r == half {
			g.raw("ADD R9, %s, %s", rowRegs[0], rowRegs[r])
		} else {
			g.raw("ADD R8, %s, %s", rowRegs[r-1], rowRegs[r])
		}
	}
	g.raw("MOVD %d(R3), R2", bK)
	if product == "Matrix" {
		matrix.loop(stride)
		g.raw("SUBS $1, R12")
		g.raw("BNE tap")
		matrix.rows()
		g.raw("MOVD %d(R3), R6", bBias)
		g.raw("VLD1 (R6), [V24.S4, V25.S4, V26.S4, V27.S4]")
		for r := range mr {
			for j := range nv {
				g.raw("VADD V%d.S4, V%d.S4, V%d.S4", firstA+j, acc(0, r, j), acc(0, r, j))
			}
		}
	} else {
		g.dotLoop(mr, unroll, stride, step)
		for s := 1; s < sets; s++ {
			for i := range nv * mr {
				g.raw("VADD V%d.S4, V%d.S4, V%d.S4", acc(s, 0, 0)+i, i, i)
			}
		}
	}
	g.raw("ADD R15, R4")
	each := func(store func(r int, reg string)) {
		for r := range mr {
			reg, last := "R15", r == half-1 || r == mr-1
			if r >= half {
				reg = "R4"
			}
			store(r, reg)
			if !last {
				g.raw("ADD R1, %s", reg)
			}
		}
	}
	g.raw("MOVD %d(R3), R6", bSums)
	g.raw("CBZ R6, requantize")
	each(func(r int, reg string) {
		for j := range nv {
			g.raw("FMOVQ F%d, %d(%s)", acc(0, r, j), 16*j, reg)
		}
	})
	g.raw("RET")
	g.label("requantize")
	const lo, hi, zero = 28, 29, 31
	g.boundsNEON(lo, hi, zero, bLo, bHi, bZero)
	g.raw("MOVD %d(R3), R6", bScale)
	g.raw("VLD1 (R6), [V24.S4, V25.S4, V26.S4, V27.S4]")
	for r := range mr {
		for j := range nv {
			g.requantize(acc(0, r, j), firstA+j, lo, hi, zero)
		}
	}
	each(func(r int, reg string) {
		g.packBytesNEON(acc(0, r, 0), acc(0, r, 1), acc(0, r, 2), acc(0, r, 3))
		g.raw("FMOVQ F%d, (%s)", acc(0, r, 0), reg)
	})
	g.raw("RET")
	return name
}

// lastTileNEON writes the tile of mr pixels of an int8 depthwise convolution with the channels
// innermost, in blocks of 16 channels. The bytes of a pixel are permuted by an index.
func lastTileNEON(f *file, mr int) string {
	name := fmt.Sprintf("channelTile%dNEON", mr)
	g := f.function(name, neon, []arg{{"t", "*channelTile"}}, nil)
	const nv, x, low, high, index, weights, scale, lo, hi, zero = 4, 16, 17, 18, 19, 20, 24, 28, 29, 31
	acc := func(r, j int) int { return r*nv + j }
	g.raw("MOVD t+0(FP), R3")
	for _, p := range []struct {
		off int
		reg string
	}{{chIndex, "R6"}, {chB, "R5"}, {chPixel, "R8"}, {chA, "R13"}, {chC, "R15"}, {chBlocks, "R2"}, {chBias, "R9"},
		{chScale, "R10"}, {chLdC, "R1"}} {
		g.raw("MOVD %d(R3), %s", p.off, p.reg)
	}
	g.raw("FMOVQ (R6), F%d", index)
	g.boundsNEON(lo, hi, zero, chLo, chHi, chZero)
	g.label("block")
	g.raw("VLD1.P 64(R9), [V0.S4, V1.S4, V2.S4, V3.S4]")
	for i := nv; i < nv*mr; i++ {
		g.move(i%nv, i)
	}
	g.raw("MOVD %d(R3), R11", chOffsets)
	g.raw("MOVD %d(R3), R12", chTaps)
	g.label("tap")
	g.raw("MOVD.P 8(R11), R6")
	g.raw("ADD R13, R6, %s", rowRegs[0])
	g.pointRows(mr)
	g.raw("VLD1.P 64(R5), [V20.S4, V21.S4, V22.S4, V23.S4]")
	for i := range 2 { // the low halves
		w := weights + 2*i
		g.raw("VUZP1 V%d.H8, V%d.H8, V%d.H8", w+1, w, w)
	}
	for r := range mr {
		g.raw("FMOVQ (%s), F%d", rowRegs[r], x)
		g.raw("VTBL V%d.B16, [V%d.B16], V%d.B16", index, x, x)
		g.word(0x2f08a400|x<<5|low, "ushll v%d.8h, v%d.8b, #0", low, x)
		g.word(0x6f08a400|x<<5|high, "ushll2 v%d.8h, v%d.16b, #0", high, x)
		for i, n := range []int{low, high} {
			w := weights + 2*i
			g.word(0x0e608000|uint32(w)<<16|uint32(n)<<5|uint32(acc(r, 2*i)), "smlal v%d.4s, v%d.4h, v%d.4h",
				acc(r, 2*i), n, w)
			g.word(0x4e608000|uint32(w)<<16|uint32(n)<<5|uint32(acc(r, 2*i+1)), "smlal2 v%d.4s, v%d.8h, v%d.8h",
				acc(r, 2*i+1), n, w)
		}
	}
	g.raw("SUBS $1, R12")
	g.raw("BNE tap")
	g.raw("VLD1.P 64(R10), [V24.S4, V25.S4, V26.S4, V27.S4]")
	g.raw("MOVD R15, R7")
	for r := range mr {
		for j := range nv {
			g.requantize(acc(r, j), scale+j, lo, hi, zero)
		}
		g.packBytesNEON(acc(r, 0), acc(r, 1), acc(r, 2), acc(r, 3))
		g.raw("FMOVQ F%d, (R7)", acc(r, 0))
		g.raw("ADD R1, R7")
	}
	g.raw("ADD $16, R13")
	g.raw("ADD $16, R15")
	g.raw("SUBS $1, R2")
	g.raw("BNE block")
	g.raw("RET")
	return name
}
