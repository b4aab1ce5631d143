package main

import (
	"fmt"
	"strings"
)

// Offsets of the fields of gemm's tileF32, which every tile function takes.
const (
	tA, tB, tC          = 0, 8, 16
	tLdA, tLdB, tLdC    = 24, 32, 40
	tK                  = 48
	tBias, tRow         = 56, 64
	tAdd, tLdAdd        = 72, 80
	tAcc, tAct          = 88, 96
	tAlpha, tLo, tHi    = 104, 108, 112
	tMask, tScaled      = 116, 120
	tPrefetch, tPfStep  = 128, 136
	relu, clip          = 1, 2
	unrollK             = 4
	rowsAVX512, rowsAVX = 14, 6
)

// rowAddr is the operand of row i of A at displacement d: AX is row 0, SI row 9, R8 the stride,
// R9, R10 and R11 three, five and seven strides.
func rowAddr(i, d int) string {
	return fmt.Sprintf("%d", d) + [...]string{"(AX)", "(AX)(R8*1)", "(AX)(R8*2)", "(AX)(R9*1)", "(AX)(R8*4)", "(AX)(R10*1)", "(AX)(R9*2)", "(AX)(R11*1)",
		"(AX)(R8*8)", "(SI)", "(SI)(R8*1)", "(SI)(R8*2)", "(SI)(R9*1)", "(SI)(R8*4)"}[i]
}

// arithmetic is what a tile does with a step of k, four bytes of A and a vector of B.
type arithmetic struct {
	suffix string // of the names, before the level
	args   string // Go type of the arguments
	add    string
	float  bool
	mul    func(g *fn, b, a, acc, temp int) // acc += a·b
	temp   bool                             // mul needs temp
}

var (
	fusedF32 = arithmetic{suffix: "F32", args: "*tileF32", add: "VADDPS", float: true, mul: func(g *fn, b, a, acc, _ int) {
		g.op("VFMADD231PS", b, a, acc)
	}}
	// four unsigned bytes of A times four signed bytes of B
	dotU8S8 = arithmetic{suffix: "U8S8", args: "*tileI32", add: "VPADDD", mul: func(g *fn, b, a, acc, _ int) {
		g.op("VPDPBUSD", b, a, acc)
	}}
	// two 16-bit integers of each
	dotI16 = arithmetic{suffix: "I16", args: "*tileI32", add: "VPADDD", temp: true, mul: func(g *fn, b, a, acc, temp int) {
		g.op("VPMADDWD", b, a, temp)
		g.op("VPADDD", temp, acc, acc)
	}}
)

