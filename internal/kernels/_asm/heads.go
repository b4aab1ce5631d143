package main

import (
	"fmt"
	"strings"
)

// headFormat is a format of the rows that kernels of heads read.
type headFormat struct {
	suffix string
	bytes  int
	load   func(g *fn, mem string, r int)
}

var headFormats = []headFormat{
	{"F32", 4, func(g *fn, mem string, r int) { g.op("VMOVUPS", mem, r) }},
	{"F16", 2, func(g *fn, mem string, r int) { g.op("VCVTPH2PS", mem, r) }},
	{"BF16", 2, func(g *fn, mem string, r int) {
		g.op("VPMOVZXWD", mem, r)
		g.op("VPSLLD", "$16", r, r)
	}},
}

// headsAhead is the distance in bytes of rows to prefetch. The prefetcher of the processor stops at
// the end of a page.
const headsAhead = 2048

// headCounts returns the numbers of heads that kernels compute together: as many as have sums in
// registers.
func headCounts(i isa) []int {
	if i.width == 8 {
		return []int{2, 1}
	}
	return []int{4, 2, 1}
}

// headAddr returns the operands of the same element in four rows, of which base points to the
// first. stride is the distance of rows, and stride3 three of it.
func headAddr(base, stride, stride3 string) [4]string {
	return [4]string{"(" + base + ")", "(" + base + ")(" + stride + "*1)", "(" + base + ")(" + stride + "*2)",
		"(" + base + ")(" + stride3 + "*1)"}
}

// dotHeads writes a kernel for dst[h*ldd+r] = Σ a[h*lda+j]·b[r*ldb+j] over k columns, for h heads
// and n groups of four rows. Rows of b are read once.
func dotHeads(f *file, i isa, t headFormat, heads int) string {
	name := fmt.Sprintf("dotHeads%d%s", heads, t.suffix)
	g := f.function(name+i.name, i, []arg{{"dst", "*float32"}, {"ldd", "int"}, {"a", "*float32"}, {"lda", "int"},
		{"b", "*byte"}, {"ldb", "int"}, {"k", "int"}, {"n", "int"}}, nil)
	g.arg("dst", "DI")
	g.arg("lda", "BX")
	g.arg("b", "SI")
	g.arg("ldb", "R8")
	g.arg("n", "DX")
	g.e("LEAQ (BX)(BX*2), R15")
	bytes := i.width * 4
	rows, queries := []string{"R10", "R11", "R12", "R13"}, headAddr("R9", "BX", "R15")
	const row, query, sums = 0, 4, 6 // registers of parts of four rows, of two queries, of sums
	acc := func(h, r int) int { return sums + 4*h + r }
	g.label("group")
	g.arg("a", "R9")
	g.arg("k", "CX")
	g.e("MOVQ SI, R10")
	g.e("LEAQ (R10)(R8*1), R11")
	g.e("LEAQ (R10)(R8*2), R12")
	g.e("LEAQ (R11)(R8*2), R13")
	for r := sums; r < acc(heads, 0); r++ {
		g.op("VXORPS", r, r, r)
	}
	g.label("loop")
	for r, p := range rows {
		t.load(g, "("+p+")", row+r)
		g.e("PREFETCHT0 %d(%s)", headsAhead, p)
		g.e("ADDQ $%d, %s", i.width*t.bytes, p)
	}
	for h := range heads {
		g.op("VMOVUPS", queries[h], query+h%2)
		for r := range rows {
			g.op("VFMADD231PS", row+r, query+h%2, acc(h, r))
		}
	}
	g.e("ADDQ $%d, R9", bytes)
	g.e("SUBQ $%d, CX", i.width)
	g.e("JNZ loop")
	g.arg("ldd", "CX")
	g.e("MOVQ DI, R9")
	for h := range heads {
		g.sumRows(acc(h, 0), row)
		g.e("VMOVUPS X%d, (R9)", row)
		g.e("ADDQ CX, R9")
	}
	g.e("ADDQ $16, DI")
	g.e("LEAQ (SI)(R8*4), SI")
	g.e("DECQ DX")
	g.e("JNZ group")
	g.e("VZEROUPPER")
	g.e("RET")
	return name
}

// sumRows adds the elements of each of four registers from a on, and writes the sums to the first
// elements of register t. The next register is free.
func (g *fn) sumRows(a, t int) {
	u := t + 1
	if g.width == 16 {
		for p := a; p < a+4; p += 2 { // both halves of two registers
			g.op("VSHUFF64X2", "$0x44", p+1, p, t)
			g.op("VSHUFF64X2", "$0xee", p+1, p, u)
			g.op("VADDPS", t, u, p)
		}
		g.op("VSHUFPS", "$0x88", a+2, a, t)
		g.op("VSHUFPS", "$0xdd", a+2, a, u)
		g.op("VADDPS", u, t, t)
		g.op("VPERMILPS", "$0xb1", t, u)
		g.op("VADDPS", u, t, t) // twice 0 0 2 2, then twice 1 1 3 3
		g.e("VEXTRACTF64X4 $1, Z%d, Y%d", t, u)
		g.e("VBLENDPS $0xaa, Y%d, Y%d, Y%d", u, t, t)
	} else {
		g.op("VHADDPS", a+1, a, t)
		g.op("VHADDPS", a+3, a+2, u)
		g.op("VHADDPS", u, t, t)
	}
	if !g.neon() {
		g.e("VEXTRACTF128 $1, Y%d, X%d", t, u)
		g.e("VADDPS X%d, X%d, X%d", u, t, t)
	}
}

