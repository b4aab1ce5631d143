package main

import "fmt"

// The interpolation points are 0, ±a, ±b and infinity; a and b are exact in float32.
const wa, wb = 0.75, 1.5

// winograd writes the input and output transforms of F(4×4, 3×3) and F(2×2, 3×3) for blocks of 16
// channels. An input transform reads n adjacent tiles, which overlap by two pixels, and writes
// element xi of tile t to dst + xi·stride + t·64 bytes. An output transform reads elements in that
// layout. The vectors of NEON are quarters of a block; its functions compute one.
func winograd(f *file, isa isa) {
	in := []arg{{"src", "*float32"}, {"dst", "*float32"}, {"row", "int"}, {"xi", "int"}, {"n", "int"}}
	out := []arg{{"src", "*float32"}, {"dst", "*float32"}, {"bias", "*float32"}, {"add", "*float32"}, {"row", "int"},
		{"addRow", "int"}, {"xi", "int"}, {"n", "int"}, {"lo", "float32"}, {"hi", "float32"}}
	filter := []arg{{"src", "*float32"}, {"dst", "*float32"}, {"points", "*float64"}, {"xi", "int"}, {"n", "int"}}
	if isa == avx2 {
		winogradAVX2(f, in, out, filter)
		return
	}
	function := func(name string, args []arg) *fn { return f.function(name+isa.name, isa, args, nil) }
	input4(function("winogradInput4", in))
	if isa.neon() {
		output4NEON(function("winogradOutput4", out))
	} else {
		output4(function("winogradOutput4", out))
	}
	input2(function("winogradInput2", in))
	output2(function("winogradOutput2", out))
	if isa.neon() {
		return
	}
	filters(f.function("winogradFilter4AVX512", avx512, filter, nil), 2)
	filters(f.function("winogradFilter2AVX512", avx512, filter, nil), 1)
}

func input4(g *fn) {
	const a2, b2 = wa * wa, wb * wb
	for _, p := range [][2]string{{"src", "SI"}, {"dst", "DI"}, {"row", "R8"}, {"xi", "CX"}, {"n", "DX"}} {
		g.arg(p[0], p[1])
	}
	first := 26 // constants
	if g.neon() {
		first = topNEON - 6
	}
	for i, c := range []float64{a2 * b2, a2 + b2, b2, a2, wa, wb} {
		g.op("VMOVUPS", c, first+i)
	}
	g.e("LEAQ (CX)(CX*2), R13")
	g.label("tile")
	g.e("LEAQ (SI)(R8*2), R10")
	g.e("LEAQ (R10)(R8*2), R11")
	g.e("MOVQ DI, R12")
	at := func(r, j int) string {
		return fmt.Sprintf("%d", j*64) + [...]string{"(SI)", "(SI)(R8*1)", "(R10)", "(R10)(R8*1)",
			"(R11)", "(R11)(R8*1)"}[r]
	}
	// second transforms the six values t along the row and stores them.
	second := func(t [6]int) {
		g.op("VMOVAPS", t[4], 18)
		g.op("VFMADD231PS", first, t[0], 18)
		g.op("VFNMADD231PS", first+1, t[2], 18)
		g.op("VMOVAPS", t[5], 19)
		g.op("VFMADD231PS", first, t[1], 19)
		g.op("VFNMADD231PS", first+1, t[3], 19)
		g.op("VMOVAPS", t[4], 20)
		g.op("VFNMADD231PS", first+2, t[2], 20)
		g.op("VMOVAPS", t[3], 21)
		g.op("VFNMADD231PS", first+2, t[1], 21)
		g.op("VFNMADD231PS", first+3, t[2], t[4])
		g.op("VFNMADD231PS", first+3, t[1], t[3])
		g.op("VMOVAPS", 20, 22)
		g.op("VFMADD231PS", first+4, 21, 20)
		g.op("VFNMADD231PS", first+4, 21, 22)
		g.op("VMOVAPS", t[4], 23)
		g.op("VFMADD231PS", first+5, t[3], t[4])
		g.op("VFNMADD231PS", first+5, t[3], 23)
		g.op("VMOVUPS", 18, "(R12)")
		g.op("VMOVUPS", 20, "(R12)(CX*1)")
		g.op("VMOVUPS", 22, "(R12)(CX*2)")
		g.e("ADDQ R13, R12")
		g.op("VMOVUPS", t[4], "(R12)")
		g.op("VMOVUPS", 23, "(R12)(CX*1)")
		g.op("VMOVUPS", 19, "(R12)(CX*2)")
		g.e("ADDQ R13, R12")
	}
	low, high := [6]int{0, 1, 2, 3, 4, 5}, [6]int{6, 7, 8, 9, 10, 11}
	// Rows 0 and 5 of the transformed column: a²b²·d0 - (a²+b²)·d2 + d4, with indices increased by
	// one for row 5.
	end := func(k int) {
		for j := range 6 {
			g.op("VMOVUPS", at(4+k, j), j)
			g.op("VMOVUPS", at(k, j), 6+j)
			g.op("VFMADD231PS", first, 6+j, j)
			g.op("VFNMADD231PS", at(2+k, j), first+1, j)
		}
		second(low)
	}
	// Rows of a pair of points: (d4 - q·d2) ± m·(d3 - q·d1).
	pair := func(q, m int) {
		for j := range 6 {
			g.op("VMOVUPS", at(4, j), j)
			g.op("VFNMADD231PS", at(2, j), q, j)
			g.op("VMOVUPS", at(3, j), 12)
			g.op("VFNMADD231PS", at(1, j), q, 12)
			g.op("VMOVAPS", j, 6+j)
			g.op("VFMADD231PS", m, 12, j)
			g.op("VFNMADD231PS", m, 12, 6+j)
		}
		second(low)
		second(high)
	}
	end(0)
	pair(first+2, first+4)
	pair(first+3, first+5)
	end(1)
	g.e("ADDQ $256, SI")
	g.e("ADDQ $64, DI")
	g.e("DECQ DX")
	g.e("JNZ tile")
	g.e("VZEROUPPER")
	g.e("RET")
}

