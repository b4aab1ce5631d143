package main

import "fmt"

// nbitsRowsNEON is the number of rows of the largest tile.
const nbitsRowsNEON = 5

var _ = register("quant", writeNBitsNEON)

// writeNBitsNEON writes the kernels of block-quantized weights for arm64. They compute half a
// panel, 16 columns, and add to C. SDOT multiplies int8; nibbles remain unsigned.
func writeNBitsNEON(dir string) {
	f := newFile("nbits")
	dis := ""
	for _, bits := range []int{4, 8} {
		dis += fmt.Sprintf("\n// tile%dBits computes 16 columns of a tile with the given number of rows.\n"+
			"func tile%dBits(rows int, t *nbitsArgs) {\n\tswitch rows {\n", bits, bits)
		for mr := 1; mr <= nbitsRowsNEON; mr++ {
			dis += fmt.Sprintf("\tcase %d:\n\t\t%s(t)\n", mr, nbitsTileNEON(f, bits, mr))
		}
		dis += "\t}\n}\n"
		nbitsVectorNEON(f, bits)
		dequantizeNEON(f, bits)
	}
	quantizeRowNEON(f)
	digitBytesNEON(f)
	f.write(dir, "quant", dis)
}

// nbitsArguments loads the fields of nbitsArgs. R3 holds their address.
func (g *fn) nbitsArguments() {
	g.raw("MOVD t+0(FP), R3")
	for _, p := range []struct {
		off int
		reg string
	}{{nA, "R0"}, {nAScale, "R10"}, {nASum, "R11"}, {nLdA, "R8"}, {nLdS, "R9"}, {nB, "R5"}, {nScale, "R1"},
		{nShift, "R12"}, {nBlocks, "R13"}, {nC, "R15"}, {nLdC, "R4"}} {
		g.raw("MOVD %d(R3), %s", p.off, p.reg)
	}
}

func (g *fn) zeroNEON(first, n int) {
	for i := range n {
		g.raw("VEOR V%d.B16, V%d.B16, V%d.B16", first+i, first+i, first+i)
	}
}

// eachRow loads the element of each row at base, with stride R9, into lane 0 of successive
// registers.
func (g *fn) eachRow(base string, mr, first int) {
	g.raw("MOVD %s, R6", base)
	for r := range mr {
		g.raw("FMOVS (R6), F%d", first+r)
		g.raw("ADD R9, R6")
	}
}