// addHeads writes a kernel for y[h*ldy+j] += Σ a[h*lda+r]·b[r*ldb+j] over n rows, for h heads and
// the given number of columns. Rows of b are read once, four vectors of columns at a time.
func addHeads(f *file, i isa, t headFormat, heads int) string {
	name := fmt.Sprintf("addHeads%d%s", heads, t.suffix)
	g := f.function(name+i.name, i, []arg{{"y", "*float32"}, {"ldy", "int"}, {"a", "*float32"}, {"lda", "int"},
		{"b", "*byte"}, {"ldb", "int"}, {"columns", "int"}, {"n", "int"}}, nil)
	g.arg("y", "DI")
	g.arg("lda", "BX")
	g.arg("b", "SI")
	g.arg("ldb", "R8")
	g.arg("columns", "DX")
	g.e("LEAQ (BX)(BX*2), R15")
	factors, bytes := headAddr("R9", "BX", "R15"), i.width*4
	block := func(vectors int) {
		acc := func(h, j int) int { return h*vectors + j }
		part, factor := heads*vectors, (heads+1)*vectors
		each := func(do func(mem string, r int)) {
			g.arg("ldy", "R11")
			g.e("MOVQ DI, R12")
			for h := range heads {
				for j := range vectors {
					do(fmt.Sprintf("%d(R12)", j*bytes), acc(h, j))
				}
				g.e("ADDQ R11, R12")
			}
		}
		each(func(mem string, r int) { g.op("VMOVUPS", mem, r) })
		g.arg("a", "R9")
		g.arg("n", "CX")
		g.e("MOVQ SI, R10")
		g.label(fmt.Sprint("rows", vectors))
		for j := range vectors {
			at := j * i.width * t.bytes
			t.load(g, fmt.Sprintf("%d(R10)", at), part+j)
			if at%64 == 0 {
				g.e("PREFETCHT0 %d(R10)", headsAhead+at)
			}
		}
		for h := range heads {
			g.op("VBROADCASTSS", factors[h], factor+h%2)
			for j := range vectors {
				g.op("VFMADD231PS", part+j, factor+h%2, acc(h, j))
			}
		}
		g.e("ADDQ R8, R10")
		g.e("ADDQ $4, R9")
		g.e("DECQ CX")
		g.e("JNZ rows%d", vectors)
		each(func(mem string, r int) { g.op("VMOVUPS", r, mem) })
		g.e("ADDQ $%d, DI", vectors*bytes)
		g.e("ADDQ $%d, SI", vectors*i.width*t.bytes)
		g.e("SUBQ $%d, DX", vectors*i.width)
	}
	g.label("loop4")
	g.e("CMPQ DX, $%d", 4*i.width)
	g.e("JLT loop1")
	block(4)
	g.e("JMP loop4")
	g.label("loop1")
	g.e("TESTQ DX, DX")
	g.e("JZ done")
	block(1)
	g.e("JMP loop1")
	g.label("done")
	g.e("VZEROUPPER")
	g.e("RET")
	return name
}

var _ = register("gemm", writeHeads)

func writeHeads(dir string) {
	writeHeadsFor(dir, isas)
	writeHeadsFor(dir, []isa{neon})
}

func writeHeadsFor(dir string, isas []isa) {
	f := newFile("heads")
	var o strings.Builder
	for _, k := range []struct {
		name, args string
		write      func(f *file, i isa, t headFormat, heads int) string
	}{
		{"dotHeads", "dst *float32, ldd int, a *float32, lda int, b *byte, ldb, k, n int", dotHeads},
		{"addHeads", "y *float32, ldy int, a *float32, lda int, b *byte, ldb, columns, n int", addHeads},
	} {
		for _, i := range isas {
			fmt.Fprintf(&o, "\n// %s%s calls the kernel for a format of b and a number of heads.\n"+
				"func %[1]s%s(t HeadFormat, heads int, %s) {\n\tswitch t<<3 | HeadFormat(heads) {\n",
				k.name, i.name, k.args)
			call := strings.NewReplacer(" *float32", "", " *byte", "", " int", "").Replace(k.args)
			for _, t := range headFormats {
				for _, heads := range headCounts(i) {
					fmt.Fprintf(&o, "\tcase Head%s<<3 | %d:\n\t\t%s%s(%s)\n", t.suffix, heads, k.write(f, i, t, heads),
						i.name, call)
				}
			}
			o.WriteString("\t}\n}\n")
		}
	}
	f.write(dir, "gemm", o.String())
}