func outputArgs(g *fn) {
	for _, p := range [][2]string{{"src", "SI"}, {"dst", "DI"}, {"bias", "R10"}, {"add", "R11"}, {"row", "R8"},
		{"addRow", "R9"}, {"xi", "CX"}, {"n", "DX"}} {
		g.arg(p[0], p[1])
	}
	g.e("LEAQ (CX)(CX*2), R13")
	if g.width == 8 {
		g.e("ADDQ DX, DX")
		g.e("MOVQ $32, R12")
	}
}

func output4(g *fn) {
	outputArgs(g)
	g.bcast("lo", 31)
	g.e("LEAQ (R13)(R13*1), BX") // six elements: a row of the transformed tile
	g.label("tile")
	for j := range 6 {
		switch j {
		case 0:
			g.e("MOVQ SI, AX")
		case 1, 2, 4:
			g.e("LEAQ (SI)(CX*%d), AX", j)
		case 3:
			g.e("LEAQ (SI)(R13*1), AX")
		case 5:
			g.e("LEAQ (SI)(R13*1), AX")
			g.e("LEAQ (AX)(CX*2), AX")
		}
		g.e("LEAQ (AX)(BX*2), R15")
		g.op("VMOVUPS", "(AX)(BX*1)", 24)
		g.op("VADDPS", "(R15)", 24, 25) // sums and differences of pairs of points
		g.op("VSUBPS", "(R15)", 24, 26)
		g.op("VMOVUPS", "(R15)(BX*1)", 27)
		g.op("VADDPS", "(R15)(BX*2)", 27, 28)
		g.op("VSUBPS", "(R15)(BX*2)", 27, 29)
		g.e("LEAQ (R15)(BX*2), R15")
		g.op("VADDPS", "(AX)", 25, 30)
		g.op("VADDPS", 28, 30, j)
		g.op("VMULPS", wa, 26, 6+j)
		g.op("VFMADD231PS", wb, 29, 6+j)
		g.op("VMULPS", wa*wa, 25, 12+j)
		g.op("VFMADD231PS", wb*wb, 28, 12+j)
		g.op("VMOVUPS", "(R15)(BX*1)", 18+j)
		g.op("VFMADD231PS", wa*wa*wa, 26, 18+j)
		g.op("VFMADD231PS", wb*wb*wb, 29, 18+j)
	}
	g.bcast("hi", 30)
	g.op("VMOVUPS", "(R10)", 27)
	g.e("MOVQ DI, AX")
	g.e("MOVQ R11, R15")
	for r := range 4 {
		t := func(j int) int { return r*6 + j }
		g.op("VADDPS", t(2), t(1), 25)
		g.op("VSUBPS", t(2), t(1), 26)
		g.op("VADDPS", t(4), t(3), 28)
		g.op("VSUBPS", t(4), t(3), 29)
		g.op("VADDPS", 25, t(0), t(0))
		g.op("VADDPS", 28, t(0), t(0))
		g.op("VADDPS", 27, t(0), t(0))
		g.op("VMOVAPS", 27, t(1))
		g.op("VFMADD231PS", wa, 26, t(1))
		g.op("VFMADD231PS", wb, 29, t(1))
		g.op("VMOVAPS", 27, t(2))
		g.op("VFMADD231PS", wa*wa, 25, t(2))
		g.op("VFMADD231PS", wb*wb, 28, t(2))
		g.op("VADDPS", 27, t(5), t(3))
		g.op("VFMADD231PS", wa*wa*wa, 26, t(3))
		g.op("VFMADD231PS", wb*wb*wb, 29, t(3))
		g.finish([]int{t(0), t(1), t(2), t(3)}, fmt.Sprintf("row%d", r), 31, 30)
	}
	g.nextTile(256)
}