// nbitsTileNEON writes the GEMM of mr int8 rows and 16 columns: SDOT within a block, float32 across
// blocks. An iteration takes 16 k. Up to two rows keep the float32 sums in registers and have
// several sets of integer sums to hide latency. More rows keep the float32 sums in C, so that more
// rows share the unpacked weights.
func nbitsTileNEON(f *file, bits, mr int) string {
	const (
		lo, hi, mask, scaled, sum = 26, 27, 28, 29, 30
		column                    = 128 // bytes of a word of all columns of a panel
	)
	name := fmt.Sprintf("nbits%d%dx16SDOT", bits, mr)
	g := f.function(name, neon, []arg{{"t", "*nbitsArgs"}}, nil)
	sets, kept := 1, mr <= 2
	firstIn, firstA := 0, lo-mr
	if kept {
		sets, firstIn = 4/mr, 4*mr
	}
	fl := func(r, j int) int { return 4*r + j }
	in := func(s, r, j int) int { return firstIn + (s*mr+r)*4 + j }
	g.nbitsArguments()
	g.pointRows(mr)
	if kept {
		g.zeroNEON(0, 4*mr)
	}
	if bits == 4 {
		g.raw("VMOVI $15, V%d.B16", mask)
	}
	g.label("block")
	g.zeroNEON(firstIn, 4*mr*sets)
	if bits == 4 { // begin with the zero point 8 times the sum of A
		g.eachRow("R11", mr, firstA)
		for r := range mr {
			for j := range 4 {
				g.raw("VDUP V%d.S[0], V%d.S4", firstA+r, in(0, r, j))
			}
		}
	}
	g.raw("MOVD %d(R3), R2", nSteps)
	g.raw("LSR $%d, R2", map[int]int{4: 1, 8: 2}[bits])
	g.label("step")
	for r := range mr {
		g.raw("VLD1.P 16(%s), [V%d.B16]", rowRegs[r], firstA+r)
	}
	for u := range bits / 2 {
		for j := range 4 {
			g.raw("FMOVQ %d(R5), F%d", u*column+j*16, lo)
			if bits == 8 {
				for r := range mr {
					g.sdotLane(firstA+r, u, lo, in(u%sets, r, j))
				}
				continue
			}
			g.raw("VUSHR $4, V%d.B16, V%d.B16", lo, hi)
			g.raw("VAND V%d.B16, V%d.B16, V%d.B16", mask, lo, lo)
			for half, v := range []int{lo, hi} {
				for r := range mr {
					g.sdotLane(firstA+r, 2*u+half, v, in((2*u+half)%sets, r, j))
				}
			}
		}
	}
	g.raw("ADD $%d, R5", bits/2*column)
	g.raw("SUBS $1, R2")
	g.raw("BNE step")
	for s := 1; s < sets; s++ {
		for i := range 4 * mr {
			g.raw("VADD V%d.S4, V%d.S4, V%d.S4", in(s, 0, 0)+i, in(0, 0, 0)+i, in(0, 0, 0)+i)
		}
	}
	g.eachRow("R10", mr, firstA)
	// add adds n times the scale of A's block to the sum.
	add := func(r, j, n int) {
		if kept {
			g.fmlaLane(firstA+r, n, fl(r, j))
			return
		}
		g.raw("FMOVQ %d(R7), F%d", j*16, sum)
		g.fmlaLane(firstA+r, n, sum)
		g.raw("FMOVQ F%d, %d(R7)", sum, j*16)
	}
	eachC := func(visit func(r int)) {
		if !kept {
			g.raw("MOVD R15, R7")
		}
		for r := range mr {
			visit(r)
			if !kept {
				g.raw("ADD R4, R7")
			}
		}
	}
	for j := range 4 {
		g.raw("FMOVQ %d(R1), F%d", j*16, scaled)
		for r := range mr {
			g.two("VCVTDQ2PS", in(0, r, j), in(0, r, j))
			g.three("VMULPS", scaled, in(0, r, j), in(0, r, j))
		}
	}
	eachC(func(r int) {
		for j := range 4 {
			add(r, j, in(0, r, j))
		}
	})
	g.raw("CBZ R12, plain")
	// For zero points other than the standard, add (standard-zero)·scale times the sum of the
	// block's A. The sums of A are stored as -standard·Σ.
	g.constant(g.c(-1/float64(int(1)<<(bits-1))), hi)
	g.raw("MOVD R11, R6")
	eachC(func(r int) {
		g.raw("MOVW (R6), R16")
		g.raw("ADD R9, R6")
		g.raw("VDUP R16, V%d.S4", lo)
		g.two("VCVTDQ2PS", lo, lo)
		g.three("VMULPS", hi, lo, lo)
		for j := range 4 {
			g.raw("FMOVQ %d(R12), F%d", j*16, scaled)
			g.three("VMULPS", lo, scaled, scaled)
			add(r, j, scaled)
		}
	})
	g.raw("ADD $128, R12")
	g.label("plain")
	g.raw("ADD $128, R1")
	g.raw("ADD $4, R10")
	g.raw("ADD $4, R11")
	g.raw("SUBS $1, R13")
	g.raw("BNE block")
	if kept {
		for r := range mr {
			for j := range 4 {
				g.raw("FMOVQ %d(R15), F%d", j*16, sum)
				g.three("VADDPS", sum, fl(r, j), fl(r, j))
				g.raw("FMOVQ F%d, %d(R15)", fl(r, j), j*16)
			}
			g.raw("ADD R4, R15")
		}
	}
	g.raw("RET")
	return name
}

