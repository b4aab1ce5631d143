package main

import (
	"fmt"
	"strings"
)

var _ = register("quant", writeDot)

// writeDot writes the tiles of package quant for arm64. They are not translations, since SDOT
// multiplies int8 only and takes four elements of A from a lane: one load of A serves four steps of
// K.
func writeDot(dir string) {
	f := newFile("tile")
	var dis strings.Builder
	dis.WriteString("\n// tileDOT computes a tile with the given number of rows.\n" +
		"func tileDOT(rows int, t *tileI32) {\n\tswitch rows {\n")
	for mr := 1; mr <= rowsNEON; mr++ {
		fmt.Fprintf(&dis, "\tcase %d:\n\t\t%s(t)\n", mr, dotTile(f, mr))
	}
	dis.WriteString("\t}\n}\n\n// tileMatrix computes a tile with the given number of rows, at least two.\n" +
		"func tileMatrix(rows int, t *tileI32) {\n\tswitch rows {\n")
	for mr := 2; mr <= rowsNEON; mr++ {
		fmt.Fprintf(&dis, "\tcase %d:\n\t\t%s(t)\n", mr, matrixTile(f, mr))
	}
	dis.WriteString("\t}\n}\n")
	f.write(dir, "quant", dis.String())
}

// dotTile writes the tile of mr rows and 16 columns. Panels of B are 32 columns wide. The sums are
// in V0 to V23, the rows of A in V24 to V29 and columns of B in V30 and V31. Few rows have several
// sets of sums, to hide the latency of SDOT.
func dotTile(f *file, mr int) string {
	const (
		nv, firstA, firstB = 4, 24, 30
		stride             = 32 * 4 // bytes of B in a step
	)
	name := fmt.Sprintf("tile%dx16S8DOT", mr)
	g := f.function(name, neon, []arg{{"t", "*tileI32"}}, nil)
	sets := []int{1: 4, 2: 2, 3: 2, 4: 1, 5: 1, 6: 1}[mr]
	acc := func(s, r, j int) int { return s*nv*mr + r*nv + j }
	g.raw("MOVD t+0(FP), R3")
	for _, p := range []struct {
		off int
		reg string
	}{{tA, "R0"}, {tB, "R5"}, {tLdA, "R8"}, {tC, "R15"}, {tLdC, "R1"}, {tK, "R2"}, {tAcc, "R6"}} {
		g.raw("MOVD %d(R3), %s", p.off, p.reg)
	}
	g.pointRows(mr)
	for i := range sets * nv * mr {
		g.raw("VEOR V%d.B16, V%d.B16, V%d.B16", i, i, i)
	}
	g.raw("CBZ R6, start")
	g.raw("MOVD R15, R9")
	for r := range mr {
		g.raw("VLD1 (R9), [V%d.S4, V%d.S4, V%d.S4, V%d.S4]", acc(0, r, 0), acc(0, r, 1), acc(0, r, 2), acc(0, r, 3))
		g.raw("ADD R1, R9")
	}
	g.label("start")
	g.raw("SUBS $%d, R2", unrollK)
	g.raw("BLT rest")
	step := func(u, lane int) {
		for j := 0; j < nv; j += 2 {
			g.raw("FLDPQ %d(R5), (F%d, F%d)", u*stride+j*16, firstB, firstB+1)
			for r := range mr {
				for i := range 2 {
					g.sdotLane(firstA+r, lane, firstB+i, acc(u%sets, r, j+i))
				}
			}
		}
	}
	g.label("loop")
	for r := range mr {
		g.raw("VLD1.P 16(%s), [V%d.B16]", rowRegs[r], firstA+r)
	}
	for u := range unrollK {
		step(u, u)
	}
	g.raw("ADD $%d, R5", unrollK*stride)
	g.raw("SUBS $%d, R2", unrollK)
	g.raw("BGE loop")
	g.label("rest")
	g.raw("ADDS $%d, R2", unrollK)
	g.raw("BEQ done")
	g.label("single")
	for r := range mr {
		g.raw("FMOVS (%s), F%d", rowRegs[r], firstA+r)
		g.raw("ADD $4, %s", rowRegs[r])
	}
	step(0, 0)
	g.raw("ADD $%d, R5", stride)
	g.raw("SUBS $1, R2")
	g.raw("BNE single")
	g.label("done")
	for s := 1; s < sets; s++ {
		for i := range nv * mr {
			g.raw("VADD V%d.S4, V%d.S4, V%d.S4", acc(s, 0, 0)+i, i, i)
		}
	}
	g.raw("MOVD %d(R3), R6", tBias)
	g.raw("CBZ R6, rows")
	g.raw("VLD1 (R6), [V24.S4, V25.S4, V26.S4, V27.S4]")
	for i := range nv * mr {
		g.raw("VADD V%d.S4, V%d.S4, V%d.S4", firstA+i%nv, i, i)
	}
	g.label("rows")
	g.raw("MOVD %d(R3), R6", tRow)
	g.raw("CBZ R6, store")
	for r := range mr {
		g.raw("MOVW %d(R6), R7", r*4)
		g.raw("VDUP R7, V%d.S4", firstA)
		for j := range nv {
			g.raw("VADD V%d.S4, V%d.S4, V%d.S4", firstA, acc(0, r, j), acc(0, r, j))
		}
	}
	g.label("store")
	for r := range mr {
		g.raw("VST1 [V%d.S4, V%d.S4, V%d.S4, V%d.S4], (R15)", acc(0, r, 0), acc(0, r, 1), acc(0, r, 2), acc(0, r, 3))
		g.raw("ADD R1, R15")
	}
	g.raw("RET")
	return name
}

// sdotLane adds to each int32 element of d the dot product of four int8 of n and the four int8 in
// the given lane of m.
func (g *fn) sdotLane(m, lane, n, d int) {
	code := uint32(0x4f80e000) | uint32(lane&1)<<21 | uint32(lane>>1)<<11
	g.word(code|uint32(m)<<16|uint32(n)<<5|uint32(d), "sdot v%d.4s, v%d.16b, v%d.4b[%d]", d, n, m, lane)
}
