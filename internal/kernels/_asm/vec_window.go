package main

import "fmt"

// window combines the elements of x at a window of rows and taps in registers, for each element of
// dst, beginning with dst itself or with the initial value. The windows of adjacent elements begin
// one or two elements apart.
type window struct {
	name    string
	minmax  string // instruction, "" for a sum
	initial uint32
}

var _ = add("window", windows()...)

func windows() []kernel {
	return []kernel{&window{"sum", "", 0}, &window{"max", "VMAXPS", 0xff800000}, &window{"min", "VMINPS", 0x7f800000}}
}

func (k *window) neon() bool { return true }

func (k *window) fold(g *fn, acc, in int) {
	if k.minmax == "" {
		g.op("VADDPS", in, acc, acc)
		return
	}
	const t = 13
	g.op(k.minmax, in, acc, t)
	g.sel(uno, acc, acc, acc, t, acc)
}

// begin sets the accumulators to the initial value if fresh is not 0, otherwise to dst.
func (k *window) begin(g *fn, name string, accs int, load func(u int)) {
	g.e("TESTQ R15, R15")
	g.e("JZ load%s", name)
	for u := range accs {
		g.op("VMOVUPS", k.initial, u)
	}
	g.e("JMP begin%s", name)
	g.label("load" + name)
	for u := range accs {
		load(u)
	}
	g.label("begin" + name)
}

// taps writes the loops over the rows and taps of the windows at SI. load reads vectors at R13.
func (k *window) taps(g *fn, name string, accs int, load func() int) {
	g.e("MOVQ SI, R11")
	g.e("MOVQ R8, R12")
	g.label("row" + name)
	g.e("MOVQ R11, R13")
	g.e("MOVQ R10, BX")
	g.label("tap" + name)
	in := load()
	for u := range accs {
		k.fold(g, u, in+u)
	}
	g.e("ADDQ DX, R13")
	g.e("DECQ BX")
	g.e("JNZ tap%s", name)
	g.e("ADDQ R9, R11")
	g.e("DECQ R12")
	g.e("JNZ row%s", name)
}

// windowMasks hold the lanes of four vectors; sel uses K2.
var windowMasks = []string{"K1", "K3", "K4", "K5"}