// finish adds the residual, clips and stores one row of an output tile.
func (g *fn) finish(regs []int, label string, lo, hi int) {
	g.e("TESTQ R11, R11")
	g.e("JZ %s", label)
	for q, t := range regs {
		g.op("VADDPS", fmt.Sprintf("%d(R15)", q*64), t, t)
	}
	g.e("ADDQ R9, R15")
	g.label(label)
	for q, t := range regs {
		g.op("VMAXPS", t, lo, t)
		g.op("VMINPS", t, hi, t)
		g.op("VMOVUPS", t, fmt.Sprintf("%d(AX)", q*64))
	}
	g.e("ADDQ R8, AX")
}

func (g *fn) nextTile(bytes int) {
	if g.width == 8 {
		g.nextHalf(bytes)
		return
	}
	g.e("TESTQ R11, R11")
	g.e("JZ next")
	g.e("ADDQ $%d, R11", bytes)
	g.label("next")
	g.e("ADDQ $64, SI")
	g.e("ADDQ $%d, DI", bytes)
	g.e("DECQ DX")
	g.e("JNZ tile")
	g.e("VZEROUPPER")
	g.e("RET")
}

func input2(g *fn) {
	for _, p := range [][2]string{{"src", "SI"}, {"dst", "DI"}, {"row", "R8"}, {"xi", "CX"}, {"n", "DX"}} {
		g.arg(p[0], p[1])
	}
	g.e("LEAQ (CX)(CX*2), R13")
	g.label("tile")
	g.e("LEAQ (SI)(R8*2), R10")
	g.e("MOVQ DI, R12")
	for j := range 4 {
		g.op("VMOVUPS", fmt.Sprintf("%d(SI)", j*64), j)
		g.op("VMOVUPS", fmt.Sprintf("%d(SI)(R8*1)", j*64), 16)
		g.op("VMOVUPS", fmt.Sprintf("%d(R10)", j*64), 17)
		g.op("VMOVUPS", fmt.Sprintf("%d(R10)(R8*1)", j*64), 18)
		g.op("VSUBPS", 17, j, j)
		g.op("VADDPS", 16, 17, 4+j)
		g.op("VSUBPS", 16, 17, 8+j)
		g.op("VSUBPS", 16, 18, 12+j)
	}
	for i := range 4 {
		t := func(j int) int { return i*4 + j }
		g.op("VSUBPS", t(2), t(0), 20)
		g.op("VADDPS", t(1), t(2), 21)
		g.op("VSUBPS", t(1), t(2), 22)
		g.op("VSUBPS", t(1), t(3), 23)
		g.op("VMOVUPS", 20, "(R12)")
		g.op("VMOVUPS", 21, "(R12)(CX*1)")
		g.op("VMOVUPS", 22, "(R12)(CX*2)")
		g.op("VMOVUPS", 23, "(R12)(R13*1)")
		g.e("LEAQ (R12)(CX*4), R12")
	}
	g.e("ADDQ $128, SI")
	g.e("ADDQ $64, DI")
	g.e("DECQ DX")
	g.e("JNZ tile")
	g.e("VZEROUPPER")
	g.e("RET")
}

