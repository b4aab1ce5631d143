package main

import "fmt"

// winogradAVX2 writes the transforms of winograd for 16 registers. The vectors are halves of a
// block: a loop over n tiles runs twice as often, and its steps alternate. Constants are operands
// in memory.
func winogradAVX2(f *file, in, out, filter []arg) {
	function := func(name string, args []arg) *fn { return f.function(name+avx2.name, avx2, args, nil) }
	input4AVX2(function("winogradInput4", in))
	output4AVX2(function("winogradOutput4", out))
	input2AVX2(function("winogradInput2", in))
	output2(function("winogradOutput2", out))
	filtersAVX2(function("winogradFilter4", filter), 2)
	filtersAVX2(function("winogradFilter2", filter), 1)
}

// inputTiles emits body for both halves of each tile, which are bytes apart in the input.
func (g *fn) inputTiles(bytes int, body func()) {
	for _, p := range [][2]string{{"src", "SI"}, {"dst", "DI"}, {"row", "R8"}, {"xi", "CX"}, {"n", "DX"}} {
		g.arg(p[0], p[1])
	}
	g.e("LEAQ (CX)(CX*2), R13")
	g.e("ADDQ DX, DX")
	g.e("MOVQ $32, BX")
	g.label("tile")
	g.e("LEAQ (SI)(R8*2), R10")
	g.e("LEAQ (R10)(R8*2), R11")
	g.e("MOVQ DI, R12")
	body()
	g.e("ADDQ BX, SI")
	g.e("XORQ $%d, BX", 32^(bytes-32))
	g.e("ADDQ $32, DI")
	g.e("DECQ DX")
	g.e("JNZ tile")
	g.e("VZEROUPPER")
	g.e("RET")
}

// inputAt returns the address of column j of row r of a tile.
func inputAt(r, j int) string {
	return fmt.Sprintf("%d%s", j*64, [...]string{"(SI)", "(SI)(R8*1)", "(R10)", "(R10)(R8*1)", "(R11)",
		"(R11)(R8*1)"}[r])
}

func input4AVX2(g *fn) {
	const a2, b2 = wa * wa, wb * wb
	// second transforms the six values from register t on along the row, in place, and stores them.
	second := func(t int) {
		const u = 15
		d := func(j int) int { return t + j }
		g.op("VFMADD132PS", a2*b2, d(4), d(0))
		g.op("VFNMADD231PS", a2+b2, d(2), d(0))
		g.op("VFMADD231PS", a2*b2, d(1), d(5))
		g.op("VFNMADD231PS", a2+b2, d(3), d(5))
		g.op("VMOVUPS", d(0), "(R12)")
		g.op("VMOVAPS", d(4), u)
		g.op("VFNMADD231PS", b2, d(2), u)
		g.op("VFNMADD231PS", a2, d(2), d(4))
		g.op("VMOVAPS", d(3), d(2))
		g.op("VFNMADD231PS", b2, d(1), d(2))
		g.op("VFNMADD231PS", a2, d(1), d(3))
		g.op("VMOVAPS", u, d(1))
		g.op("VFMADD231PS", wa, d(2), u)
		g.op("VFNMADD231PS", wa, d(2), d(1))
		g.op("VMOVUPS", u, "(R12)(CX*1)")
		g.op("VMOVUPS", d(1), "(R12)(CX*2)")
		g.e("ADDQ R13, R12")
		g.op("VMOVAPS", d(4), d(0))
		g.op("VFMADD231PS", wb, d(3), d(4))
		g.op("VFNMADD231PS", wb, d(3), d(0))
		g.op("VMOVUPS", d(4), "(R12)")
		g.op("VMOVUPS", d(0), "(R12)(CX*1)")
		g.op("VMOVUPS", d(5), "(R12)(CX*2)")
		g.e("ADDQ R13, R12")
	}
	const p, q, s = 12, 13, 14
	end := func(k int) { // as in input4
		g.op("VMOVUPS", a2*b2, p)
		g.op("VMOVUPS", a2+b2, q)
		for j := range 6 {
			g.op("VMOVUPS", inputAt(4+k, j), j)
			g.op("VFMADD231PS", inputAt(k, j), p, j)
			g.op("VFNMADD231PS", inputAt(2+k, j), q, j)
		}
		second(0)
	}
	pair := func(square, point float64) {
		g.op("VMOVUPS", square, p)
		g.op("VMOVUPS", point, q)
		for j := range 6 {
			g.op("VMOVUPS", inputAt(4, j), j)
			g.op("VFNMADD231PS", inputAt(2, j), p, j)
			g.op("VMOVUPS", inputAt(3, j), s)
			g.op("VFNMADD231PS", inputAt(1, j), p, s)
			g.op("VMOVAPS", j, 6+j)
			g.op("VFMADD231PS", q, s, j)
			g.op("VFNMADD231PS", q, s, 6+j)
		}
		second(0)
		second(6)
	}
	g.inputTiles(256, func() {
		end(0)
		pair(b2, wa)
		pair(a2, wb)
		end(1)
	})
}