func (k *window) emit(f *file, i isa) {
	args := []arg{{"dst", "*float32"}, {"x", "*float32"}, {"n", "int"}, {"rows", "int"}, {"rowStep", "int"},
		{"taps", "int"}, {"tapStep", "int"}, {"fresh", "int"}}
	start := func(name string) *fn {
		g := f.function(k.name+name+"F32"+i.name, i, args, nil)
		for _, p := range [][2]string{{"dst", "DI"}, {"x", "SI"}, {"n", "CX"}, {"rows", "R8"}, {"rowStep", "R9"},
			{"taps", "R10"}, {"tapStep", "DX"}, {"fresh", "R15"}} {
			g.arg(p[0], p[1])
		}
		g.e("SHLQ $2, R9")
		g.e("SHLQ $2, DX")
		return g
	}
	end := func(g *fn) {
		g.label("done")
		g.e("VZEROUPPER")
		g.e("RET")
	}
	bytes := 4 * i.width
	g := start("Window")
	// block writes n vectors of outputs, the last ones masked if masks is not nil.
	block := func(name string, n int, masks []string) {
		move := func(from, to any, u int) {
			if masks == nil {
				g.op("VMOVUPS", from, to)
			} else if _, store := to.(string); store {
				g.op("VMOVUPS", from, masks[u], to)
			} else {
				g.op("VMOVUPS.Z", from, masks[u], to)
			}
		}
		k.begin(g, name, n, func(u int) { move(fmt.Sprintf("%d(DI)", u*bytes), u, u) })
		k.taps(g, name, n, func() int {
			for u := range n {
				move(fmt.Sprintf("%d(R13)", u*bytes), 4+u, u)
			}
			return 4
		})
		for u := range n {
			move(u, fmt.Sprintf("%d(DI)", u*bytes), u)
		}
	}
	g.label("loop")
	g.e("CMPQ CX, $%d", 4*i.width)
	g.e("JLT rest")
	block("4", 4, nil)
	g.e("ADDQ $%d, DI", 4*bytes)
	g.e("ADDQ $%d, SI", 4*bytes)
	g.e("SUBQ $%d, CX", 4*i.width)
	g.e("JMP loop")
	g.label("rest")
	if i.width == 16 {
		g.e("TESTQ CX, CX")
		g.e("JZ done")
		g.e("MOVQ $-1, AX")
		g.e("BZHIQ CX, AX, AX")
		for u, m := range windowMasks {
			if u > 0 {
				g.e("SHRQ $16, AX")
			}
			g.e("KMOVW AX, %s", m)
		}
		g.e("CMPQ CX, $16")
		g.e("JLE one")
		block("m", 4, windowMasks)
		g.e("JMP done")
		g.label("one")
		block("1", 1, windowMasks)
	} else {
		g.e("CMPQ CX, $%d", i.width)
		g.e("JLT tail")
		block("1", 1, nil)
		g.e("ADDQ $%d, DI", bytes)
		g.e("ADDQ $%d, SI", bytes)
		g.e("SUBQ $%d, CX", i.width)
		g.e("JMP rest")
		g.label("tail")
		g.e("TESTQ CX, CX")
		g.e("JZ done")
		g.tail(func() {
			k.begin(g, "t", 1, func(int) { g.load("(DI)", 0) })
			k.taps(g, "t", 1, func() int { g.load("(R13)", 4); return 4 })
			g.store(0, "(DI)")
		}, func(bytes, elements int) {
			g.e("ADDQ $%d, DI", bytes)
			g.e("ADDQ $%d, SI", bytes)
			g.e("SUBQ $%d, CX", elements)
		})
	}
	end(g)

	if i == avx512 && k.name == "max" { // one function each for maxima and sums: its last argument chooses
		k.masked(f)
		k.lines(f)
	}

	// With stride 2, AVX-512 takes up to two vectors of outputs with masks, AVX2 and NEON whole
	// ones only.
	g = start("Window2")
	if i.neon() {
		pairs := func(name string, n int) {
			k.begin(g, name, n, func(u int) { g.op("VMOVUPS", fmt.Sprintf("%d(DI)", 16*u), u) })
			k.taps(g, name, n, func() int {
				g.raw("VLD2 (%s), [V4.S4, V5.S4]", general("R13"))
				if n == 2 { // the second pair replaces the odd elements of the first
					g.raw("ADD $32, %s, R7", general("R13"))
					g.raw("VLD2 (R7), [V5.S4, V6.S4]")
				}
				return 4
			})
			for u := range n {
				g.op("VMOVUPS", u, fmt.Sprintf("%d(DI)", 16*u))
			}
		}
		g.label("loop")
		g.e("CMPQ CX, $8")
		g.e("JLT rest")
		pairs("2", 2)
		g.e("ADDQ $32, DI")
		g.e("ADDQ $64, SI")
		g.e("SUBQ $8, CX")
		g.e("JMP loop")
		g.label("rest")
		g.e("TESTQ CX, CX")
		g.e("JZ done")
		pairs("1", 1)
	} else if i.width == 16 {
		g.e("VMOVDQU32 every2<>(SB), Z14")
		g.label("loop")
		g.e("TESTQ CX, CX")
		g.e("JLE done")
		g.e("MOVQ $-1, AX")
		g.e("MOVL $32, BX")
		g.e("CMPQ CX, BX")
		g.e("CMOVQLT CX, BX")
		g.e("BZHIQ BX, AX, BX") // takes the low byte
		g.e("KMOVW BX, K1")
		g.e("SHRQ $16, BX")
		g.e("KMOVW BX, K3")
		g.e("LEAQ -1(CX)(CX*1), BX") // inputs of a tap
		g.e("CMPQ BX, $64")
		g.e("JGE full")
		g.e("BZHIQ BX, AX, AX")
		g.label("full")
		for u, m := range []string{"K4", "K5", "K6", "K7"} {
			if u > 0 {
				g.e("SHRQ $16, AX")
			}
			g.e("KMOVW AX, %s", m)
		}
		k.begin(g, "2", 2, func(u int) { g.e("VMOVUPS.Z %d(DI), %s, Z%d", 64*u, windowMasks[u], u) })
		k.taps(g, "2", 2, func() int {
			for u, m := range []string{"K4", "K5", "K6", "K7"} {
				g.e("VMOVUPS.Z %d(R13), %s, Z%d", 64*u, m, []int{4, 6, 5, 7}[u])
			}
			g.e("VPERMT2PS Z6, Z14, Z4")
			g.e("VPERMT2PS Z7, Z14, Z5")
			return 4
		})
		g.e("VMOVUPS Z0, K1, (DI)")
		g.e("VMOVUPS Z1, K3, 64(DI)")
		g.e("ADDQ $128, DI")
		g.e("ADDQ $256, SI")
		g.e("SUBQ $32, CX")
		g.e("JMP loop")
	} else {
		g.label("loop")
		g.e("TESTQ CX, CX")
		g.e("JZ done")
		k.begin(g, "2", 1, func(int) { g.e("VMOVUPS (DI), Y0") })
		k.taps(g, "2", 1, func() int {
			g.e("VMOVUPS (R13), Y4")
			g.e("VSHUFPS $0x88, 32(R13), Y4, Y4")
			g.e("VPERMPD $0xD8, Y4, Y4")
			return 4
		})
		g.e("VMOVUPS Y0, (DI)")
		g.e("ADDQ $32, DI")
		g.e("ADDQ $64, SI")
		g.e("SUBQ $8, CX")
		g.e("JMP loop")
	}
	end(g)
}