// gemmTile writes the tile of mr rows by two vectors of columns.
func gemmTile(f *file, i isa, mr int, ar arithmetic) string {
	name := fmt.Sprintf("tile%dx%d%s%s", mr, 2*i.width, ar.suffix, i.name)
	g := f.function(name, i, []arg{{"t", ar.args}}, nil)
	vb := i.width * 4
	sets := 1 // independent sums, so that few rows do not wait for the latency of the multiply-add
	if i.width == 16 && mr <= 2 {
		sets = 4
	} else if mr <= 3 {
		sets = 2
	}
	nregs := 32
	if i.width == 8 {
		nregs = 16
		sets = min(sets, 12/(2*mr))
	}
	acc := func(s, r, j int) int { return nregs - 2*mr*sets + s*2*mr + r*2 + j }
	masked := i.width == 16
	ld := func(mem string, j, r int) {
		if masked {
			g.op("VMOVUPS.Z", mem, fmt.Sprintf("K%d", j+1), r)
		} else {
			g.op("VMOVUPS", mem, r)
		}
	}
	st := func(r, j int, mem string) {
		if masked {
			g.op("VMOVUPS", r, fmt.Sprintf("K%d", j+1), mem)
		} else {
			g.op("VMOVUPS", r, mem)
		}
	}
	g.arg("t", "DX")
	for _, p := range []struct {
		off int
		reg string
	}{{tA, "AX"}, {tB, "DI"}, {tLdA, "R8"}, {tLdB, "R12"}, {tC, "R15"}, {tLdC, "BX"}} {
		g.e("MOVQ %d(DX), %s", p.off, p.reg)
	}
	if masked {
		g.e("KMOVW %d(DX), K1", tMask)
		g.e("KMOVW %d(DX), K2", tMask+2)
	}
	g.e("LEAQ (R8)(R8*2), R9")
	g.e("LEAQ (R8)(R8*4), R10")
	g.e("LEAQ (R9)(R8*4), R11")
	g.e("LEAQ (AX)(R8*8), SI")
	g.e("ADDQ R8, SI")
	g.e("LEAQ (R12)(R12*2), R13")
	g.e("CMPQ %d(DX), $0", tAcc)
	g.e("JNE accumulate")
	for s := range sets {
		for r := range mr {
			for j := range 2 {
				g.op("VXORPS", acc(s, r, j), acc(s, r, j), acc(s, r, j))
				if s == 0 && i.width == 16 {
					if j == 0 {
						g.e("PREFETCHT0 (R15)")
					} else {
						g.e("PREFETCHT0 64(R15)")
					}
				}
			}
			if s == 0 {
				g.e("ADDQ BX, R15")
			}
		}
	}
	g.e("JMP start")
	g.label("accumulate")
	for s := range sets {
		for r := range mr {
			for j := range 2 {
				if s == 0 {
					ld(fmt.Sprintf("%d(R15)", j*vb), j, acc(s, r, j))
				} else {
					g.op("VXORPS", acc(s, r, j), acc(s, r, j), acc(s, r, j))
				}
			}
			if s == 0 {
				g.e("ADDQ BX, R15")
			}
		}
	}
	g.label("start")
	step := func(u, s int, b string) {
		for j := range 2 {
			ld(fmt.Sprintf("%d%s", j*vb, b), j, j)
		}
		for r := range mr {
			t := 2 + r%2
			if nregs-2*mr*sets < 4 || ar.temp {
				t = 2
			}
			g.op("VBROADCASTSS", rowAddr(r, 4*u), t)
			for j := range 2 {
				ar.mul(g, j, t, acc(s, r, j), 3)
			}
		}
	}
	g.e("MOVQ %d(DX), CX", tK)
	g.e("MOVQ %d(DX), R15", tPrefetch)
	g.e("MOVQ %d(DX), BX", tPfStep)
	g.e("SUBQ $%d, CX", unrollK)
	g.e("JLT rest")
	g.e("PCALIGN $32")
	g.label("loop")
	for u := range unrollK {
		if i.width == 16 {
			if u%2 == 0 {
				g.e("PREFETCHT1 %d(R15)", u*32)
			}
		}
		step(u, u%sets, [...]string{"(DI)", "(DI)(R12*1)", "(DI)(R12*2)", "(DI)(R13*1)"}[u])
	}
	g.e("ADDQ $%d, AX", 4*unrollK)
	if mr > 9 {
		g.e("ADDQ $%d, SI", 4*unrollK)
	}
	g.e("LEAQ (DI)(R12*4), DI")
	g.e("ADDQ BX, R15")
	g.e("SUBQ $%d, CX", unrollK)
	g.e("JGE loop")
	g.label("rest")
	g.e("ADDQ $%d, CX", unrollK)
	g.e("JZ epilogue")
	g.label("one")
	step(0, 0, "(DI)")
	g.e("ADDQ $4, AX")
	g.e("ADDQ $4, SI")
	g.e("ADDQ R12, DI")
	g.e("DECQ CX")
	g.e("JNZ one")
	g.label("epilogue")
	for s := sets - 1; s > 0; s-- {
		for r := range mr {
			for j := range 2 {
				g.op(ar.add, acc(s, r, j), acc(0, r, j), acc(0, r, j))
			}
		}
	}
	each := func(f func(r, j, a int)) {
		for r := range mr {
			for j := range 2 {
				f(r, j, acc(0, r, j))
			}
		}
	}
	if ar.float {
		g.e("CMPQ %d(DX), $0", tScaled)
		g.e("JEQ columns")
		g.e("VBROADCASTSS %d(DX), %s", tAlpha, g.r(0))
		each(func(_, _, a int) { g.op("VMULPS", 0, a, a) })
		g.label("columns")
	}
	g.e("MOVQ %d(DX), AX", tBias)
	g.e("TESTQ AX, AX")
	g.e("JZ rows")
	for j := range 2 {
		ld(fmt.Sprintf("%d(AX)", j*vb), j, j)
	}
	each(func(_, j, a int) { g.op(ar.add, j, a, a) })
	g.label("rows")
	g.e("MOVQ %d(DX), AX", tRow)
	g.e("TESTQ AX, AX")
	g.e("JZ residual")
	for r := range mr {
		g.op("VBROADCASTSS", fmt.Sprintf("%d(AX)", 4*r), 0)
		for j := range 2 {
			g.op(ar.add, 0, acc(0, r, j), acc(0, r, j))
		}
	}
	g.label("residual")
	if ar.float {
		g.floatEpilogue(mr, acc, ld, each)
	}
	g.e("MOVQ %d(DX), R15", tC)
	g.e("MOVQ %d(DX), BX", tLdC)
	for r := range mr {
		for j := range 2 {
			st(acc(0, r, j), j, fmt.Sprintf("%d(R15)", j*vb))
		}
		if r < mr-1 {
			g.e("ADDQ BX, R15")
		}
	}
	g.e("VZEROUPPER")
	g.e("RET")
	return name
}

