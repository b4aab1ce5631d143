package main

import "fmt"

// normRows normalizes adjacent rows of at most 64 elements, which stay in registers: (x-mean)/√(variance+eps)·gain + bias, or
// without the mean if center is 0. Sums are float64. Since the loop over rows is part of the kernel, the processor starts a row
// while it waits for the sums of the previous one. stats receives the mean and the factor of each row.
type normRows struct{}

func (k normRows) emit(f *file, i isa) {
	if i.width != 16 {
		return
	}
	g := f.function("normRowsF32"+i.name, i, []arg{{"dst", "*float32"}, {"x", "*float32"}, {"gain", "*float32"}, {"bias", "*float32"}, {"stats", "*float32"},
		{"n", "int"}, {"rows", "int"}, {"center", "int"}, {"eps", "float64"}}, nil)
	for _, p := range [][2]string{{"dst", "DI"}, {"x", "SI"}, {"gain", "R8"}, {"bias", "R9"}, {"stats", "R10"}, {"n", "CX"}, {"rows", "DX"}, {"center", "R11"}} {
		g.arg(p[0], p[1])
	}
	g.e("VXORPD X30, X30, X30")
	g.e("VCVTSI2SDQ CX, X30, X30")
	g.e("MOVQ $0x3FF0000000000000, AX")
	g.e("VMOVQ AX, X31")
	g.e("VDIVSD X30, X31, X30") // 1/n
	g.e("VBROADCASTSD X30, Z30")
	g.e("CMPQ CX, $64")
	g.e("JGT long")
	g.e("MOVQ $-1, AX")
	g.e("BZHIQ CX, AX, AX")
	for u, m := range windowMasks {
		if u > 0 {
			g.e("SHRQ $16, AX")
		}
		g.e("KMOVW AX, %s", m)
	}
	g.e("SHLQ $2, CX")
	for _, v := range []int{1, 2} {
		g.e("CMPQ CX, $%d", 64*v)
		g.e("JLE row%d", v)
	}
	for _, v := range []int{4, 2, 1} {
		g.label(fmt.Sprintf("row%d", v))
		for u := range v {
			g.e("VMOVUPS.Z %d(SI), %s, Z%d", 64*u, windowMasks[u], u)
		}
		// sum leaves the sum of what each adds to Z10, of the upper and lower halves of a vector, divided by n, in all lanes of Z10.
		sum := func(add func(in int)) {
			g.e("VXORPD X10, X10, X10")
			for u := range v {
				g.e("VCVTPS2PD Y%d, Z8", u)
				g.e("VEXTRACTF64X4 $1, Z%d, Y9", u)
				g.e("VCVTPS2PD Y9, Z9")
				add(8)
				add(9)
			}
			k.mean(g)
		}
		g.e("VXORPS X12, X12, X12")
		g.e("TESTQ R11, R11")
		g.e("JZ squares%d", v)
		sum(func(in int) { g.e("VADDPD Z%d, Z10, Z10", in) })
		g.e("VCVTPD2PS Z10, Y12")
		g.e("VBROADCASTSS X12, Z12")
		for u := range v {
			g.e("VSUBPS.Z Z12, Z%d, %s, Z%d", u, windowMasks[u], u)
		}
		g.label(fmt.Sprintf("squares%d", v))
		sum(func(in int) { g.e("VFMADD231PD Z%d, Z%d, Z10", in, in) })
		k.factor(g)
		for u := range v {
			g.e("VMULPS Z10, Z%d, Z%d", u, u)
			g.e("VMOVUPS.Z %d(R8), %s, Z8", 64*u, windowMasks[u])
			g.e("VMOVUPS.Z %d(R9), %s, Z9", 64*u, windowMasks[u])
			g.e("VMULPS Z8, Z%d, Z%d", u, u)
			g.e("VADDPS Z9, Z%d, Z%d", u, u)
			g.e("VMOVUPS Z%d, %s, %d(DI)", u, windowMasks[u], 64*u)
		}
		g.e("ADDQ CX, SI")
		g.e("ADDQ CX, DI")
		g.e("ADDQ $8, R10")
		g.e("DECQ DX")
		g.e("JNZ row%d", v)
		g.e("VZEROUPPER")
		g.e("RET")
	}
	g.label("long")
	k.long(g)
}

// mean leaves the sum of the lanes of Z10, divided by n, in all of them.
func (normRows) mean(g *fn) {
	for _, s := range []string{"VSHUFF64X2 $0x4E, Z10, Z10, Z11", "VSHUFF64X2 $0xB1, Z10, Z10, Z11", "VPERMILPD $0x55, Z10, Z11"} {
		g.e("%s", s)
		g.e("VADDPD Z11, Z10, Z10")
	}
	g.e("VMULPD Z30, Z10, Z10")
}

