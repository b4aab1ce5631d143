package main

import (
	"fmt"
	"strings"
)

// wide describes the tiles of other types than float32: up to six rows (four with AVX2) of one
// panel of B. AVX-512 computes up to 32 columns with masks, AVX2 two whole vectors.
type wide struct {
	typ    string
	letter string // of the type in names of functions
	bytes  int
	bcast  string
	zero   string
	isas   []isa // that have the instructions
	mul    func(g *fn, b, a, acc, temp int)
}

var wides = []wide{
	{"float64", "F", 8, "VBROADCASTSD", "VXORPD", isas,
		func(g *fn, b, a, acc, _ int) { g.op("VFMADD231PD", b, a, acc) }},
	{"int32", "I", 4, "VPBROADCASTD", "VXORPS", isas, func(g *fn, b, a, acc, temp int) {
		g.op("VPMULLD", b, a, temp)
		g.op("VPADDD", temp, acc, acc)
	}},
	{"int64", "L", 8, "VPBROADCASTQ", "VXORPD", []isa{avx512}, func(g *fn, b, a, acc, temp int) {
		g.op("VPMULLQ", b, a, temp)
		g.op("VPADDQ", temp, acc, acc)
	}},
}

func (w *wide) rows(i isa) int { return map[int]int{16: 6, 8: 4}[i.width] }

// vectors is the number of vectors of columns.
func (w *wide) vectors(i isa) int {
	if i.width == 16 {
		return 32 * w.bytes / 64
	}
	return 2
}

func (w *wide) emit(f *file, i isa, rows int) string {
	name := fmt.Sprintf("wide%s%d%s", w.letter, rows, i.name)
	p := "*" + w.typ
	g := f.function(name, i, []arg{{"a", p}, {"b", p}, {"c", p}, {"lda", "int"}, {"ldb", "int"}, {"ldc", "int"},
		{"k", "int"}, {"cols", "int"}, {"acc", "int"}}, nil)
	for _, r := range [][2]string{{"a", "AX"}, {"b", "DX"}, {"c", "DI"}, {"lda", "R8"}, {"ldb", "R10"}, {"ldc", "R11"},
		{"k", "CX"}, {"cols", "R13"}, {"acc", "R12"}} {
		g.arg(r[0], r[1])
	}
	shift := map[int]int{8: 3, 4: 2}[w.bytes]
	for _, r := range []string{"R8", "R10", "R11"} {
		g.e("SHLQ $%d, %s", shift, r)
	}
	g.e("LEAQ (R8)(R8*2), BX")
	g.e("ADDQ AX, BX")
	n, size := w.vectors(i), 4*i.width
	masks := []string{"K1", "K3", "K4", "K5"}
	if i.width == 16 {
		g.e("MOVQ $-1, SI")
		g.e("BZHIQ R13, SI, SI")
		for u := range n {
			if u > 0 {
				g.e("SHRQ $%d, SI", size/w.bytes)
			}
			g.e("KMOVW SI, %s", masks[u])
		}
	}
	move := func(from, to any, u int) {
		op := "VMOVUPD"
		if w.bytes == 4 {
			op = "VMOVUPS"
		}
		if i.width == 8 {
			g.op(op, from, to)
		} else if _, load := from.(string); load {
			g.op(op+".Z", from, masks[u], to)
		} else {
			g.op(op, from, masks[u], to)
		}
	}
	acc := func(r, u int) int { return r*n + u }
	in := rows * n
	g.e("TESTQ R12, R12")
	g.e("JZ zero")
	g.e("MOVQ DI, SI")
	for r := range rows {
		for u := range n {
			move(fmt.Sprintf("%d(SI)", u*size), acc(r, u), u)
		}
		g.e("ADDQ R11, SI")
	}
	g.e("JMP start")
	g.label("zero")
	for v := range rows * n {
		g.op(w.zero, v, v, v)
	}
	g.label("start")
	g.e("TESTQ CX, CX")
	g.e("JZ done")
	// A masked load takes the place of a multiplication, which matters for many rows.
	whole := i.width == 16 && w.letter == "F" && rows > 3
	if whole {
		g.e("CMPQ R13, $%d", n*size/w.bytes)
		g.e("JGE whole")
	}
	var loops []int // numbers of vectors that a loop computes
	if i.width == 16 {
		for v := 1; v < n; v *= 2 { // fewer for few columns
			g.e("CMPQ R13, $%d", v*size/w.bytes)
			g.e("JLE loop%d", v)
			loops = append(loops, v)
		}
		g.e("JMP loop%d", n)
	}
	store := func(v int) {
		for r := range rows {
			for u := range v {
				move(acc(r, u), fmt.Sprintf("%d(DI)", u*size), u)
			}
			g.e("ADDQ R11, DI")
		}
		g.e("VZEROUPPER")
		g.e("RET")
	}
	loop := func(label string, v int, load func(u int)) {
		g.label(label)
		for u := range v {
			load(u)
		}
		for r := range rows {
			x := []string{"(AX)", "(AX)(R8*1)", "(AX)(R8*2)", "(BX)", "(BX)(R8*1)", "(BX)(R8*2)"}[r]
			if v == 1 && w.letter == "F" && i.width == 16 {
				g.op("VFMADD231PD.BCST", x, in, acc(r, 0))
				continue
			}
			g.op(w.bcast, x, in+n)
			for u := range v {
				w.mul(g, in+u, in+n, acc(r, u), in+n+1)
			}
		}
		g.e("ADDQ $%d, AX", w.bytes)
		g.e("ADDQ $%d, BX", w.bytes)
		g.e("ADDQ R10, DX")
		g.e("DECQ CX")
		g.e("JNZ %s", label)
	}
	for k, v := range append(loops, n) {
		if k > 0 {
			store(loops[k-1])
		}
		loop(fmt.Sprintf("loop%d", v), v, func(u int) { move(fmt.Sprintf("%d(DX)", u*size), in+u, u) })
	}
	if whole {
		g.e("JMP done")
		loop("whole", n, func(u int) { g.op("VMOVUPD", fmt.Sprintf("%d(DX)", u*size), in+u) })
	}
	g.label("done")
	store(n)
	return name
}