func output2(g *fn) {
	outputArgs(g)
	if g.neon() {
		g.e("MOVQ CX, BX")
		g.e("SHLQ $2, BX")
	} else {
		g.e("LEAQ (CX*4), BX")
	}
	x, bias := 16, 27
	if g.width == 8 {
		x, bias = 8, 13
	}
	y, even, odd, lo, hi := x+1, x+2, x+3, bias+1, bias+2
	if g.width != 8 {
		g.op("VMOVUPS", "(R10)", bias)
	}
	g.bcast("lo", lo)
	g.bcast("hi", hi)
	g.label("tile")
	if g.width == 8 {
		g.op("VMOVUPS", "(R10)", bias)
	}
	for j := range 4 {
		switch j {
		case 0:
			g.e("MOVQ SI, AX")
		case 1, 2:
			g.e("LEAQ (SI)(CX*%d), AX", j)
		case 3:
			g.e("LEAQ (SI)(R13*1), AX")
		}
		g.e("LEAQ (AX)(BX*2), R15")
		g.op("VMOVUPS", "(AX)(BX*1)", x)
		g.op("VMOVUPS", "(R15)", y)
		g.op("VADDPS", y, x, j)
		g.op("VADDPS", "(AX)", j, j)
		g.op("VSUBPS", y, x, 4+j)
		g.op("VADDPS", "(R15)(BX*1)", 4+j, 4+j)
	}
	g.e("MOVQ DI, AX")
	g.e("MOVQ R11, R15")
	for r := range 2 {
		t := func(j int) int { return r*4 + j }
		g.op("VADDPS", t(2), t(1), even)
		g.op("VSUBPS", t(2), t(1), odd)
		g.op("VADDPS", bias, t(0), t(0))
		g.op("VADDPS", even, t(0), even)
		g.op("VADDPS", bias, t(3), t(3))
		g.op("VADDPS", odd, t(3), odd)
		g.finish([]int{even, odd}, fmt.Sprintf("row%d", r), lo, hi)
	}
	g.nextTile(128)
}

// filters writes a kernel that transforms n filters of 16 outputs, [n][9][16], in float64. points
// holds the factor of point 0 and, for each pair of points ±p, the factors of g0, g1 and g2.
// Element xi of filter c is written to dst + xi·stride + c·128 bytes.
func filters(g *fn, pairs int) {
	for _, p := range [][2]string{{"src", "SI"}, {"dst", "DI"}, {"points", "DX"}, {"xi", "R8"}, {"n", "CX"}} {
		g.arg(p[0], p[1])
	}
	side := 2*pairs + 2
	// transform writes the side combinations of registers x0, x1, x2 to to(0) … to(side-1). The
	// last of these may be x2.
	const even, odd = 30, 31
	transform := func(x0, x1, x2 int, to func(i int) int) {
		for p := range pairs {
			c := func(k int) string { return fmt.Sprintf("%d(DX)", 8+p*24+k*8) }
			g.op("VMULPD.BCST", c(0), x0, even)
			g.op("VFMADD231PD.BCST", c(2), x2, even)
			g.op("VMULPD.BCST", c(1), x1, odd)
			g.op("VADDPD", odd, even, to(1+2*p))
			g.op("VSUBPD", odd, even, to(2+2*p))
		}
		g.op("VMULPD.BCST", "(DX)", x0, to(0))
		if to(side-1) != x2 {
			g.op("VMOVAPD", x2, to(side-1))
		}
	}
	g.label("filter")
	for half := range 2 {
		for v := range 3 {
			for u := range 3 {
				g.e("VCVTPS2PD %d(SI), Z%d", (u*3+v)*64+half*32, 27+u)
			}
			transform(27, 28, 29, func(i int) int { return v*side + i })
		}
		g.e("LEAQ %d(DI), AX", half*32)
		for i := range side {
			transform(i, side+i, 2*side+i, func(j int) int { return 18 + j })
			for j := range side {
				g.e("VCVTPD2PS Z%d, Y%d", 18+j, 18+j)
				g.e("VMOVUPS Y%d, (AX)", 18+j)
				g.e("ADDQ R8, AX")
			}
		}
	}
	g.e("ADDQ $576, SI")
	g.e("ADDQ $128, DI")
	g.e("DECQ CX")
	g.e("JNZ filter")
	g.e("VZEROUPPER")
	g.e("RET")
}