// factor turns the variance in Z10 into the factor of the row, and stores it and the mean X12.
func (normRows) factor(g *fn) {
	g.e("VADDSD eps+%d(FP), X10, X10", g.off["eps"])
	g.e("VSQRTSD X10, X10, X10")
	g.e("VDIVSD X10, X31, X10")
	g.e("VCVTSD2SS X10, X10, X10")
	g.e("VMOVSS X12, (R10)")
	g.e("VMOVSS X10, 4(R10)")
	g.e("VBROADCASTSS X10, Z10")
}

// long normalizes rows of more than four vectors, which it reads three times: R12 whole vectors and one with the mask K1.
func (k normRows) long(g *fn) {
	g.e("LEAQ -1(CX), R12")
	g.e("SHRQ $4, R12")
	g.e("MOVQ R12, BX")
	g.e("SHLQ $4, BX")
	g.e("NEGQ BX")
	g.e("ADDQ CX, BX")
	g.e("MOVQ $-1, AX")
	g.e("BZHIQ BX, AX, AX")
	g.e("KMOVW AX, K1")
	g.e("SHLQ $2, CX")
	g.label("row")
	// vectors calls body for the vectors at the offset AX, the last time with a mask.
	vectors := func(name string, body func(load func(from string, to int), mask string)) {
		g.e("XORQ AX, AX")
		g.e("MOVQ R12, BX")
		g.label(name)
		body(func(from string, to int) { g.e("VMOVUPS %s, Z%d", from, to) }, "")
		g.e("ADDQ $64, AX")
		g.e("DECQ BX")
		g.e("JNZ %s", name)
		body(func(from string, to int) { g.e("VMOVUPS.Z %s, K1, Z%d", from, to) }, "K1, ")
	}
	sum := func(name string, add func(in, acc int)) {
		g.e("VXORPD X10, X10, X10")
		g.e("VXORPD X11, X11, X11")
		vectors(name, func(load func(from string, to int), mask string) {
			load("(SI)(AX*1)", 0)
			z := ""
			if mask != "" {
				z = ".Z"
			}
			g.e("VSUBPS%s Z12, Z0, %sZ0", z, mask)
			g.e("VCVTPS2PD Y0, Z8")
			g.e("VEXTRACTF64X4 $1, Z0, Y9")
			g.e("VCVTPS2PD Y9, Z9")
			add(8, 10)
			add(9, 11)
		})
		g.e("VADDPD Z11, Z10, Z10")
		k.mean(g)
	}
	g.e("VXORPS X12, X12, X12")
	g.e("TESTQ R11, R11")
	g.e("JZ squares")
	sum("mean", func(in, acc int) { g.e("VADDPD Z%d, Z%d, Z%d", in, acc, acc) })
	g.e("VCVTPD2PS Z10, Y12")
	g.e("VBROADCASTSS X12, Z12")
	g.label("squares")
	sum("square", func(in, acc int) { g.e("VFMADD231PD Z%d, Z%d, Z%d", in, in, acc) })
	k.factor(g)
	vectors("scale", func(load func(from string, to int), mask string) {
		load("(SI)(AX*1)", 0)
		load("(R8)(AX*1)", 8)
		load("(R9)(AX*1)", 9)
		g.e("VSUBPS Z12, Z0, Z0")
		g.e("VMULPS Z10, Z0, Z0")
		g.e("VMULPS Z8, Z0, Z0")
		g.e("VADDPS Z9, Z0, Z0")
		g.e("VMOVUPS Z0, %s(DI)(AX*1)", mask)
	})
	g.e("ADDQ CX, SI")
	g.e("ADDQ CX, DI")
	g.e("ADDQ $8, R10")
	g.e("DECQ DX")
	g.e("JNZ row")
	g.e("VZEROUPPER")
	g.e("RET")
}

func (normRows) neon() bool { return false }

func (normRows) dispatch([]isa) string {
	return `
func normRowsF32(l cpu.Level, dst, x, gain, bias, stats []float32, center int, eps float64) bool {
	if l != cpu.AVX512 {
		return false
	}
	for n, rows := len(gain), 0; len(stats) > 0; dst, x, stats = dst[rows*n:], x[rows*n:], stats[2*rows:] {
		rows = min(len(stats)/2, 512, 1<<16/n) // keeps calls short
		normRowsF32AVX512(&dst[0], &x[0], &gain[0], &bias[0], &stats[0], n, rows, center, eps)
	}
	return true
}
`
}

func (normRows) noasm() string {
	return "\nfunc normRowsF32(cpu.Level, []float32, []float32, []float32, []float32, []float32, int, float64) bool { return false }\n"
}
