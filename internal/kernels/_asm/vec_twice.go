package main

import "fmt"

var _ = add("rows", twice{8}, twice{16}, twice{32})

// twice writes each element of adjacent rows twice, and each row twice if pair, the distance in
// bytes from the first to the second one, is not 0: nearest-neighbour interpolation by 2. Sixteen
// bytes at a time become 32; the last ones of a row overlap those before.
type twice struct{ bits int }

func (k twice) emit(f *file, i isa) {
	if i.width == 16 {
		return
	}
	g := f.function(fmt.Sprintf("twiceU%d%s", k.bits, i.name), i,
		[]arg{{"dst", "*byte"}, {"src", "*byte"}, {"bytes", "int"}, {"pair", "int"}, {"rows", "int"}}, nil)
	for _, p := range [][2]string{{"dst", "DI"}, {"src", "SI"}, {"bytes", "CX"}, {"pair", "R8"}, {"rows", "R9"}} {
		g.arg(p[0], p[1])
	}
	if i.neon() {
		k.bodyNEON(g)
		return
	}
	wide := map[int]string{8: "W", 16: "D", 32: "Q"}[k.bits]
	narrow := map[int]string{8: "B", 16: "W", 32: "D"}[k.bits]
	g.e("LEAQ -16(CX), R10")
	g.label("row")
	g.e("XORQ AX, AX")
	g.label("vector")
	g.e("VPMOVZX%s%s (SI)(AX*1), Y0", narrow, wide)
	g.e("VPSLL%s $%d, Y0, Y1", wide, k.bits)
	g.e("VPOR Y1, Y0, Y0")
	g.e("LEAQ (DI)(AX*2), DX")
	g.e("VMOVDQU Y0, (DX)")
	g.e("VMOVDQU Y0, (DX)(R8*1)")
	g.e("CMPQ AX, R10")
	g.e("JGE next")
	g.e("ADDQ $16, AX")
	g.e("CMPQ AX, R10")
	g.e("CMOVQGT R10, AX")
	g.e("JMP vector")
	g.label("next")
	g.e("ADDQ CX, SI")
	g.e("LEAQ (DI)(CX*2), DI")
	g.e("ADDQ R8, DI")
	g.e("DECQ R9")
	g.e("JNZ row")
	g.e("VZEROUPPER")
	g.e("RET")
}

func (k twice) bodyNEON(g *fn) {
	lanes := map[int]string{8: "B16", 16: "H8", 32: "S4"}[k.bits]
	g.raw("SUB $16, R2, R10")
	g.label("row")
	g.raw("MOVD $0, R0")
	g.label("vector")
	g.raw("ADD R0, R4, R6")
	g.raw("VLD1 (R6), [V0.B16]")
	g.raw("VZIP1 V0.%s, V0.%[1]s, V1.%[1]s", lanes)
	g.raw("VZIP2 V0.%s, V0.%[1]s, V2.%[1]s", lanes)
	g.raw("ADD R0<<1, R5, R6")
	g.raw("ADD R6, R8, R7")
	g.raw("VST1 [V1.B16, V2.B16], (R6)")
	g.raw("VST1 [V1.B16, V2.B16], (R7)")
	g.raw("CMP R10, R0")
	g.raw("BGE next")
	g.raw("ADD $16, R0, R0")
	g.raw("CMP R10, R0")
	g.raw("CSEL GT, R10, R0, R0")
	g.raw("B vector")
	g.label("next")
	g.raw("ADD R2, R4, R4")
	g.raw("ADD R2<<1, R5, R5")
	g.raw("ADD R8, R5, R5")
	g.raw("SUBS $1, R9, R9")
	g.raw("BNE row")
	g.raw("RET")
}

func (k twice) dispatch(isas []isa) string {
	return fmt.Sprintf(`
func twiceU%d(dst, src *byte, bytes, pair, rows int) { twiceU%[1]d%s(dst, src, bytes, pair, rows) }
`, k.bits, isas[len(isas)-1].name)
}

func (twice) neon() bool { return true }

func (k twice) noasm() string {
	return fmt.Sprintf("\nfunc twiceU%d(*byte, *byte, int, int, int) {}\n", k.bits)
}
