package main

import "fmt"

var _ = add("norm", softmax{}, softmax{log: true}, softmax{log: true, total: true})

// softmax is the kernel for adjacent rows: the maximum, the exponentials and their sum, and the
// division or, if log is set, the subtraction of the logarithm of the sum. The maximum may lose a
// NaN; the sum has it. Since the loop over rows is part of the kernel, the processor starts a row
// while it waits for the horizontal reduction of the previous one.
type softmax struct {
	log   bool
	total bool // only the logarithm of the sum of the exponentials, per row
}

func (k softmax) name() string {
	if k.total {
		return "logSumExpRows"
	}
	if k.log {
		return "logSoftmaxRows"
	}
	return "softmaxRows"
}

func (k softmax) emit(f *file, i isa) {
	g := f.function(k.name()+"F32"+i.name, i,
		[]arg{{"dst", "*float32"}, {"x", "*float32"}, {"n", "int"}, {"rows", "int"}}, nil)
	shift := map[int]int{4: 2, 8: 3, 16: 4}[i.width]
	bytes := 4 * i.width
	const by = 13                 // broadcast value that all lanes are reduced or multiplied by
	const end = 4                 // exponentials of the end of the row, until they are divided
	expTo := func(g *fn, r int) { // for arguments that are not positive
		if i.width == 16 {
			g.smallExp(firstTable, r, r+1, r+2, r+3)
			return
		}
		g.expTo(r, r+1, r+2)
	}
	g.arg("x", "R8")
	g.arg("dst", "R9")
	g.arg("n", "CX")
	g.arg("rows", "R10")
	g.e("MOVQ CX, BX")
	g.e("MOVQ CX, R11")
	g.e("SHRQ $%d, R11", shift)
	g.e("ANDQ $%d, CX", i.width-1)
	g.e("MOVQ CX, R13")
	constants := firstTable
	if i.width == 16 {
		constants = expTable.load(g, "expSubSum", constants)
	}
	g.hoist(constants, 31, func(g *fn) { expTo(g, 0) })
	if !g.neon() {
		g.tailMask()
	}

	// pass processes the row in steps of step vectors, then single vectors, then the tail.
	pass := func(name string, step int, vector func(u int)) {
		g.e("MOVQ R8, SI")
		g.e("MOVQ R9, DI")
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
	// fold reduces the lanes of register 8 and broadcasts the result.
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

	g.label("row")
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
		expTo(g, r)
		g.zeroTail(r)
		g.op("VADDPS", r, 8+u, 8+u)
		switch {
		case k.log:
		case g.masked && !g.neon():
			g.op("VMOVAPS", r, end)
		default:
			g.store(r, at(u, "DI"))
		}
	})
	g.op("VADDPS", 9, 8, 8)
	fold("VADDPS")
	if k.log {
		g.e("VBROADCASTSS X8, %s", g.r(0))
		g.op("VMOVAPS", 0, 12)
		g.op("VXORPS", 2, 2, 2)
		g.logNormal(0)
		g.op("VMOVUPS", uint32(0x7f800000), 1)
		g.sel(lt, 12, 1, 0, 12, 12) // a sum is at least 1 or NaN
	}
	switch {
	case k.total:
		g.op("VADDPS", by, 12, 12)
		g.e("VMOVSS X12, (R9)")
		g.e("ADDQ $4, R9")
	case k.log:
		pass("sub", 4, func(u int) {
			g.load(at(u, "SI"), u)
			g.op("VSUBPS", by, u, u)
			g.op("VSUBPS", 12, u, u)
			if g.masked && !g.neon() {
				g.storeEnd(u)
				return
			}
			g.store(u, at(u, "DI"))
		})
	default:
		g.op("VMOVUPS", 1.0, 9)
		if g.neon() {
			g.op("VDIVPS", 8, 9, 8)
		} else {
			g.e("VDIVSS X8, X9, X8")
		}
		g.e("VBROADCASTSS X8, %s", g.r(by))
		pass("mul", 4, func(u int) {
			if g.masked && !g.neon() {
				g.op("VMULPS", by, end, end)
				g.storeEnd(end)
				return
			}
			g.load(at(u, "DI"), u)
			g.op("VMULPS", by, u, u)
			g.store(u, at(u, "DI"))
		})
	}
	g.e("LEAQ (R8)(BX*4), R8")
	if !k.total {
		g.e("LEAQ (R9)(BX*4), R9")
	}
	g.e("DECQ R10")
	g.e("JNZ row")
	g.e("VZEROUPPER")
	g.e("RET")
}

// storeEnd stores the first R13 elements of register r, fewer than a vector, at DI, and changes
// both. A masked store would delay the load of the next row, where it is the same memory, until the
// store is in the cache.
func (g *fn) storeEnd(r int) {
	if g.width == 16 {
		g.e("TESTQ $8, R13")
		g.e("JZ end4")
		g.e("VMOVUPS Y%d, (DI)", r)
		g.e("ADDQ $32, DI")
		g.e("VEXTRACTF64X4 $1, Z%d, Y%d", r, r)
		g.label("end4")
	}
	g.e("TESTQ $4, R13")
	g.e("JZ end2")
	g.e("VMOVUPS X%d, (DI)", r)
	g.e("ADDQ $16, DI")
	g.e("VEXTRACTF128 $1, Y%d, X%d", r, r)
	g.label("end2")
	g.e("TESTQ $2, R13")
	g.e("JZ end1")
	g.e("VMOVSD X%d, (DI)", r)
	g.e("ADDQ $8, DI")
	g.e("VPERMILPD $1, X%d, X%d", r, r)
	g.label("end1")
	g.e("TESTQ $1, R13")
	g.e("JZ ended")
	g.e("VMOVSS X%d, (DI)", r)
	g.label("ended")
}

func (k softmax) dispatch(isas []isa) string {
	// step is the distance in dst per call; walk is the number of rows per call.
	step, walk := "m*n", "min(len(dst)/n, max(1, chunk/n))"
	o := fmt.Sprintf("\n// %[1]sF32 processes rows of n elements, at most chunk each.\n"+
		"func %[1]sF32(l cpu.Level, dst, x []float32, n int) {\n", k.name())
	if k.total {
		step, walk = "m", "min(len(dst), max(1, chunk/n))"
	} else {
		o += "\tx = x[:len(dst)]\n"
	}
	o += "\tswitch l {\n"
	for _, i := range isas {
		o += fmt.Sprintf(`	case cpu.%s:
		for len(dst) > 0 {
			m := %s
			%sF32%s(&dst[0], &x[0], n, m)
			dst, x = dst[%s:], x[m*n:]
		}
`, i.level, walk, k.name(), i.name, step)
	}
	return o + fmt.Sprintf(`	default:
		%sF32Generic(dst, x, n)
	}
}
`, k.name())
}

func (softmax) neon() bool { return true }

func (k softmax) noasm() string {
	return fmt.Sprintf("\nfunc %[1]sF32(_ cpu.Level, dst, x []float32, n int) { %[1]sF32Generic(dst, x, n) }\n",
		k.name())
}