func input2AVX2(g *fn) {
	g.inputTiles(128, func() {
		for _, r := range []struct {
			op   string
			x, y int // rows: x op y
		}{{"VSUBPS", 0, 2}, {"VADDPS", 2, 1}, {"VSUBPS", 2, 1}, {"VSUBPS", 3, 1}} {
			for j := range 4 {
				g.op("VMOVUPS", inputAt(r.x, j), j)
				g.op(r.op, inputAt(r.y, j), j, j)
			}
			g.op("VSUBPS", 2, 0, 4)
			g.op("VADDPS", 1, 2, 5)
			g.op("VSUBPS", 1, 2, 6)
			g.op("VSUBPS", 1, 3, 7)
			g.op("VMOVUPS", 4, "(R12)")
			g.op("VMOVUPS", 5, "(R12)(CX*1)")
			g.op("VMOVUPS", 6, "(R12)(CX*2)")
			g.op("VMOVUPS", 7, "(R12)(R13*1)")
			g.e("LEAQ (R12)(CX*4), R12")
		}
	})
}

// output4AVX2 is output4 in two passes over the transformed tile, for the outputs' rows 0 and 2,
// which need the sums of pairs of points, and for rows 1 and 3, which need the differences.
func output4AVX2(g *fn) {
	const e1, e2, o1, o2 = 12, 13, 14, 15
	outputArgs(g)
	g.e("LEAQ (R13)(R13*1), BX") // six elements: a row of the transformed tile
	g.label("tile")
	for pass, c := range [][2]float64{{wa * wa, wb * wb}, {wa, wb}} {
		for j := range 6 {
			if j == 0 {
				g.e("MOVQ SI, AX")
			} else {
				g.e("ADDQ CX, AX")
			}
			g.e("LEAQ (AX)(BX*2), R15")
			op := []string{"VADDPS", "VSUBPS"}[pass]
			g.op("VMOVUPS", "(AX)(BX*1)", e1)
			g.op(op, "(R15)", e1, e1)
			g.op("VMOVUPS", "(R15)(BX*1)", e2)
			g.op(op, "(R15)(BX*2)", e2, e2)
			if pass == 0 {
				g.op("VADDPS", "(AX)", e1, j)
				g.op("VADDPS", e2, j, j)
				g.op("VMULPS", c[0], e1, 6+j)
				g.op("VFMADD231PS", c[1], e2, 6+j)
				continue
			}
			g.e("LEAQ (R15)(BX*2), R15")
			g.op("VMULPS", c[0], e1, j)
			g.op("VFMADD231PS", c[1], e2, j)
			g.op("VMOVUPS", "(R15)(BX*1)", 6+j)
			g.op("VFMADD231PS", wa*wa*wa, e1, 6+j)
			g.op("VFMADD231PS", wb*wb*wb, e2, 6+j)
		}
		g.e("MOVQ DI, AX")
		g.e("MOVQ R11, R15")
		if pass == 1 {
			g.e("ADDQ R8, AX")
			g.e("ADDQ R9, R15")
		}
		for r := range 2 {
			t := func(j int) int { return r*6 + j }
			g.op("VADDPS", t(2), t(1), e1)
			g.op("VSUBPS", t(2), t(1), o1)
			g.op("VADDPS", t(4), t(3), e2)
			g.op("VSUBPS", t(4), t(3), o2)
			g.op("VADDPS", e1, t(0), t(0))
			g.op("VADDPS", e2, t(0), t(0))
			g.op("VMOVUPS", "(R10)", t(4)) // bias
			g.op("VADDPS", t(4), t(0), t(0))
			g.op("VMOVAPS", t(4), t(1))
			g.op("VFMADD231PS", wa, o1, t(1))
			g.op("VFMADD231PS", wb, o2, t(1))
			g.op("VMOVAPS", t(4), t(2))
			g.op("VFMADD231PS", wa*wa, e1, t(2))
			g.op("VFMADD231PS", wb*wb, e2, t(2))
			g.op("VADDPS", t(4), t(5), t(3))
			g.op("VFMADD231PS", wa*wa*wa, o1, t(3))
			g.op("VFMADD231PS", wb*wb*wb, o2, t(3))
			g.bcast("lo", e1)
			g.bcast("hi", e2)
			g.finish([]int{t(0), t(1), t(2), t(3)}, fmt.Sprintf("row%d", pass+2*r), e1, e2)
			g.e("ADDQ R8, AX")
			g.e("ADDQ R9, R15")
		}
	}
	g.nextTile(256)
}

