package main

import (
	"fmt"
	"strings"
)

// Offsets of the fields of gemm's tileF32, the argument of every tile function.
const (
	tA, tB, tC         = 0, 8, 16
	tLdA, tLdB, tLdC   = 24, 32, 40
	tK                 = 48
	tBias, tRow        = 56, 64
	tAdd, tLdAdd       = 72, 80
	tAcc, tAct         = 88, 96
	tAlpha, tLo, tHi   = 104, 108, 112
	tMask, tScaled     = 116, 120
	tPrefetch, tPfStep = 128, 136
	tFar, tWide, tEdge = 144, 152, 160
	relu, clip         = 1, 2
	// prefetch distance in bytes; without it, each iteration would wait for a panel in memory
	ahead   = 2048
	fewRows = 3   // rows for which the distance is an argument
	aheadA  = 128 // the same for the rows of A
	// number of rows of A from which on the hardware prefetcher does not follow all of them
	manyRows            = 10
	unrollK             = 4
	rowsAVX512, rowsAVX = 14, 6
	// Tiles of int16 need two instructions per multiply-add, so that fewer rows suffice to be bound
	// by arithmetic.
	rowsWords = 8
)

// rowAddr returns the operand of row i of A at displacement d. AX points to row 0 and SI to row 9;
// R8 is the stride, R9, R10 and R11 are three, five and seven strides.
func (g *fn) rowAddr(i, d int) string {
	if g.neon() {
		return fmt.Sprintf("%d(%s)", d, rowRegs[i])
	}
	return fmt.Sprintf("%d", d) + [...]string{"(AX)", "(AX)(R8*1)", "(AX)(R8*2)", "(AX)(R9*1)", "(AX)(R8*4)",
		"(AX)(R10*1)", "(AX)(R9*2)", "(AX)(R11*1)",
		"(AX)(R8*8)", "(SI)", "(SI)(R8*1)", "(SI)(R8*2)", "(SI)(R9*1)", "(SI)(R8*4)"}[i]
}

// arithmetic describes the multiplication in a tile: a step of k, with four bytes of A and a vector
// of B.
type arithmetic struct {
	suffix string // suffix of function names, before the level
	args   string // Go type of the arguments
	add    string
	float  bool
	half   bool                             // B is binary16
	narrow bool                             // B is int8, to be widened to int16
	mul    func(g *fn, b, a, acc, temp int) // acc += a·b
	temp   bool                             // mul needs temp
}

var (
	fusedF32 = arithmetic{suffix: "F32", args: "*tileF32", add: "VADDPS", float: true,
		mul: func(g *fn, b, a, acc, _ int) {
			g.op("VFMADD231PS", b, a, acc)
		}}
	fusedF16 = arithmetic{suffix: "F16", args: "*tileF32", add: "VADDPS", float: true, half: true,
		mul: func(g *fn, b, a, acc, _ int) {
			g.op("VFMADD231PS", b, a, acc)
		}}
	// dot product of four uint8 of A and four int8 of B
	dotU8S8 = arithmetic{suffix: "U8S8", args: "*tileI32", add: "VPADDD", mul: func(g *fn, b, a, acc, _ int) {
		g.op("VPDPBUSD", b, a, acc)
	}}
	// the same, if the sums of two products fit in 16 bits
	dotPairs = arithmetic{suffix: "U8S8", args: "*tileI32", add: "VPADDD", temp: true,
		mul: func(g *fn, b, a, acc, temp int) {
			g.op("VPMADDUBSW", b, a, temp)
			g.op("VPMADDWD", uint32(0x00010001), temp, temp)
			g.op("VPADDD", temp, acc, acc)
		}}
	// two int16 of A and two int8 of B
	dotI16 = arithmetic{suffix: "I16", args: "*tileI32", add: "VPADDD", temp: true, narrow: true,
		mul: func(g *fn, b, a, acc, temp int) {
			g.op("VPMADDWD", b, a, temp)
			g.op("VPADDD", temp, acc, acc)
		}}
)