// masked combines only the taps whose bits are set in a mask, which is one for each vector of
// outputs of a row and tap. Between the vectors of two rows, gap elements of x are left out.
func (k *window) masked(f *file) {
	g := f.function("maskedWindowF32AVX512", avx512,
		[]arg{{"dst", "*float32"}, {"x", "*float32"}, {"n", "int"}, {"taps", "int"}, {"tapStep", "int"},
			{"stride", "int"}, {"masks", "*uint16"}, {"rows", "int"}, {"gap", "int"}, {"sum", "int"}}, nil)
	for _, p := range [][2]string{{"dst", "DI"}, {"x", "SI"}, {"taps", "R10"}, {"tapStep", "DX"}, {"stride", "R9"},
		{"rows", "R11"}, {"sum", "R15"}} {
		g.arg(p[0], p[1])
	}
	g.e("SHLQ $2, DX")
	g.e("MOVQ R9, R12")
	g.e("SHLQ $6, R12")
	k.beginMasked(g)
	strides := []int{2, 3, 4, 1}
	for _, stride := range strides[:3] {
		g.e("CMPQ R9, $%d", stride)
		g.e("JE stride%d", stride)
	}
	g.e("JMP start")
	for _, stride := range strides[:3] {
		f.tables = append(f.tables, everyTable(stride))
		g.label(fmt.Sprintf("stride%d", stride))
		g.e("VMOVDQU32 every%d<>(SB), Z14", stride)
		if stride == 3 {
			g.e("VMOVDQU32 every3<>+64(SB), Z13")
		}
		g.e("JMP start")
	}
	g.label("start")
	g.e("MOVQ $-1, AX")
	g.e("XORL R14, R14") // 1 for three adjacent windows
	g.e("CMPQ R9, $1")
	g.e("JNE row")
	g.e("CMPQ R10, $3")
	g.e("JNE row")
	g.e("INCQ R14")
	g.label("row")
	g.arg("n", "CX")
	g.arg("masks", "R8")
	g.e("TESTQ R14, R14")
	g.e("JNZ three")
	g.label("loop")
	g.e("VMOVAPS Z15, Z0")
	g.e("MOVQ SI, R13")
	g.e("MOVQ R10, BX")
	taps := func(name string, stride int, sum bool) {
		g.label(name)
		g.e("KMOVW (R8), K1")
		g.e("VMOVUPS (R13), Z4")
		if stride > 1 {
			g.e("VPERMT2PS 64(R13), Z14, Z4")
		}
		switch stride {
		case 3:
			g.e("VPERMT2PS 128(R13), Z13, Z4")
		case 4:
			g.e("VMOVUPS 128(R13), Z5")
			g.e("VPERMT2PS 192(R13), Z14, Z5")
			g.e("VINSERTF64X4 $1, Y5, Z4, Z4")
		}
		k.foldMasked(g, "K1", 4, 0, sum)
		g.e("ADDQ DX, R13")
		g.e("ADDQ $2, R8")
		g.e("DECQ BX")
		g.e("JNZ %s", name)
		g.e("JMP store")
	}
	for i, stride := range strides {
		next := fmt.Sprintf("not%d", stride)
		if i < 3 {
			g.e("CMPQ R9, $%d", stride)
			g.e("JNE %s", next)
		}
		g.e("TESTQ R15, R15")
		g.e("JNZ sum%d", stride)
		taps(fmt.Sprintf("max%d", stride), stride, false)
		taps(fmt.Sprintf("sum%d", stride), stride, true)
		if i < 3 {
			g.label(next)
		}
	}
	store := func(loop string) {
		g.e("MOVL $16, BX")
		g.e("CMPQ CX, BX")
		g.e("CMOVQLT CX, BX")
		g.e("BZHIQ BX, AX, R13") // takes the low byte
		g.e("KMOVW R13, K1")
		g.e("VMOVUPS Z0, K1, (DI)")
		g.e("LEAQ (DI)(BX*4), DI")
		g.e("ADDQ R12, SI")
		g.e("SUBQ $16, CX")
		g.e("JGT %s", loop)
	}
	g.label("store")
	store("loop")
	g.label("next")
	g.arg("gap", "BX")
	g.e("LEAQ (SI)(BX*4), SI")
	g.e("DECQ R11")
	g.e("JNZ row")
	g.e("VZEROUPPER")
	g.e("RET")
	for _, name := range []string{"three", "threeSum"} {
		g.label(name)
		if name == "three" {
			g.e("TESTQ R15, R15")
			g.e("JNZ threeSum")
		}
		for t, from := range []string{"(SI)", "(SI)(DX*1)", "(SI)(DX*2)"} {
			g.e("KMOVW %d(R8), K%d", 2*t, 3+t)
			g.e("VMOVUPS %s, Z%d", from, 4+t)
		}
		g.e("ADDQ $6, R8")
		g.e("VMOVAPS Z15, Z0")
		for t := range 3 {
			k.foldMasked(g, fmt.Sprintf("K%d", 3+t), 4+t, 0, name == "threeSum")
		}
		store(name)
		g.e("JMP next")
	}
}