// floatEpilogue adds the residual and applies the activation.
func (g *fn) floatEpilogue(mr int, acc func(s, r, j int) int, ld func(mem string, j, r int), each func(func(r, j, a int))) {
	vb := g.width * 4
	g.e("MOVQ %d(DX), AX", tAdd)
	g.e("TESTQ AX, AX")
	g.e("JZ activation")
	g.e("MOVQ %d(DX), BX", tLdAdd)
	for r := range mr {
		for j := range 2 {
			ld(fmt.Sprintf("%d(AX)", j*vb), j, j)
			g.op("VADDPS", j, acc(0, r, j), acc(0, r, j))
		}
		g.e("ADDQ BX, AX")
	}
	g.label("activation")
	g.e("MOVQ %d(DX), AX", tAct)
	g.e("TESTQ AX, AX")
	g.e("JZ store")
	g.e("VBROADCASTSS %d(DX), %s", tLo, g.r(0))
	g.e("VBROADCASTSS %d(DX), %s", tHi, g.r(1))
	each(func(_, _, a int) { g.op("VMAXPS", a, 0, a) }) // the second source is the sum: its NaN stays
	g.e("CMPQ AX, $%d", clip)
	g.e("JNE store")
	each(func(_, _, a int) { g.op("VMINPS", a, 1, a) })
	g.label("store")
}

func writeGemm(dir string) {
	f := newFile("tile")
	var dis strings.Builder
	for _, i := range isas {
		rows := rowsAVX512
		if i.width == 8 {
			rows = rowsAVX
		}
		fmt.Fprintf(&dis, "\n// tile%s calls the tile of rows rows.\nfunc tile%s(rows int, t *tileF32) {\n\tswitch rows {\n", i.name, i.name)
		for mr := 1; mr <= rows; mr++ {
			fmt.Fprintf(&dis, "\tcase %d:\n\t\t%s(t)\n", mr, gemmTile(f, i, mr, fusedF32))
		}
		dis.WriteString("\t}\n}\n")
	}
	write(dir+"/tile_amd64.s", f.text())
	write(dir+"/tile_amd64.go", generated+"//go:build !purego\n\npackage gemm\n"+f.stubs.String()+dis.String())
}
