package main

var _ = add("rotate", rotate{})

// rotate rotates the points (x[i], x[i+half]) of rows by angles with the given cosines and sines.
// It rounds each product, as Go code does, so that all levels give the same bits.
type rotate struct{}

func (rotate) emit(f *file, i isa) {
	g := f.function("rotateF32"+i.name, i, []arg{{"dst", "*float32"}, {"x", "*float32"}, {"step", "int"},
		{"half", "int"}, {"cos", "*float32"}, {"sin", "*float32"}, {"angleStep", "int"}, {"rows", "int"}}, nil)
	for _, p := range [][2]string{{"dst", "R10"}, {"x", "R11"}, {"step", "R8"}, {"half", "R12"}, {"cos", "DX"},
		{"sin", "BX"}, {"angleStep", "R9"}, {"rows", "R13"}} {
		g.arg(p[0], p[1])
	}
	g.e("SHLQ $2, R8")
	g.e("SHLQ $2, R9")
	const x, y, cos, sin = 0, 1, 2, 3
	vector := func() {
		g.load("(SI)", x)
		g.load("(SI)(R12*4)", y)
		g.load("(DX)", cos)
		g.load("(BX)", sin)
		g.op("VMULPS", x, cos, 4)
		g.op("VMULPS", y, sin, 5)
		g.op("VSUBPS", 5, 4, 4)
		g.op("VMULPS", x, sin, 6)
		g.op("VMULPS", y, cos, 7)
		g.op("VADDPS", 7, 6, 6)
		g.store(4, "(DI)")
		g.store(6, "(DI)(R12*4)")
	}
	advance := func(bytes, elements int) {
		for _, r := range []string{"SI", "DI", "DX", "BX"} {
			g.e("ADDQ $%d, %s", bytes, r)
		}
		g.e("SUBQ $%d, CX", elements)
	}
	g.label("row")
	g.e("MOVQ R10, DI")
	g.e("MOVQ R11, SI")
	g.e("MOVQ DX, R14")
	g.e("MOVQ BX, R15")
	g.e("MOVQ R12, CX")
	g.label("vector")
	g.e("CMPQ CX, $%d", i.width)
	g.e("JLT rest")
	vector()
	advance(4*i.width, i.width)
	g.e("JMP vector")
	g.label("rest")
	g.e("TESTQ CX, CX")
	g.e("JZ next")
	g.tail(vector, advance)
	g.label("next")
	g.e("LEAQ (R14)(R9*1), DX")
	g.e("LEAQ (R15)(R9*1), BX")
	g.e("ADDQ R8, R10")
	g.e("ADDQ R8, R11")
	g.e("DECQ R13")
	g.e("JNZ row")
	g.e("VZEROUPPER")
	g.e("RET")
}

func (rotate) dispatch(isas []isa) string {
	return `
func rotateF32(l cpu.Level, dst, x []float32, step, half int, cos, sin []float32, angleStep, rows int) {
	for most := max(1, chunk/half); width(l) > 0 && rows > 0; {
		n := min(rows, most)
		if l == cpu.` + isas[0].level + ` {
			rotateF32` + isas[0].name + `(&dst[0], &x[0], step, half, &cos[0], &sin[0], angleStep, n)
		} else {
			rotateF32` + isas[1].name + `(&dst[0], &x[0], step, half, &cos[0], &sin[0], angleStep, n)
		}
		if rows -= n; rows == 0 {
			return
		}
		dst, x, cos, sin = dst[n*step:], x[n*step:], cos[n*angleStep:], sin[n*angleStep:]
	}
	rotateF32Generic(dst, x, step, half, cos, sin, angleStep, rows)
}
`
}

func (rotate) neon() bool { return false }

func (rotate) noasm() string {
	return `
func rotateF32(_ cpu.Level, dst, x []float32, step, half int, cos, sin []float32, angleStep, rows int) {
	rotateF32Generic(dst, x, step, half, cos, sin, angleStep, rows)
}
`
}
