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
	args := []arg{{"dst", "*float32"}, {"x", "*float32"}, {"n", "int"}, {"rows", "int"}, {"rowStep", "int"}, {"taps", "int"}, {"tapStep", "int"}, {"fresh", "int"}}
	start := func(name string) *fn {
		g := f.function(k.name+name+"F32"+i.name, i, args, nil)
		for _, p := range [][2]string{{"dst", "DI"}, {"x", "SI"}, {"n", "CX"}, {"rows", "R8"}, {"rowStep", "R9"}, {"taps", "R10"}, {"tapStep", "DX"}, {"fresh", "R15"}} {
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

	// With windows two elements apart: AVX-512 takes up to two vectors of outputs with masks, AVX2 and
	// NEON only whole ones.
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
		if k.name == "sum" { // once for the file
			f.tables = append(f.tables, evenTable())
		}
		g.e("VMOVDQU32 evenElements<>(SB), Z14")
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

// evenTable holds the indices of the even elements of two vectors.
func evenTable() string {
	s := ""
	for j := 0; j < 16; j += 2 {
		s += fmt.Sprintf("DATA evenElements<>+%d(SB)/8, $0x%08x%08x\n", 4*j, 2*j+2, 2*j)
	}
	return s + "GLOBL evenElements<>(SB), RODATA|NOPTR, $64\n"
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
		if i.width < 16 { // the kernel reads an element behind the last window
			o += fmt.Sprintf("\t\tif n--; n < %[1]d {\n\t\t\treturn 0\n\t\t}\n\t\tn &^= %[2]d\n", i.width, i.width-1)
		}
		o += fmt.Sprintf("\t\t%sWindow2F32%s(&dst[0], &x[0], n, rows, rowStep, taps, tapStep, fresh)\n\t\treturn n\n", k.name, i.name)
	}
	return o + "\t}\n\treturn 0\n}\n"
}

func (k *window) noasm() string {
	return fmt.Sprintf("\nfunc %sWindow(cpu.Level, []float32, []float32, int, int, int, int, int, int) int { return 0 }\n", k.name)
}
