package main

import (
	"fmt"
	"strings"
)

// bfloatMatrix writes the GEMM of some bfloat16 rows and a panel of 32 columns by BFMMLA, which
// multiplies two rows by two columns over four k. The 16 sums are those of a pair of rows and a
// pair of columns: both columns of the first row, then those of the second. A is in V16 to V23, B
// in V24 to V31.
func bfloatMatrix(f *file, rows int) string {
	const (
		sums, firstA, firstB = 16, 16, 24
		stepB                = 32 * 4 * 2 // bytes of four k of a panel
		chunkB               = 8 * stepB
		unroll               = 4 // steps of four k
		t                    = firstB + 7
	)
	name := fmt.Sprintf("dots%dBF16", rows)
	g := f.function(name, neon, []arg{{"t", "*dotsBF16"}}, nil)
	pairs := (rows + 1) / 2
	columns := sums / pairs // pairs of columns of a group
	acc := func(p, c int) int { return p*columns + c }
	vector := func(r, v int) int { return acc(r/2, 2*v+r%2) } // of row r, once the rows are separate
	each := func(at, step int, instruction func(v int, mem string)) {
		g.raw("MOVD %d(R3), R8", at)
		g.raw("ADD R10, R8")
		if rows > 1 {
			g.raw("MOVD %d(R3), R9", step)
		}
		for r := range rows {
			for v := range columns / 2 {
				instruction(vector(r, v), fmt.Sprintf("%d(R8)", 16*v))
			}
			if r+1 < rows {
				g.raw("ADD R9, R8")
			}
		}
	}
	load := func(v int, mem string) { g.raw("FMOVQ %s, F%d", mem, v) }
	g.raw("MOVD t+0(FP), R3")
	g.raw("MOVD %d(R3), R11", bdB)
	g.raw("MOVD $0, R10") // bytes of the columns before the group
	g.label("group")
	g.raw("MOVD %d(R3), R0", bdA)
	g.raw("MOVD R11, R5")
	g.raw("MOVD %d(R3), R2", bdChunks)
	g.zeroNEON(0, sums)
	g.label("chunk")
	for i := 0; i < 8; i += unroll {
		for s := i; s < i+unroll; s += 2 {
			for p := range pairs {
				g.raw("FLDPQ %d(R0), (F%d, F%d)", p*2*bfRow+s*16, firstA+2*p, firstA+2*p+1)
			}
			for u := range 2 {
				for c := 0; c < columns; c += 2 {
					b := firstB + (u*columns+c)%8
					g.raw("FLDPQ %d(R5), (F%d, F%d)", (s-i+u)*stepB+c*16, b, b+1)
					for p := range pairs {
						for k := range 2 {
							a, d := firstA+2*p+u, acc(p, c+k)
							g.word(0x6e40ec00|uint32(b+k)<<16|uint32(a)<<5|uint32(d),
								"bfmmla v%d.4s, v%d.8h, v%d.8h", d, a, b+k)
						}
					}
				}
			}
		}
		g.raw("ADD $%d, R5", unroll*stepB)
	}
	g.raw("ADD $%d, R0", 16*bfRow)
	g.raw("SUBS $1, R2")
	g.raw("BNE chunk")
	for p := range pairs { // separate the rows
		for c := 0; c < columns; c += 2 {
			a, b := acc(p, c), acc(p, c+1)
			g.raw("VZIP1 V%d.D2, V%d.D2, V%d.D2", b, a, t)
			g.raw("VZIP2 V%d.D2, V%d.D2, V%d.D2", b, a, b)
			g.move(t, a)
		}
	}
	g.raw("MOVWU %d(R3), R6", bdAlpha)
	g.raw("CBZ R6, store")
	g.raw("VDUP R6, V%d.S4", firstA)
	for r := range rows {
		for v := range columns / 2 {
			g.three("VMULPS", firstA, vector(r, v), vector(r, v))
		}
	}
	g.raw("MOVD %d(R3), R6", bdBias)
	g.raw("CBZ R6, more")
	g.raw("ADD R10, R6")
	for v := range columns / 2 {
		load(firstA, fmt.Sprintf("%d(R6)", 16*v))
		for r := range rows {
			g.three("VADDPS", firstA, vector(r, v), vector(r, v))
		}
	}
	g.label("more")
	g.raw("MOVD %d(R3), R6", bdMore)
	g.raw("CBZ R6, store")
	each(bdMore, bdMoreStep, func(v int, mem string) {
		load(firstA, mem)
		g.three("VADDPS", firstA, v, v)
	})
	g.label("store")
	each(bdOut, bdStep, func(v int, mem string) { g.raw("FMOVQ F%d, %s", v, mem) })
	if pairs > 1 {
		g.raw("ADD $%d, R11", columns*16)
		g.raw("ADD $%d, R10", columns*8)
		g.raw("CMP $%d, R10", tileStride)
		g.raw("BNE group")
	}
	g.raw("RET")
	return name
}