// nibbleTables sets three registers: two to the table indices that move byte 1 or 2 of each word to
// its top byte and clear the others, one to the mask of the top byte. It sets flip to the bytes
// that make nibbles signed, and high to the mask of the high nibbles.
func (g *fn) nibbleTables(first, flip, high int) {
	const none = 0xffffff // out of the table: a zero
	for i := range 2 {
		for half := range 2 {
			at := uint64(8*half + i + 1)
			g.raw("MOVD $0x%016x, R6", none|at<<24|none<<32|(at+4)<<56)
			g.raw("VMOV R6, V%d.D[%d]", first+i, half)
		}
	}
	g.constant(g.ci(0xff<<24), first+2)
	g.raw("VMOVI $0x88, V%d.B16", flip)
	g.raw("VMOVI $0xf0, V%d.B16", high)
}

// nibblesNEON sets the high nibbles of the bytes of d to the low (h = 0) or high ones of v, and the
// low nibbles to zero.
func (g *fn) nibblesNEON(v, h, high, d int) {
	if h == 0 {
		g.raw("VSHL $4, V%d.B16, V%d.B16", v, d)
	} else {
		g.raw("VAND V%d.B16, V%d.B16, V%d.B16", high, v, d)
	}
}

// unpackNEON converts integer i of each word of v to float32 in d: a signed byte, or the signed
// high nibble of byte i as a fixed-point number. Nibbles are signed before the conversion, since 8
// times the sum of A cannot be subtracted from a sum with an infinite A.
func (g *fn) unpackNEON(bits, v, i, tables, d int) {
	if bits == 8 {
		g.signedByte(v, i, d)
		return
	}
	switch i { // Neoverse V1 has two units for VTBL, which are those of SCVTF and multiplications, too
	case 0:
		g.raw("VSHL $24, V%d.S4, V%d.S4", v, d)
	case 3:
		g.raw("VAND V%d.B16, V%d.B16, V%d.B16", tables+2, v, d)
	default:
		g.raw("VTBL V%d.B16, [V%d.B16], V%d.B16", tables+i-1, v, d)
	}
	const fraction = 28
	g.word(0x4f00e400|uint32(64-fraction)<<16|uint32(d)<<5|uint32(d), "scvtf v%d.4s, v%d.4s, #%d", d, d, fraction)
}

