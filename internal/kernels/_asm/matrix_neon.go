package main

import "fmt"

// matrixNEON describes the tile of mr rows of A and 16 columns of B by SMMLA or USMMLA, which
// multiply two rows by two columns over eight k. Sum (p, c) of row pair p and column pair c has
// both columns of the first row, then those of the second. The sums are in V0 to V23, pairs of rows
// in V24 to V26, columns in V27 to V29.
type matrixNEON struct {
	*fn
	product string
	mr      int
}

const (
	matrixPairs = 8 // of columns
	matrixA     = 24
	matrixB     = 27
)

func (g matrixNEON) pairs() int { return (g.mr + 1) / 2 }

func (g matrixNEON) acc(p, c int) int { return p*matrixPairs + c }

// multiply adds a step of eight k to the sums, or of four if half is set. B is at R5; its rows of
// four k have the given stride in bytes.
func (g matrixNEON) multiply(half bool, stride int) {
	for r := range g.mr {
		a := matrixA + r/2
		switch {
		case half && r%2 == 0:
			g.raw("FMOVS (%s), F%d", rowRegs[r], a)
			g.raw("ADD $4, %s", rowRegs[r])
		case half:
			g.raw("FMOVS (%s), F%d", rowRegs[r], matrixB)
			g.raw("ADD $4, %s", rowRegs[r])
			g.raw("VMOV V%d.D[0], V%d.D[1]", matrixB, a)
		case r%2 == 0:
			g.raw("FMOVD.P 8(%s), F%d", rowRegs[r], a)
		default:
			g.raw("VLD1.P 8(%s), V%d.D[1]", rowRegs[r], a)
		}
	}
	const b0, b1, first = matrixB, matrixB + 1, matrixB + 2
	for c := 0; c < matrixPairs; c += 2 {
		g.raw("FMOVQ %d(R5), F%d", c*8, b0)
		if half {
			g.zeroNEON(b1, 1)
		} else {
			g.raw("FMOVQ %d(R5), F%d", stride+c*8, b1)
		}
		g.raw("VZIP1 V%d.S4, V%d.S4, V%d.S4", b1, b0, first)
		g.raw("VZIP2 V%d.S4, V%d.S4, V%d.S4", b1, b0, b1)
		for i, b := range []int{first, b1} {
			for p := range g.pairs() {
				g.product2(matrixA+p, b, g.acc(p, c+i))
			}
		}
	}
	n := 2 * stride
	if half {
		n = stride
	}
	g.raw("ADD $%d, R5", n)
}

// loop multiplies R2 steps of four k, at least one.
func (g matrixNEON) loop(stride int) {
	g.raw("SUBS $2, R2")
	g.raw("BLT rest")
	g.label("loop")
	g.multiply(false, stride)
	g.raw("SUBS $2, R2")
	g.raw("BGE loop")
	g.label("rest")
	g.raw("ADDS $2, R2")
	g.raw("BEQ next")
	g.multiply(true, stride)
	g.label("next")
}

func (g matrixNEON) product2(n, m, d int) {
	code := map[string]uint32{"smmla": 0x4e80a400, "usmmla": 0x4e80ac00}[g.product]
	g.word(code|uint32(m)<<16|uint32(n)<<5|uint32(d), "%s v%d.4s, v%d.16b, v%d.16b", g.product, d, n, m)
}

// rows separates the sums of the two rows of each pair: vector j of row r is then register row(r,
// j).
func (g matrixNEON) rows() {
	const t = matrixB
	for p := range g.pairs() {
		for c := 0; c < matrixPairs; c += 2 {
			a, b := g.acc(p, c), g.acc(p, c+1)
			g.raw("VZIP1 V%d.D2, V%d.D2, V%d.D2", b, a, t)
			g.raw("VZIP2 V%d.D2, V%d.D2, V%d.D2", b, a, b)
			g.move(t, a)
		}
	}
}

func (g matrixNEON) row(r, j int) int { return g.acc(r/2, 2*j+r%2) }

// matrixTile writes the tile of package quant of mr rows and 16 columns by SMMLA.
func matrixTile(f *file, mr int) string {
	const nv = 4
	name := fmt.Sprintf("tile%dx16S8Matrix", mr)
	g := matrixNEON{f.function(name, neon, []arg{{"t", "*tileI32"}}, nil), "smmla", mr}
	g.raw("MOVD t+0(FP), R3")
	for _, p := range []struct {
		off int
		reg string
	}{{tA, "R0"}, {tB, "R5"}, {tLdA, "R8"}, {tC, "R15"}, {tLdC, "R1"}, {tK, "R2"}} {
		g.raw("MOVD %d(R3), %s", p.off, p.reg)
	}
	g.pointRows(mr)
	g.zeroNEON(0, g.pairs()*matrixPairs)
	g.loop(32 * 4)
	g.rows()
	g.raw("MOVD %d(R3), R6", tBias)
	g.raw("CBZ R6, rows")
	g.raw("VLD1 (R6), [V24.S4, V25.S4, V26.S4, V27.S4]")
	for r := range mr {
		for j := range nv {
			g.raw("VADD V%d.S4, V%d.S4, V%d.S4", matrixA+j, g.row(r, j), g.row(r, j))
		}
	}
	g.label("rows")
	g.raw("MOVD %d(R3), R9", tRow)
	g.raw("MOVD %d(R3), R10", tAcc)
	for r := range mr {
		g.raw("CBZ R9, sums%d", r)
		g.raw("MOVW %d(R9), R7", r*4)
		g.raw("VDUP R7, V%d.S4", matrixA)
		for j := range nv {
			g.raw("VADD V%d.S4, V%d.S4, V%d.S4", matrixA, g.row(r, j), g.row(r, j))
		}
		g.label(fmt.Sprintf("sums%d", r))
		g.raw("CBZ R10, store%d", r)
		g.raw("VLD1 (R15), [V24.S4, V25.S4, V26.S4, V27.S4]")
		for j := range nv {
			g.raw("VADD V%d.S4, V%d.S4, V%d.S4", matrixA+j, g.row(r, j), g.row(r, j))
		}
		g.label(fmt.Sprintf("store%d", r))
		for j := range nv {
			g.raw("FMOVQ F%d, %d(R15)", g.row(r, j), 16*j)
		}
		g.raw("ADD R1, R15")
	}
	g.raw("RET")
	return name
}