var _ = register("gemm", writeWide)

// writeWide writes the tiles and functions that choose one by its rows.
func writeWide(dir string) {
	f := newFile("wide")
	var dis strings.Builder
	for _, w := range wides {
		fmt.Fprintf(&dis, `
// wide%[1]s computes the first rows and columns of a tile, at most as many as one function can, and
// returns their numbers, 0 if the level has none.
func wide%[1]s(l cpu.Level, a, b, c []%[2]s, lda, ldb, ldc, k, rows, cols, acc int) (int, int) {
	switch l {
`, w.letter, w.typ)
		for _, i := range w.isas {
			fmt.Fprintf(&dis, "\tcase cpu.%s:\n", i.level)
			n := w.vectors(i) * 4 * i.width / w.bytes
			if i.width == 8 {
				fmt.Fprintf(&dis, "\t\tif cols < %d {\n\t\t\treturn 0, 0\n\t\t}\n", n)
			}
			fmt.Fprintf(&dis, "\t\trows, cols = min(rows, %d), min(cols, %d)\n\t\tswitch rows {\n", w.rows(i), n)
			for r := 1; r <= w.rows(i); r++ {
				fmt.Fprintf(&dis, "\t\tcase %d:\n\t\t\t%s(&a[0], &b[0], &c[0], lda, ldb, ldc, k, cols, acc)\n",
					r, w.emit(f, i, r))
			}
			dis.WriteString("\t\t}\n\t\treturn rows, cols\n")
		}
		dis.WriteString("\t}\n\treturn 0, 0\n}\n")
	}
	f.write(dir, "gemm", dis.String())
}