// nbitsVectorNEON writes the GEMV of one float32 row and 16 columns of integers.
func nbitsVectorNEON(f *file, bits int) {
	const firstIn, a, v, part, tables, temp, high, flip = 4, 20, 22, 23, 24, 28, 29, 30
	const sum = temp
	g := f.function(fmt.Sprintf("nbitsVector%dNEON", bits), neon, []arg{{"t", "*nbitsArgs"}}, nil)
	in := func(s, j int) int { return firstIn + 4*s + j }
	g.nbitsArguments()
	g.zeroNEON(0, 4)
	if bits == 4 {
		g.nibbleTables(tables, flip, high)
	}
	g.label("block")
	g.zeroNEON(firstIn, 16)
	g.raw("MOVD %d(R3), R2", nSteps)
	g.label("step")
	parts := 8 / bits // of a word, with four integers each
	for h := range parts {
		g.raw("FMOVQ %d(R0), F%d", h*16, a+h)
	}
	for j := range 4 {
		g.raw("FMOVQ %d(R5), F%d", j*16, v)
		if bits == 4 {
			g.raw("VEOR V%d.B16, V%d.B16, V%d.B16", flip, v, v)
		}
		for h := range parts {
			from := v
			if bits == 4 {
				from = part
				g.nibblesNEON(v, h, high, part)
			}
			for i := range 4 {
				t := temp + i&1*3
				g.unpackNEON(bits, from, i, tables, t)
				g.word(0x4f801000|uint32(i&1)<<21|uint32(i>>1)<<11|uint32(a+h)<<16|uint32(t)<<5|uint32(in(i, j)),
					"fmla v%d.4s, v%d.4s, v%d.s[%d]", in(i, j), t, a+h, i)
			}
		}
	}
	g.raw("ADD $%d, R0", 16*parts)
	g.raw("ADD $128, R5")
	g.raw("SUBS $1, R2")
	g.raw("BNE step")
	g.raw("FMOVS (R11), F%d", sum)
	for j := range 4 {
		g.three("VADDPS", in(1, j), in(0, j), in(0, j))
		g.three("VADDPS", in(3, j), in(2, j), in(2, j))
		g.three("VADDPS", in(2, j), in(0, j), in(0, j))
		g.raw("FMOVQ %d(R1), F%d", j*16, v)
		g.raw("VFMLA V%d.S4, V%d.S4, V%d.S4", v, in(0, j), j)
	}
	g.raw("CBZ R12, plain")
	for j := range 4 {
		g.raw("FMOVQ %d(R12), F%d", j*16, v)
		g.fmlaLane(sum, v, j)
	}
	g.raw("ADD $128, R12")
	g.label("plain")
	g.raw("ADD $128, R1")
	g.raw("ADD $4, R11")
	g.raw("SUBS $1, R13")
	g.raw("BNE block")
	for j := range 4 {
		g.raw("FMOVQ %d(R15), F%d", j*16, v)
		g.three("VADDPS", v, j, j)
		g.raw("FMOVQ F%d, %d(R15)", j, j*16)
	}
	g.raw("RET")
}

// dequantizeNEON writes a kernel that converts 32 columns of integers to float32, [k][32]:
// value·scale + shift per block. A step converts a word of each column.
func dequantizeNEON(f *file, bits int) {
	const scale, shift, v, sum, part, high, flip, tables, temp = 0, 8, 16, 17, 19, 20, 21, 24, 28
	g := f.function(fmt.Sprintf("dequantize%dNEON", bits), neon,
		[]arg{{"dst", "*float32"}, {"b", "*uint8"}, {"scale", "*float32"}, {"shift", "*float32"}, {"steps", "int"}},
		nil)
	g.arg("dst", "DI")
	g.arg("b", "SI")
	g.arg("scale", "BX")
	g.arg("shift", "R12")
	g.arg("steps", "CX")
	if bits == 4 {
		g.nibbleTables(tables, flip, high)
	}
	for j := range 8 {
		g.op("VMOVUPS", fmt.Sprintf("%d(BX)", 16*j), scale+j)
		g.op("VMOVUPS", fmt.Sprintf("%d(R12)", 16*j), shift+j)
	}
	g.label("step")
	for j := range 8 {
		g.op("VMOVUPS", fmt.Sprintf("%d(SI)", 16*j), v)
		from := v
		if bits == 4 {
			from = part
			g.raw("VEOR V%d.B16, V%d.B16, V%d.B16", flip, v, v)
		}
		for i := range 32 / bits {
			if bits == 4 && i%4 == 0 {
				g.nibblesNEON(v, i/4, high, part)
			}
			t, s := temp+i&1, sum+i&1
			g.unpackNEON(bits, from, i%4, tables, t)
			g.op("VMOVAPS", shift+j, s)
			g.op("VFMADD231PS", t, scale+j, s)
			g.op("VMOVUPS", s, fmt.Sprintf("%d(DI)", i*128+16*j))
		}
	}
	g.e("ADDQ $128, SI")
	g.e("ADDQ $%d, DI", 4096/bits)
	g.e("DECQ CX")
	g.e("JNZ step")
	g.e("RET")
}

