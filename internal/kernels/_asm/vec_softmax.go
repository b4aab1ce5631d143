package main

import "fmt"

// softmax is the kernel of a row that one call takes: the maximum, the exponentials and their sum,
// and the division. A NaN may get lost in the maximum; the sum has it.
type softmax struct{}

func (softmax) emit(f *file, i isa) {
	g := f.function("softmaxRowF32"+i.name, i, []arg{{"dst", "*float32"}, {"x", "*float32"}, {"n", "int"}}, nil)
	shift := map[int]int{4: 2, 8: 3, 16: 4}[i.width]
	bytes := 4 * i.width
	const by = 13 // what all lanes are subtracted by or multiplied with
	g.arg("n", "CX")
	g.e("MOVQ CX, R11")
	g.e("SHRQ $%d, R11", shift)
	g.e("ANDQ $%d, CX", i.width-1)
	g.e("MOVQ CX, R13")
	if g.neon() {
		g.hoist(0, 0, func(g *fn) { g.expTo(0, 1, 2, 3) })
	} else {
		g.tailMask()
	}

	// pass walks over the row in steps of so many vectors and at last one, then over the tail.
	pass := func(name string, step int, vector func(u int)) {
		g.arg("x", "SI")
		g.arg("dst", "DI")
		g.e("MOVQ R11, R12")
		for _, n := range []int{step, 1} {
			next := name + "1"
			if n == 1 {
				next = name + "tail"
			}
			g.label(fmt.Sprintf("%s%d", name, n))
			g.e("CMPQ R12, $%d", n)
			g.e("JLT %s", next)
			for u := range n {
				vector(u)
			}
			g.e("ADDQ $%d, SI", n*bytes)
			g.e("ADDQ $%d, DI", n*bytes)
			g.e("SUBQ $%d, R12", n)
			g.e("JMP %s%d", name, n)
		}
		g.label(name + "tail")
		g.e("TESTQ R13, R13")
		g.e("JZ %sdone", name)
		if g.neon() {
			g.e("MOVQ R13, R12")
			g.label(name + "element")
		}
		g.masked = true
		vector(0)
		g.masked = false
		if g.neon() {
			g.e("ADDQ $4, SI")
			g.e("ADDQ $4, DI")
			g.e("DECQ R12")
			g.e("JNZ %selement", name)
		}
		g.label(name + "done")
	}
	at := func(u int, reg string) string { return fmt.Sprintf("%d(%s)", u*bytes, reg) }
	// fold folds the lanes of register 8 and broadcasts the result.
	fold := func(op string) {
		if g.neon() {
			for _, order := range []string{"$0x4e", "$0xb1"} {
				g.op("VPERMILPS", order, 8, 9)
				g.op(op, 9, 8, 8)
			}
			return
		}
		if i.width == 16 {
			g.e("VEXTRACTF64X4 $1, Z8, Y9")
			g.e("%s Y9, Y8, Y8", op)
		}
		g.e("VEXTRACTF128 $1, Y8, X9")
		g.e("%s X9, X8, X8", op)
		for _, order := range []string{"$0x4e", "$0xb1"} {
			g.e("VPERMILPS %s, X8, X9", order)
			g.e("%s X9, X8, X8", op)
		}
	}

	for u := range 4 {
		g.op("VMOVUPS", uint32(0xff800000), 8+u)
	}
	pass("max", 4, func(u int) {
		g.load(at(u, "SI"), 0)
		if g.masked {
			g.fillTail(0, 0xff800000)
		}
		g.op("VMAXPS", 0, 8+u, 8+u)
	})
	g.op("VMAXPS", 9, 8, 8)
	g.op("VMAXPS", 11, 10, 10)
	g.op("VMAXPS", 10, 8, 8)
	fold("VMAXPS")
	g.e("VBROADCASTSS X8, %s", g.r(by))

	g.op("VXORPS", 8, 8, 8)
	g.op("VXORPS", 9, 9, 9)
	pass("exp", 2, func(u int) {
		r := 4 * u
		g.load(at(u, "SI"), r)
		g.op("VSUBPS", by, r, r)
		g.expTo(r, r+1, r+2, r+3)
		g.zeroTail(r)
		g.op("VADDPS", r, 8+u, 8+u)
		g.store(r, at(u, "DI"))
	})
	g.op("VADDPS", 9, 8, 8)
	fold("VADDPS")
	if g.neon() {
		g.op("VMOVUPS", 1.0, 9)
		g.op("VDIVPS", 8, 9, 8)
	} else {
		g.e("VMOVSS %s, X9", g.c(1))
		g.e("VDIVSS X8, X9, X8")
	}
	g.e("VBROADCASTSS X8, %s", g.r(by))

	pass("mul", 4, func(u int) {
		g.load(at(u, "DI"), u)
		g.op("VMULPS", by, u, u)
		g.store(u, at(u, "DI"))
	})
	g.e("VZEROUPPER")
	g.e("RET")
}

func (softmax) dispatch(isas []isa) string {
	o := `
// softmaxRowF32 takes the softmax of a row of at most chunk elements.
func softmaxRowF32(l cpu.Level, dst, x []float32) {
	x = x[:len(dst)]
	switch l {
`
	for _, i := range isas {
		o += fmt.Sprintf("\tcase cpu.%s:\n\t\tsoftmaxRowF32%s(&dst[0], &x[0], len(dst))\n", i.level, i.name)
	}
	return o + `	default:
		softmaxRowF32Generic(dst, x)
	}
}
`
}

func (softmax) neon() bool { return true }

func (softmax) noasm() string {
	return "\nfunc softmaxRowF32(_ cpu.Level, dst, x []float32) { softmaxRowF32Generic(dst, x) }\n"
}