// lines combines the columns of rows, each with an offset in x, a number of taps and a length.
// Behind a row, gap elements of dst are left out.
func (k *window) lines(f *file) {
	g := f.function("lineWindowF32AVX512", avx512, []arg{{"dst", "*float32"}, {"gap", "int"}, {"x", "*float32"},
		{"lines", "*Line"}, {"count", "int"}, {"tapStep", "int"}, {"sum", "int"}}, nil)
	for _, p := range [][2]string{{"dst", "DI"}, {"x", "SI"}, {"gap", "CX"}, {"lines", "R8"}, {"count", "R9"},
		{"tapStep", "DX"}, {"sum", "R15"}} {
		g.arg(p[0], p[1])
	}
	g.e("SHLQ $2, DX")
	k.beginMasked(g)
	g.e("MOVQ $-1, AX")
	g.label("line")
	g.e("MOVQ (R8), R12")
	g.e("LEAQ (SI)(R12*4), R12")
	g.e("MOVQ 16(R8), R11")
	g.label("vectors") // two of them
	g.e("MOVL $32, R10")
	g.e("CMPQ R11, R10")
	g.e("CMOVQLT R11, R10")
	g.e("BZHIQ R10, AX, BX")
	g.e("KMOVW BX, K1")
	g.e("SHRL $16, BX")
	g.e("KMOVW BX, K3")
	g.e("VMOVAPS Z15, Z0")
	g.e("VMOVAPS Z15, Z1")
	g.e("MOVQ R12, R13")
	g.e("MOVQ 8(R8), BX")
	g.e("TESTQ BX, BX")
	g.e("JZ store")
	taps := func(name string, vectors int, sum bool) {
		g.label("tap" + name)
		for u := range vectors {
			g.e("VMOVUPS.Z %d(R13), %s, Z%d", 64*u, windowMasks[u], 4+u)
		}
		for u := range vectors {
			k.foldMasked(g, windowMasks[u], 4+u, u, sum)
		}
		g.e("ADDQ DX, R13")
		g.e("DECQ BX")
		g.e("JNZ tap%s", name)
		g.e("JMP store")
	}
	g.e("CMPQ R11, $16")
	g.e("JLE one")
	g.e("TESTQ R15, R15")
	g.e("JNZ tapSum2")
	taps("Max2", 2, false)
	taps("Sum2", 2, true)
	g.label("one")
	g.e("TESTQ R15, R15")
	g.e("JNZ tapSum")
	taps("Max", 1, false)
	taps("Sum", 1, true)
	g.label("store")
	g.e("VMOVUPS Z0, K1, (DI)")
	g.e("VMOVUPS Z1, K3, 64(DI)")
	g.e("LEAQ (DI)(R10*4), DI")
	g.e("ADDQ $128, R12")
	g.e("SUBQ $32, R11")
	g.e("JGT vectors")
	g.e("LEAQ (DI)(CX*4), DI")
	g.e("ADDQ $24, R8")
	g.e("DECQ R9")
	g.e("JNZ line")
	g.e("VZEROUPPER")
	g.e("RET")
}