// quantizeRowNEON writes a kernel that quantizes a block of a row to int8: round(x·factor).
func quantizeRowNEON(f *file) {
	g := f.function("quantizeBlockNEON", neon,
		[]arg{{"dst", "*int8"}, {"x", "*float32"}, {"n", "int"}, {"factor", "float32"}}, &arg{"sum", "int32"})
	g.arg("dst", "DI")
	g.arg("x", "SI")
	g.arg("n", "CX")
	g.bcast("factor", 4)
	g.zeroNEON(5, 1)
	g.label("loop")
	for i := range 4 {
		g.op("VMULPS", fmt.Sprintf("%d(SI)", 16*i), 4, i)
		g.op("VCVTPS2DQ", i, i)
		g.op("VPADDD", i, 5, 5)
	}
	for i := range 2 {
		g.word(0x0e614800|uint32(2*i)<<5|uint32(i), "sqxtn v%d.4h, v%d.4s", i, 2*i)
		g.word(0x4e614800|uint32(2*i+1)<<5|uint32(i), "sqxtn2 v%d.8h, v%d.4s", i, 2*i+1)
	}
	g.word(0x0e214800, "sqxtn v0.8b, v0.8h")
	g.word(0x4e214820, "sqxtn2 v0.16b, v1.8h")
	g.op("VMOVUPS", 0, "(DI)")
	g.e("ADDQ $64, SI")
	g.e("ADDQ $16, DI")
	g.e("SUBQ $16, CX")
	g.e("JNZ loop")
	g.raw("VADDV V5.S4, V5")
	g.raw("FMOVS F5, sum+%d(FP)", g.off["sum"])
	g.raw("RET")
}

// digitBytesNEON writes the kernel of digitBytes.
func digitBytesNEON(f *file) {
	const sum, low, factor, half = 6, 4, 10, 11
	g := f.function("digitBytesNEON", neon, []arg{{"d0", "*int8"}, {"d1", "*int8"}, {"d2", "*int8"}, {"x", "*float32"},
		{"n", "int"}, {"factor", "float32"}, {"sum", "*int32"}}, nil)
	digits := [...]string{"R8", "R9", "R10"}
	for j, reg := range digits {
		g.arg(fmt.Sprintf("d%d", j), reg)
	}
	g.arg("x", "SI")
	g.arg("n", "CX")
	g.arg("sum", "DI")
	g.bcast("factor", factor)
	g.constant(g.ci(0x808080), half)
	g.zeroNEON(sum, 3)
	g.label("loop")
	g.raw("VLD1.P 64(R4), [V0.S4, V1.S4, V2.S4, V3.S4]")
	for r := range 4 {
		g.three("VMULPS", factor, r, r)
		g.two("VCVTPS2DQ", r, r)
		g.raw("VADD V%d.S4, V%d.S4, V%d.S4", half, r, r)
		g.raw("VEOR V%d.B16, V%d.B16, V%d.B16", half, r, r)
	}
	for r := 0; r < 4; r += 2 { // the low and the high halves
		g.raw("VUZP1 V%d.H8, V%d.H8, V%d.H8", r+1, r, low+r/2)
		g.raw("VUZP2 V%d.H8, V%d.H8, V%d.H8", r+1, r, r)
	}
	g.raw("VUZP1 V2.B16, V0.B16, V0.B16")
	g.raw("VUZP2 V%d.B16, V%d.B16, V1.B16", low+1, low)
	g.raw("VUZP1 V%d.B16, V%d.B16, V2.B16", low+1, low)
	for j, reg := range digits {
		g.raw("VST1.P [V%d.B16], 16(%s)", j, reg)
		g.word(0x4e202800|uint32(j)<<5|uint32(j), "saddlp v%d.8h, v%d.16b", j, j)
		g.word(0x4e606800|uint32(j)<<5|uint32(sum+j), "sadalp v%d.4s, v%d.8h", sum+j, j)
	}
	g.raw("SUBS $16, R2")
	g.raw("BNE loop")
	for j := range 3 {
		g.raw("VADDV V%d.S4, V%d", sum+j, sum+j)
		g.raw("FMOVS F%d, %d(R5)", sum+j, 4*j)
	}
	g.raw("RET")
}
