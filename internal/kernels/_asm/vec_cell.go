package main

// lstmCell updates the units of an LSTM from the sums of its gates i, o, f and c. Sums and products are rounded as those of separate
// vector kernels.
type lstmCell struct{}

func (lstmCell) emit(f *file, i isa) {
	if i.width != 16 {
		return
	}
	g := f.function("lstmCellF32"+i.name, i, []arg{{"next", "*float32"}, {"cell", "*float32"}, {"gates", "*float32"}, {"unit", "int"}, {"n", "int"}}, nil)
	for _, p := range [][2]string{{"next", "DI"}, {"cell", "DX"}, {"gates", "SI"}, {"unit", "R8"}, {"n", "CX"}} {
		g.arg(p[0], p[1])
	}
	g.e("SHLQ $2, R8")
	g.e("LEAQ (R8)(R8*2), R9")
	tanhPieces.tables(g, "tanh")
	g.e("MOVQ $-1, AX")
	g.label("loop")
	g.e("MOVL $16, BX")
	g.e("CMPQ CX, BX")
	g.e("CMOVQLT CX, BX")
	g.e("BZHIQ BX, AX, BX")
	g.e("KMOVW BX, K5")
	g.load("(SI)(R9*1)", 0)
	tanhPieces.of(g)
	g.op("VMOVAPS", 0, 9)
	g.load("(SI)", 0)
	g.sigmoid()
	g.op("VMULPS", 9, 0, 9)
	g.load("(SI)(R8*2)", 0)
	g.sigmoid()
	g.e("VMOVUPS.Z (DX), K5, Z10")
	g.op("VMULPS", 10, 0, 0)
	g.op("VADDPS", 9, 0, 0)
	g.e("VMOVUPS Z0, K5, (DX)")
	tanhPieces.of(g)
	g.op("VMOVAPS", 0, 9)
	g.load("(SI)(R8*1)", 0)
	g.sigmoid()
	g.op("VMULPS", 9, 0, 0)
	g.e("VMOVUPS Z0, K5, (DI)")
	for _, r := range []string{"SI", "DI", "DX"} {
		g.e("ADDQ $64, %s", r)
	}
	g.e("SUBQ $16, CX")
	g.e("JGT loop")
	g.e("VZEROUPPER")
	g.e("RET")
}

func (lstmCell) neon() bool { return false }

func (lstmCell) dispatch([]isa) string {
	return `
func lstmCellF32(l cpu.Level, next, cell, gates []float32, unit int) bool {
	if l != cpu.AVX512 {
		return false
	}
	lstmCellF32AVX512(&next[0], &cell[0], &gates[0], unit, len(next))
	return true
}
`
}

func (lstmCell) noasm() string {
	return "\nfunc lstmCellF32(cpu.Level, []float32, []float32, []float32, int) bool { return false }\n"
}