// beginMasked leaves the initial value in Z15.
func (k *window) beginMasked(g *fn) {
	g.e("VXORPS X15, X15, X15")
	g.e("TESTQ R15, R15")
	g.e("JNZ begin")
	g.op("VMOVUPS", k.initial, 15)
	g.label("begin")
}

// foldMasked combines in with acc in the lanes of the mask. A NaN in acc stays, and the instruction
// returns one in in.
func (k *window) foldMasked(g *fn, mask string, in, acc int, sum bool) {
	if sum {
		g.e("VADDPS Z%d, Z%d, %s, Z%d", in, acc, mask, acc)
		return
	}
	g.e("VCMPPS $7, Z%d, Z%d, %s, K2", acc, acc, mask)
	g.e("%s Z%d, Z%d, K2, Z%d", k.minmax, in, acc, acc)
}

// everyTable holds the indices of every stride-th element of two vectors. For stride 3 those of a
// third vector follow the eleven of the first two.
func everyTable(stride int) string {
	var at []int
	for j := range 16 {
		at = append(at, stride*j&31)
	}
	if stride == 3 {
		for j := range 16 {
			if j >= 11 {
				j = 3*j - 16
			}
			at = append(at, j)
		}
	}
	s := ""
	for j := 0; j < len(at); j += 2 {
		s += fmt.Sprintf("DATA every%d<>+%d(SB)/8, $0x%08x%08x\n", stride, 4*j, at[j+1], at[j])
	}
	return s + fmt.Sprintf("GLOBL every%d<>(SB), RODATA|NOPTR, $%d\n", stride, 4*len(at))
}

func (k *window) dispatch(isas []isa) string {
	o := fmt.Sprintf(`
// %[1]sWindow combines the first elements of dst with their windows and returns their number.
func %[1]sWindow(l cpu.Level, dst, x []float32, rows, rowStep, taps, tapStep, stride, fresh int) int {
	n := len(dst)
	switch {
`, k.name)
	for _, i := range isas {
		o += fmt.Sprintf(`	case l == cpu.%[1]s && stride == 1:
		%[2]sWindowF32%[3]s(&dst[0], &x[0], n, rows, rowStep, taps, tapStep, fresh)
		return n
	case l == cpu.%[1]s && stride == 2:
`, i.level, k.name, i.name)
		if i.width < 16 { // the kernel reads an element after the last window
			o += fmt.Sprintf("\t\tif n--; n < %[1]d {\n\t\t\treturn 0\n\t\t}\n\t\tn &^= %[2]d\n", i.width, i.width-1)
		}
		o += fmt.Sprintf("\t\t%sWindow2F32%s(&dst[0], &x[0], n, rows, rowStep, taps, tapStep, fresh)\n\t\treturn n\n",
			k.name, i.name)
	}
	o += "\t}\n\treturn 0\n}\n"
	if k.name != "max" {
		return o
	}
	if isas[0] != avx512 {
		return o + k.without()
	}
	return o + `
func maskedWindow(dst, x []float32, n, pitch, taps, tapStep, stride int, masks []uint16, sum int) {
	maskedWindowF32AVX512(&dst[0], &x[0], n, taps, tapStep, stride, &masks[0], len(dst)/n,
		pitch-(n+15)/16*16*stride, sum)
}

func lineWindow(dst []float32, gap int, x []float32, lines []Line, tapStep, sum int) {
	lineWindowF32AVX512(&dst[0], gap, &x[0], &lines[0], len(lines), tapStep, sum)
}
`
}

func (*window) without() string {
	return `
func maskedWindow([]float32, []float32, int, int, int, int, int, []uint16, int) {}

func lineWindow([]float32, int, []float32, []Line, int, int) {}
`
}

func (k *window) noasm() string {
	o := fmt.Sprintf(
		"\nfunc %sWindow(cpu.Level, []float32, []float32, int, int, int, int, int, int) int { return 0 }\n", k.name)
	if k.name == "max" {
		o += k.without()
	}
	return o
}
