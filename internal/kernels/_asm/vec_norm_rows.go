package main

import "fmt"

var _ = add("norm", normRows{})

// normRows normalizes adjacent rows: (x-mean)/√(variance+eps)·gain + bias, or without the mean if
// center is 0. Rows of at most 64 elements stay in registers, and their sums are float64. stats
// receives the mean and the factor of each row. Since the loop over rows is part of the kernel, the
// processor starts a row while it waits for the sums of the previous one.
type normRows struct{}

func (k normRows) emit(f *file, i isa) {
	if i.width != 16 {
		return
	}
	g := f.function("normRowsF32"+i.name, i,
		[]arg{{"dst", "*float32"}, {"x", "*float32"}, {"gain", "*float32"}, {"bias", "*float32"}, {"stats", "*float32"},
			{"n", "int"}, {"rows", "int"}, {"center", "int"}, {"eps", "float64"}}, nil)
	for _, p := range [][2]string{{"dst", "DI"}, {"x", "SI"}, {"gain", "R8"}, {"bias", "R9"}, {"stats", "R10"},
		{"n", "CX"}, {"rows", "DX"}, {"center", "R11"}} {
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
		// sum leaves the sum of what each adds to Z10, of the upper and lower halves of a vector,
		// divided by n, in all lanes of Z10.
		sum := func(add func(in int)) {
			g.e("VXORPD X10, X10, X10")
			for u := range v {
				g.e("VCVTPS2PD Y%d, Z8", u)
				g.e("VEXTRACTF64X4 $1, Z%d, Y9", u)
				g.e("VCVTPS2PD Y9, Z9")
				add(8)
				add(9)
			}
			k.mean(g, 10)
		}
		g.e("VXORPS X12, X12, X12")
		g.e("TESTQ R11, R11")
		g.e("JZ squares%d", v)
		sum(func(in int) { g.e("VADDPD Z%d, Z10, Z10", in) })
		k.first(g)
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

// mean leaves the sum of the lanes of a register of float64, divided by n, in all of them.
func (normRows) mean(g *fn, r int) {
	for _, s := range []string{"VSHUFF64X2 $0x4E, Z%d, Z%[1]d, Z%d", "VSHUFF64X2 $0xB1, Z%d, Z%[1]d, Z%d",
		"VPERMILPD $0x55, Z%d, Z%d"} {
		g.e(s, r, r+4)
		g.e("VADDPD Z%d, Z%d, Z%d", r+4, r, r)
	}
	g.e("VMULPD Z30, Z%d, Z%d", r, r)
}

// widen is mean for a register of float32.
func (k normRows) widen(g *fn, r int) {
	g.e("VEXTRACTF64X4 $1, Z%d, Y%d", r, r+4)
	g.e("VCVTPS2PD Y%d, Z%d", r, r)
	g.e("VCVTPS2PD Y%d, Z%d", r+4, r+4)
	g.e("VADDPD Z%d, Z%d, Z%d", r+4, r, r)
	k.mean(g, r)
}

// first rounds the mean in Z10 to float32, in all lanes of Z12.
func (normRows) first(g *fn) {
	g.e("VCVTPD2PS Z10, Y12")
	g.e("VBROADCASTSS X12, Z12")
}

// factor turns the variance in Z10 into the factor of the row, in all its lanes, and stores it and
// the mean X12.
func (normRows) factor(g *fn) {
	g.e("VADDSD eps+%d(FP), X10, X10", g.off["eps"])
	g.e("VSQRTSD X10, X10, X10")
	g.e("VDIVSD X10, X31, X10")
	g.e("VCVTSD2SS X10, X10, X10")
	g.e("VMOVSS X12, (R10)")
	g.e("VMOVSS X10, 4(R10)")
	g.e("VBROADCASTSS X10, Z10")
}

// long normalizes rows of more than four vectors, which it reads three times: R12 whole vectors and
// one with the mask K1. Lanes are added in float32, their sums in float64. What remains without the
// first mean has a mean of its own, which corrects the first.
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
	// vectors calls body for the vectors at the offset AX, two at a time, the last ones alone and
	// with a mask.
	vectors := func(name string, body func(set int, at, mask string)) {
		g.e("XORQ AX, AX")
		g.e("MOVQ R12, BX")
		g.label(name)
		for set := range 2 {
			body(set, fmt.Sprintf("%d(%%s)(AX*1)", 64*set), "")
		}
		g.e("ADDQ $128, AX")
		g.e("SUBQ $2, BX")
		g.e("CMPQ BX, $2")
		g.e("JGE %s", name)
		g.e("TESTQ BX, BX")
		g.e("JZ %sLast", name)
		body(0, "(%s)(AX*1)", "")
		g.e("ADDQ $64, AX")
		g.label(name + "Last")
		body(1, "(%s)(AX*1)", "K1, ")
	}
	load := func(at, p, mask string, to int) {
		z := ""
		if mask != "" {
			z = ".Z"
		}
		g.e("VMOVUPS%s "+at+", %sZ%d", z, p, mask, to)
	}
	g.e("VXORPS X12, X12, X12")
	g.e("VXORPS X13, X13, X13")
	g.e("VXORPS X15, X15, X15")
	g.e("TESTQ R11, R11")
	g.e("JZ squares")
	g.e("VXORPS X10, X10, X10")
	g.e("VXORPS X11, X11, X11")
	vectors("mean", func(set int, at, mask string) {
		load(at, "SI", mask, set)
		g.e("VADDPS Z%d, Z%d, Z%d", set, 10+set, 10+set)
	})
	g.e("VADDPS Z11, Z10, Z10")
	k.widen(g, 10)
	k.first(g)
	g.label("squares")
	g.e("VXORPS X10, X10, X10")
	g.e("VXORPS X11, X11, X11")
	vectors("square", func(set int, at, mask string) {
		load(at, "SI", mask, set)
		z := ""
		if mask != "" {
			z = ".Z"
		}
		g.e("VSUBPS%s Z12, Z%d, %sZ%d", z, set, mask, set)
		g.e("VADDPS Z%d, Z%d, Z%d", set, 13+2*set, 13+2*set)
		g.e("VFMADD231PS Z%d, Z%d, Z%d", set, set, 10+set)
	})
	g.e("VADDPS Z11, Z10, Z10")
	g.e("VADDPS Z15, Z13, Z13")
	k.widen(g, 10)
	g.e("TESTQ R11, R11")
	g.e("JZ factor")
	k.widen(g, 13)
	g.e("VFNMADD231SD X13, X13, X10")
	g.e("VCVTSS2SD X12, X12, X12")
	g.e("VADDSD X13, X12, X12")
	g.e("VCVTSD2SS X12, X12, X12")
	g.label("factor")
	k.factor(g)
	g.e("VBROADCASTSS X12, Z12")
	vectors("scale", func(set int, at, mask string) {
		r := 4 * set
		load(at, "SI", mask, r)
		load(at, "R8", mask, r+1)
		load(at, "R9", mask, r+2)
		g.e("VSUBPS Z12, Z%d, Z%d", r, r)
		g.e("VMULPS Z10, Z%d, Z%d", r, r)
		g.e("VMULPS Z%d, Z%d, Z%d", r+1, r, r)
		g.e("VADDPS Z%d, Z%d, Z%d", r+2, r, r)
		g.e("VMOVUPS Z%d, %s"+at, r, mask, "DI")
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
	return "\nfunc normRowsF32(_ cpu.Level, _, _, _, _, _ []float32, _ int, _ float64) bool { return false }\n"
}
