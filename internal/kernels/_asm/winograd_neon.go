package main

import (
	"fmt"
	"math"
)

// output4NEON is output4 with the constants in lanes of two registers, because NEON has no
// registers for all of them.
func output4NEON(g *fn) {
	const (
		odd1, odd2, even1, bias, lanes, cubes, even2, lo, hi = 24, 25, 26, 27, 28, 29, 30, 24, 25
		next                                                 = bias // loaded last
	)
	outputArgs(g)
	g.e("LEAQ (R13)(R13*1), BX") // six elements: a row of the transformed tile
	constants := func(r int, v ...float64) {
		for i, c := range v {
			g.raw("MOVD $0x%08x, R6", math.Float32bits(float32(c)))
			g.raw("VMOV R6, V%d.S[%d]", r, i)
		}
	}
	constants(lanes, wa, wb, wa*wa, wb*wb)
	constants(cubes, wa*wa*wa, wb*wb*wb)
	// lane writes d = n·constant, or d += n·constant.
	lane := func(add bool, r, i, n, d int) {
		code, name := uint32(0x4f809000), "fmul"
		if add {
			code, name = 0x4f801000, "fmla"
		}
		g.word(code|uint32(i&1)<<21|uint32(i>>1)<<11|uint32(r)<<16|uint32(n)<<5|uint32(d),
			"%s v%d.4s, v%d.4s, v%d.s[%d]", name, d, n, r, i)
	}
	pair := func(a, b, sum, difference int) {
		g.op("VADDPS", b, a, sum)
		g.op("VSUBPS", b, a, difference)
	}
	g.label("tile")
	g.e("MOVQ SI, AX")
	for j := range 6 {
		if j > 0 {
			g.e("ADDQ CX, AX")
		}
		g.e("MOVQ AX, R15")
		load := func(r int) {
			g.e("ADDQ BX, R15")
			g.op("VMOVUPS", "(R15)", r)
		}
		g.op("VMOVUPS", "(AX)", j)
		load(odd1)
		load(next)
		pair(odd1, next, even1, odd1)
		load(odd2)
		load(next)
		pair(odd2, next, even2, odd2)
		g.op("VADDPS", j, even1, j)
		g.op("VADDPS", even2, j, j)
		for k, d := range []int{6 + j, 12 + j} {
			x := [][2]int{{odd1, odd2}, {even1, even2}}[k]
			lane(false, lanes, 2*k, x[0], d)
			lane(true, lanes, 2*k+1, x[1], d)
		}
		load(18 + j)
		lane(true, cubes, 0, odd1, 18+j)
		lane(true, cubes, 1, odd2, 18+j)
	}
	g.op("VMOVUPS", "(R10)", bias)
	g.e("MOVQ DI, AX")
	g.e("MOVQ R11, R15")
	for r := range 4 {
		t := func(j int) int { return r*6 + j }
		pair(t(1), t(2), even1, odd1)
		pair(t(3), t(4), even2, odd2)
		g.op("VADDPS", even1, t(0), t(0))
		g.op("VADDPS", even2, t(0), t(0))
		g.op("VADDPS", bias, t(0), t(0))
		g.move(bias, t(1))
		lane(true, lanes, 0, odd1, t(1))
		lane(true, lanes, 1, odd2, t(1))
		g.move(bias, t(2))
		lane(true, lanes, 2, even1, t(2))
		lane(true, lanes, 3, even2, t(2))
		g.op("VADDPS", bias, t(5), t(3))
		lane(true, cubes, 0, odd1, t(3))
		lane(true, cubes, 1, odd2, t(3))
		g.bcast("lo", lo)
		g.bcast("hi", hi)
		g.finish([]int{t(0), t(1), t(2), t(3)}, fmt.Sprintf("row%d", r), lo, hi)
	}
	g.nextTile(256)
}