// nextHalf advances to the other half of a tile of bytes in a row, or to the next tile: R12 is 32
// or -32, the distance to the other half of the block.
func (g *fn) nextHalf(bytes int) {
	g.e("ADDQ R12, R10")
	g.e("IMUL3Q $%d, R12, R15", -(bytes/2-32)/32)
	g.e("ADDQ $%d, R15", bytes/2)
	g.e("ADDQ R15, DI")
	g.e("TESTQ R11, R11")
	g.e("JZ next")
	g.e("ADDQ R15, R11")
	g.label("next")
	g.e("NEGQ R12")
	g.e("ADDQ $32, SI")
	g.e("DECQ DX")
	g.e("JNZ tile")
	g.e("VZEROUPPER")
	g.e("RET")
}

// filtersAVX2 is filters for four of 16 outputs at a time. Values of the rows of G·g are computed
// when they are needed.
func filtersAVX2(g *fn, pairs int) {
	for _, p := range [][2]string{{"src", "SI"}, {"dst", "DI"}, {"points", "DX"}, {"xi", "R8"}, {"n", "CX"}} {
		g.arg(p[0], p[1])
	}
	const constant, odd = 15, 14
	scale := func(op string, k, x, d int) {
		g.op("VBROADCASTSD", fmt.Sprintf("%d(DX)", k*8), constant)
		g.op(op, constant, x, d)
	}
	side := 2*pairs + 2
	// combine writes element i of G·(x0, x1, x2) to register d.
	combine := func(i, x0, x1, x2, d int) {
		switch i {
		case 0:
			scale("VMULPD", 0, x0, d)
		case side - 1:
			g.op("VMOVAPD", x2, d)
		default:
			k := 1 + (i-1)/2*3
			scale("VMULPD", k, x0, d)
			scale("VFMADD231PD", k+2, x2, d)
			scale("VMULPD", k+1, x1, odd)
			g.op([]string{"VSUBPD", "VADDPD"}[i%2], odd, d, d)
		}
	}
	g.e("SHLQ $2, CX")
	g.label("quarter")
	for t := range 9 {
		g.e("VCVTPS2PD %d(SI), Y%d", t*64, t)
	}
	g.e("MOVQ DI, AX")
	for i := range side {
		for v := range 3 {
			combine(i, v, 3+v, 6+v, 9+v)
		}
		for j := range side {
			combine(j, 9, 10, 11, 12)
			g.e("VCVTPD2PSY Y12, X12")
			g.e("VMOVUPS X12, (AX)")
			g.e("ADDQ R8, AX")
		}
	}
	g.e("ADDQ $16, SI")
	g.e("ADDQ $16, DI")
	g.e("DECQ CX")
	g.e("TESTQ $3, CX")
	g.e("JNZ quarter")
	g.e("ADDQ $512, SI") // the other eight taps
	g.e("ADDQ $64, DI")  // the other block of a panel
	g.e("TESTQ CX, CX")
	g.e("JNZ quarter")
	g.e("VZEROUPPER")
	g.e("RET")
}