// gemmTile writes the tile of mr rows and two vectors of columns.
func gemmTile(f *file, i isa, mr int, ar arithmetic) string {
	nv := 2 // vectors of columns
	if i.neon() {
		nv = 4
	}
	name := fmt.Sprintf("tile%dx%d%s%s", mr, nv*i.width, ar.suffix, i.name)
	g := f.function(name, i, []arg{{"t", ar.args}}, nil)
	vb := i.width * 4
	// Independent sums hide the latency of the multiply-add for few rows. Only tiles that cover a
	// whole matrix may have them, since a row's sum must not depend on where its tile begins.
	// Larger matrices have at least seven rows, in tiles of at least three rows for narrow vectors.
	sets := 1
	if i.width == 16 && mr <= 2 {
		sets = 4
	} else if mr <= 2 || i.width == 16 && mr == 3 {
		sets = 2
	}
	nregs := 32
	if i.width == 8 {
		nregs = 16
		sets = min(sets, 12/(2*mr))
	}
	if i.neon() {
		nregs = topNEON
		sets = []int{1: 4, 2: 2, 3: 1, 4: 1, 5: 1, 6: 1}[mr]
	}
	acc := func(s, r, j int) int { return nregs - nv*mr*sets + s*nv*mr + r*nv + j }
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
	if g.neon() {
		g.pointRows(mr)
	} else {
		g.e("LEAQ (R8)(R8*2), R9")
		g.e("LEAQ (R8)(R8*4), R10")
		g.e("LEAQ (R9)(R8*4), R11")
		g.e("LEAQ (AX)(R8*8), SI")
		g.e("ADDQ R8, SI")
	}
	g.e("LEAQ (R12)(R12*2), R13")
	g.e("CMPQ %d(DX), $0", tAcc)
	g.e("JNE accumulate")
	cacheC := "T0" // integers are summed in a small buffer
	if ar.float {  // rows of a wide matrix often fall into the same sets of the first-level cache
		cacheC = "T1"
	}
	for s := range sets {
		for r := range mr {
			for j := range nv {
				g.op("VXORPS", acc(s, r, j), acc(s, r, j), acc(s, r, j))
				if s == 0 && i.width == 16 {
					g.e("PREFETCH%s %d(R15)", cacheC, j*vb)
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
			for j := range nv {
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
	far := masked && mr <= fewRows // R14 is the address to prefetch for DI
	// Tiles of several rows store the widened B at R15 for the tiles that follow.
	widens := ar.half && masked && mr >= leastWidening
	// A masked load takes the place of a multiplication. Only the last steps need masks, where
	// whole vectors would lead beyond B: before them, what follows the columns is the next row.
	// Integers have packed panels, which are padded. With several sums, the order of the additions
	// would depend on the number of those steps.
	partial := masked && ar.float && !ar.half // B may end within a vector
	edge := partial && sets == 1
	step := func(u, s, vectors int, b string, masks bool) {
		for j := range vectors {
			if ar.narrow {
				g.op("VPMOVSXBW", fmt.Sprintf("%d%s", j*vb/2, b), j)
			} else if ar.half {
				g.op("VCVTPH2PS", fmt.Sprintf("%d%s", j*vb/2, b), j)
				if widens {
					g.op("VMOVUPS", j, fmt.Sprintf("%d(R15)", (u*vectors+j)*vb))
				}
			} else if masks {
				ld(fmt.Sprintf("%d%s", j*vb, b), j, j)
			} else {
				g.op("VMOVUPS", fmt.Sprintf("%d%s", j*vb, b), j)
			}
			switch {
			case i.width != 16 || (ar.half || ar.narrow) && j == 1:
			case far:
				g.e("PREFETCHT0 %d%s", j*vb, strings.Replace(b, "DI", "R14", 1))
			default:
				g.e("PREFETCHT0 %d%s", ahead+j*vb, b)
			}
		}
		for r := range mr {
			if g.neon() {
				g.rowLane(g.rowAddr(r, 4*u), nv, nv+r%2, func(j int) int { return acc(s, r, j) })
				continue
			}
			if vectors == 1 && ar.float {
				g.op("VFMADD231PS.BCST", g.rowAddr(r, 4*u), 0, acc(s, r, 0))
				continue
			}
			t := 2 + r%2
			if nregs-2*mr*sets < 4 || ar.temp {
				t = 2
			}
			g.op("VBROADCASTSS", g.rowAddr(r, 4*u), t)
			for j := range vectors {
				ar.mul(g, j, t, acc(s, r, j), 3)
			}
		}
	}
	g.e("MOVQ %d(DX), CX", tK)
	to := tPrefetch
	if widens {
		to = tWide
	}
	g.e("MOVQ %d(DX), R15", to)
	g.e("MOVQ %d(DX), BX", tPfStep)
	if far {
		g.e("MOVQ %d(DX), R14", tFar)
		g.e("ADDQ DI, R14")
	}
	sum := func(vectors int, suffix string) {
		if edge {
			g.e("SUBQ %d(DX), CX", tEdge)
		}
		g.e("SUBQ $%d, CX", unrollK)
		g.e("JLT rest%s", suffix)
		g.e("PCALIGN $32")
		g.label("loop" + suffix)
		for u := range unrollK {
			if i.width == 16 && !widens && u%2 == 0 {
				g.e("PREFETCHT1 %d(R15)", u*32)
			}
			for r := u; masked && ar.float && mr >= manyRows && r < mr; r += unrollK {
				g.e("PREFETCHT0 %s", g.rowAddr(r, aheadA))
			}
			step(u, u%sets, vectors, [...]string{"(DI)", "(DI)(R12*1)", "(DI)(R12*2)", "(DI)(R13*1)"}[u],
				partial && !edge)
		}
		g.addA(fmt.Sprintf("$%d", 4*unrollK), mr)
		g.e("LEAQ (DI)(R12*4), DI")
		if far {
			g.e("LEAQ (R14)(R12*4), R14")
		}
		g.e("ADDQ BX, R15")
		g.e("SUBQ $%d, CX", unrollK)
		g.e("JGE loop%s", suffix)
		g.label("rest" + suffix)
		if edge {
			g.e("ADDQ %d(DX), CX", tEdge)
		}
		g.e("ADDQ $%d, CX", unrollK)
		g.e("JZ epilogue")
		g.label("one" + suffix)
		step(0, 0, vectors, "(DI)", partial)
		if g.neon() {
			g.addA("$4", mr)
		} else {
			g.e("ADDQ $4, AX")
			g.e("ADDQ $4, SI")
		}
		g.e("ADDQ R12, DI")
		if widens {
			g.e("ADDQ $%d, R15", nv*vb)
		}
		if far {
			g.e("ADDQ R12, R14")
		}
		g.e("DECQ CX")
		g.e("JNZ one%s", suffix)
	}
	narrow := masked && !ar.temp && !ar.half
	if narrow { // without columns in the second vector, half of the work
		g.e("CMPW %d(DX), $0", tMask+2)
		g.e("JEQ narrow")
	}
	sum(nv, "")
	if narrow {
		g.e("JMP epilogue")
		g.label("narrow")
		sum(1, "Narrow")
	}
	g.label("epilogue")
	for s := sets - 1; s > 0; s-- {
		for r := range mr {
			for j := range nv {
				g.op(ar.add, acc(s, r, j), acc(0, r, j), acc(0, r, j))
			}
		}
	}
	each := func(f func(r, j, a int)) {
		for r := range mr {
			for j := range nv {
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
	for j := range nv {
		ld(fmt.Sprintf("%d(AX)", j*vb), j, j)
	}
	each(func(_, j, a int) { g.op(ar.add, j, a, a) })
	g.label("rows")
	g.e("MOVQ %d(DX), AX", tRow)
	g.e("TESTQ AX, AX")
	g.e("JZ residual")
	for r := range mr {
		g.op("VBROADCASTSS", fmt.Sprintf("%d(AX)", 4*r), 0)
		for j := range nv {
			g.op(ar.add, 0, acc(0, r, j), acc(0, r, j))
		}
	}
	g.label("residual")
	if ar.float {
		g.floatEpilogue(mr, nv, acc, ld, each)
	}
	g.e("MOVQ %d(DX), R15", tC)
	g.e("MOVQ %d(DX), BX", tLdC)
	for r := range mr {
		for j := range nv {
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
func (g *fn) floatEpilogue(mr, nv int, acc func(s, r, j int) int, ld func(mem string, j, r int),
	each func(func(r, j, a int))) {
	vb := g.width * 4
	g.e("MOVQ %d(DX), AX", tAdd)
	g.e("TESTQ AX, AX")
	g.e("JZ activation")
	g.e("MOVQ %d(DX), BX", tLdAdd)
	for r := range mr {
		for j := range nv {
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
	each(func(_, _, a int) { g.op("VMAXPS", a, 0, a) }) // VMAXPS returns the second source for NaN, here the sum
	g.e("CMPQ AX, $%d", clip)
	g.e("JNE store")
	each(func(_, _, a int) { g.op("VMINPS", a, 1, a) })
	g.label("store")
}

// dotRows writes a kernel for dst[r] = Σ a[k]·b[r][k] over n groups of four rows of b.
func dotRows(f *file, i isa) {
	g := f.function("dotRowsF32"+i.name, i, []arg{{"dst", "*float32"}, {"a", "*float32"}, {"b", "*float32"},
		{"ldb", "int"}, {"k", "int"}, {"n", "int"}}, nil)
	g.arg("dst", "DI")
	g.arg("b", "SI")
	g.arg("ldb", "R8")
	g.arg("n", "DX")
	bytes := i.width * 4
	g.label("group")
	g.arg("a", "R9")
	g.arg("k", "CX")
	g.e("MOVQ SI, R10")
	g.e("LEAQ (R10)(R8*1), R11")
	g.e("LEAQ (R10)(R8*2), R12")
	g.e("LEAQ (R11)(R8*2), R13")
	rows := []string{"R10", "R11", "R12", "R13"}
	for r := range 8 {
		g.op("VXORPS", r, r, r)
	}
	step := func(u int) {
		g.load(fmt.Sprintf("%d(R9)", u*bytes), 8+u)
		for r, p := range rows {
			if g.masked {
				g.load(fmt.Sprintf("(%s)", p), 10)
				g.op("VFMADD231PS", 10, 8, r)
			} else {
				g.op("VFMADD231PS", fmt.Sprintf("%d(%s)", u*bytes, p), 8+u, 4*u+r)
			}
		}
	}
	advance := func(bytes, elements int) {
		for _, p := range append(rows, "R9") {
			g.e("ADDQ $%d, %s", bytes, p)
		}
		g.e("SUBQ $%d, CX", elements)
	}
	g.label("loop2")
	g.e("CMPQ CX, $%d", 2*i.width)
	g.e("JLT loop1")
	step(0)
	step(1)
	advance(2*bytes, 2*i.width)
	g.e("JMP loop2")
	g.label("loop1")
	g.e("CMPQ CX, $%d", i.width)
	g.e("JLT tail")
	step(0)
	advance(bytes, i.width)
	g.e("JMP loop1")
	g.label("tail")
	g.e("TESTQ CX, CX")
	g.e("JZ reduce")
	g.tail(func() { step(0) }, advance)
	g.label("reduce")
	for r := range 4 {
		g.op("VADDPS", 4+r, r, r)
		if i.width == 16 {
			g.e("VEXTRACTF64X4 $1, Z%d, Y8", r)
			g.e("VADDPS Y8, Y%d, Y%d", r, r)
		}
	}
	// Two pairwise sums leave the four results in the two lanes.
	h := g
	if i.width == 16 {
		h = &fn{file: g.file, isa: avx2}
	}
	h.op("VHADDPS", 1, 0, 0)
	h.op("VHADDPS", 3, 2, 2)
	h.op("VHADDPS", 2, 0, 0)
	if !g.neon() {
		g.e("VEXTRACTF128 $1, Y0, X1")
		g.e("VADDPS X1, X0, X0")
	}
	g.e("VMOVUPS X0, (DI)")
	g.e("ADDQ $16, DI")
	g.e("LEAQ (SI)(R8*4), SI")
	g.e("SUBQ $4, DX")
	g.e("JNZ group")
	g.e("VZEROUPPER")
	g.e("RET")
}

// addRows writes a kernel for y[j] += Σ a[r]·b[r][j] over groups of four rows of b.
func addRows(f *file, i isa) {
	g := f.function("addRowsF32"+i.name, i, []arg{{"y", "*float32"}, {"a", "*float32"}, {"b", "*float32"},
		{"ldb", "int"}, {"n", "int"}, {"groups", "int"}}, nil)
	g.arg("a", "BX")
	g.arg("b", "SI")
	g.arg("ldb", "R8")
	g.arg("groups", "DX")
	rows := []string{"R10", "R11", "R12", "R13"}
	bytes := i.width * 4
	g.label("group")
	g.arg("y", "DI")
	g.arg("n", "CX")
	for r := range 4 {
		g.op("VBROADCASTSS", fmt.Sprintf("%d(BX)", r*4), 10+r)
	}
	g.e("MOVQ SI, R10")
	g.e("LEAQ (R10)(R8*1), R11")
	g.e("LEAQ (R10)(R8*2), R12")
	g.e("LEAQ (R11)(R8*2), R13")
	step := func(u int) {
		y, t := 2*u, 2*u+1
		g.load(fmt.Sprintf("%d(DI)", u*bytes), y)
		for r, p := range rows {
			if g.masked {
				g.load(fmt.Sprintf("(%s)", p), t)
				g.op("VFMADD231PS", t, 10+r, y)
			} else {
				g.op("VFMADD231PS", fmt.Sprintf("%d(%s)", u*bytes, p), 10+r, y)
			}
		}
		g.store(y, fmt.Sprintf("%d(DI)", u*bytes))
	}
	advance := func(bytes, elements int) {
		for _, p := range append(rows, "DI") {
			g.e("ADDQ $%d, %s", bytes, p)
		}
		g.e("SUBQ $%d, CX", elements)
	}
	g.label("loop4")
	g.e("CMPQ CX, $%d", 4*i.width)
	g.e("JLT loop1")
	for u := range 4 {
		step(u)
	}
	advance(4*bytes, 4*i.width)
	g.e("JMP loop4")
	g.label("loop1")
	g.e("CMPQ CX, $%d", i.width)
	g.e("JLT tail")
	step(0)
	advance(bytes, i.width)
	g.e("JMP loop1")
	g.label("tail")
	g.e("TESTQ CX, CX")
	g.e("JZ next")
	g.tail(func() { step(0) }, advance)
	g.label("next")
	g.e("ADDQ $16, BX")
	g.e("LEAQ (SI)(R8*4), SI")
	g.e("DECQ DX")
	g.e("JNZ group")
	g.e("VZEROUPPER")
	g.e("RET")
}

const (
	// rowsHalf is the height of the largest tile that reads B in binary16 with vectors of 4 or 8
	// elements. For more rows, B is widened once.
	rowsHalf = 4
	// leastWidening is the height from which on tiles for AVX-512 that read B in binary16 also
	// store it widened. Of two tiles or more of at most rowsAVX512 rows, the first has as many.
	leastWidening = 8
)

var _ = register("gemm", writeGemm)

func writeGemm(dir string) {
	writeGemmFor(dir, "amd64", isas)
	writeGemmFor(dir, "arm64", []isa{neon})
}

func writeGemmFor(dir, arch string, isas []isa) {
	f := newFile("tile")
	var dis strings.Builder
	for _, i := range isas {
		rows := map[int]int{16: rowsAVX512, 8: rowsAVX, 4: rowsNEON}[i.width]
		fmt.Fprintf(&dis, "\n// tile%s computes a tile with the given number of rows.\n"+
			"func tile%s(rows int, t *tileF32) {\n\tswitch rows {\n", i.name, i.name)
		for mr := 1; mr <= rows; mr++ {
			fmt.Fprintf(&dis, "\tcase %d:\n\t\t%s(t)\n", mr, gemmTile(f, i, mr, fusedF32))
		}
		dis.WriteString("\t}\n}\n")
		fmt.Fprintf(&dis, "\n// tileHalf%s is tile%s for B in binary16.\nfunc tileHalf%s(rows int, t *tileF32) {\n"+
			"\tswitch rows {\n", i.name, i.name, i.name)
		half := rowsHalf
		if i.width == 16 {
			half = rows
		}
		for mr := 1; mr <= half; mr++ {
			fmt.Fprintf(&dis, "\tcase %d:\n\t\t%s(t)\n", mr, gemmTile(f, i, mr, fusedF16))
		}
		dis.WriteString("\t}\n}\n")
	}
	v := newFile("vector")
	for _, i := range isas {
		dotRows(v, i)
		addRows(v, i)
	}
	v.write(dir, "gemm", "")
	f.write(dir, "gemm", dis.String())
}
