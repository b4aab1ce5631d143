package main

// lstmCell updates the units of rows of an LSTM from the sums of its gates i, o, f and c, and stores the new states in y, too. Gaps
// are the bytes from the end of the vectors of a row to the next one. Sums and products are rounded as those of separate vector
// kernels.
type lstmCell struct{}

func (lstmCell) emit(f *file, i isa) {
	if i.width != 16 {
		return
	}
	g := f.function("lstmCellF32"+i.name, i, []arg{{"next", "*float32"}, {"cell", "*float32"}, {"y", "*float32"}, {"gates", "*float32"}, {"unit", "int"}, {"n", "int"},
		{"rows", "int"}, {"stateGap", "int"}, {"yGap", "int"}, {"gateGap", "int"}}, nil)
	for _, p := range [][2]string{{"next", "DI"}, {"cell", "DX"}, {"y", "R10"}, {"gates", "SI"}, {"unit", "R8"}, {"rows", "R11"}} {
		g.arg(p[0], p[1])
	}
	g.e("SHLQ $2, R8")
	g.e("LEAQ (R8)(R8*2), R9")
	exp := tanhPieces.coefs.load(g, "tanh", firstTable)
	expTable.load(g, "sigmoid", exp)
	g.e("MOVQ $-1, AX")
	g.label("row")
	g.arg("n", "CX")
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
	g.sigmoid(exp)
	g.op("VMULPS", 9, 0, 9)
	g.load("(SI)(R8*2)", 0)
	g.sigmoid(exp)
	g.e("VMOVUPS.Z (DX), K5, Z10")
	g.op("VMULPS", 10, 0, 0)
	g.op("VADDPS", 9, 0, 0)
	g.e("VMOVUPS Z0, K5, (DX)")
	tanhPieces.of(g)
	g.op("VMOVAPS", 0, 9)
	g.load("(SI)(R8*1)", 0)
	g.sigmoid(exp)
	g.op("VMULPS", 9, 0, 0)
	g.e("VMOVUPS Z0, K5, (DI)")
	g.e("VMOVUPS Z0, K5, (R10)")
	for _, r := range []string{"SI", "DI", "DX", "R10"} {
		g.e("ADDQ $64, %s", r)
	}
	g.e("SUBQ $16, CX")
	g.e("JGT loop")
	for _, r := range [][2]string{{"stateGap", "DI"}, {"stateGap", "DX"}, {"yGap", "R10"}, {"gateGap", "SI"}} {
		g.arg(r[0], "BX")
		g.e("ADDQ BX, %s", r[1])
	}
	g.e("DECQ R11")
	g.e("JNZ row")
	g.e("VZEROUPPER")
	g.e("RET")
}

func (lstmCell) neon() bool { return false }

func (lstmCell) dispatch([]isa) string {
	return `
func lstmCellF32(l cpu.Level, s *LSTMStates, gates []float32, gateStep, unit int) bool {
	if l != cpu.AVX512 {
		return false
	}
	wide := (s.N + 15) &^ 15
	for first, most := 0, max(1, 1024/wide); first < s.Rows; first += most { // short calls
		y, yStep := s.Next, s.Step
		if s.Y != nil {
			y, yStep = s.Y, s.YStep
		}
		lstmCellF32AVX512(&s.Next[first*s.Step], &s.Cell[first*s.Step], &y[first*yStep], &gates[first*gateStep], unit, s.N, min(most, s.Rows-first),
			(s.Step-wide)*4, (yStep-wide)*4, (gateStep-wide)*4)
	}
	return true
}
`
}

func (lstmCell) noasm() string {
	return "\nfunc lstmCellF32(cpu.Level, *LSTMStates, []float32, int, int) bool { return false }\n"
}