// bfloatRowNEON writes the conversion of a row to bfloat16 numbers, four after four of another row.
// 32 numbers are followed by a gap.
func bfloatRowNEON(f *file) {
	g := f.function("rowBF16NEON", neon, []arg{{"dst", "*uint16"}, {"x", "*float32"}, {"n", "int"}}, nil)
	g.arg("dst", "DI")
	g.arg("x", "SI")
	g.arg("n", "CX")
	g.label("chunk")
	for i := range 8 {
		g.op("VMOVUPS", fmt.Sprintf("%d(SI)", 16*i), i)
		g.convertBF16NEON(i, i, false)
		g.raw("FMOVD F%d, %d(%s)", i, 16*i, general("DI"))
	}
	g.e("ADDQ $128, SI")
	g.e("ADDQ $%d, DI", 16*bfRow)
	g.e("DECQ CX")
	g.e("JNZ chunk")
	g.e("RET")
}

// convertBF16NEON rounds the numbers of register x to the low or high half of register to: to
// nearest, ties to even.
func (g *fn) convertBF16NEON(x, to int, high bool) {
	if high {
		g.word(0x4ea16800|uint32(x)<<5|uint32(to), "bfcvtn2 v%d.8h, v%d.4s", to, x)
		return
	}
	g.word(0x0ea16800|uint32(x)<<5|uint32(to), "bfcvtn v%d.4h, v%d.4s", to, x)
}

// bfloatFours writes the conversion of four rows of a panel to columns of four bfloat16 numbers.
func bfloatFours(f *file) {
	g := f.function("foursBF16NEON", neon, []arg{{"dst", "*uint16"}, {"x", "*float32"}, {"n", "int"}}, nil)
	g.arg("dst", "DI")
	g.arg("x", "SI")
	g.arg("n", "CX")
	g.label("rows")
	for v := range 8 {
		for r := range 4 {
			g.op("VMOVUPS", fmt.Sprintf("%d(SI)", r*tileStride+16*v), r)
		}
		for r := range 2 { // rows r and r+2
			g.convertBF16NEON(r, 4+r, false)
			g.convertBF16NEON(r+2, 4+r, true)
		}
		g.raw("VZIP1 V5.H8, V4.H8, V0.H8")
		g.raw("VZIP2 V5.H8, V4.H8, V1.H8")
		g.raw("VZIP1 V1.S4, V0.S4, V2.S4")
		g.raw("VZIP2 V1.S4, V0.S4, V3.S4")
		g.op("VMOVUPS", 2, fmt.Sprintf("%d(DI)", 32*v))
		g.op("VMOVUPS", 3, fmt.Sprintf("%d(DI)", 32*v+16))
	}
	g.e("ADDQ $%d, SI", 4*tileStride)
	g.e("ADDQ $%d, DI", 2*tileStride)
	g.e("DECQ CX")
	g.e("JNZ rows")
	g.e("RET")
}

var _ = register("gemm", writeBFloat16NEON)

func writeBFloat16NEON(dir string) {
	f := newFile("bfloat16")
	bfloatRowNEON(f)
	bfloatFours(f)
	dispatch := dispatchDots(f, bfloatMatrix)
	f.write(dir, "gemm", dispatch)
}

// dispatchDots writes the kernels for each number of rows and returns the function that calls them.
func dispatchDots(f *file, kernel func(f *file, rows int) string) string {
	var dis strings.Builder
	fmt.Fprintf(&dis, "\nfunc dotBF16(rows int, t *dotsBF16) {\n\tswitch rows {\n")
	for rows := 1; rows <= pairRows; rows *= 2 {
		fmt.Fprintf(&dis, "\tcase %d:\n\t\t%s(t)\n", rows, kernel(f, rows))
	}
	dis.WriteString("\t}\n}\n")
	return dis.String()
}
