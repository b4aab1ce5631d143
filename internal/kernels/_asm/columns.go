package main

import "fmt"

// columns writes a kernel for dst[j] += Σ a[k]·b[k*ldb+j] over n vectors of columns. If rows of b
// are adjacent, it reads them as one stream, the access pattern that the second-level cache serves
// fastest.
func columns(f *file, i isa, n int) {
	g := f.function(fmt.Sprintf("columns%d%s", n, i.name), i,
		[]arg{{"dst", "*float32"}, {"a", "*float32"}, {"b", "*float32"}, {"ldb", "int"}, {"k", "int"}}, nil)
	g.arg("dst", "DI")
	g.arg("a", "SI")
	g.arg("b", "BX")
	g.arg("ldb", "R8")
	g.arg("k", "CX")
	bytes, sets := i.width*4, max(1, min(4, 8/n))
	acc := func(s, j int) int { return s*n + j }
	t := sets * n
	for s := range sets {
		for j := range n {
			if s == 0 {
				g.op("VMOVUPS", fmt.Sprintf("%d(DI)", j*bytes), acc(s, j))
			} else {
				g.op("VXORPS", acc(s, j), acc(s, j), acc(s, j))
			}
		}
	}
	step := func(s int) {
		g.op("VBROADCASTSS", fmt.Sprintf("%d(SI)", 4*s), t)
		for j := range n {
			g.op("VFMADD231PS", fmt.Sprintf("%d(BX)", j*bytes), t, acc(s, j))
		}
		g.e("ADDQ R8, BX")
	}
	g.e("SUBQ $%d, CX", sets)
	g.e("JLT rest")
	g.e("PCALIGN $32")
	g.label("loop")
	for s := range sets {
		step(s)
	}
	g.e("ADDQ $%d, SI", 4*sets)
	g.e("SUBQ $%d, CX", sets)
	g.e("JGE loop")
	g.label("rest")
	g.e("ADDQ $%d, CX", sets)
	g.e("JZ done")
	g.label("one")
	step(0)
	g.e("ADDQ $4, SI")
	g.e("DECQ CX")
	g.e("JNZ one")
	g.label("done")
	for s := sets - 1; s > 0; s-- {
		for j := range n {
			g.op("VADDPS", acc(s, j), acc(0, j), acc(0, j))
		}
	}
	for j := range n {
		g.op("VMOVUPS", acc(0, j), fmt.Sprintf("%d(DI)", j*bytes))
	}
	g.e("VZEROUPPER")
	g.e("RET")
}

// rowPanels writes a kernel for one row of n adjacent panels of packed columns: dst[32*p+j] += Σ
// a[k]·b[p*panel+32*k+j]. Reading two panels at once keeps more cache lines on their way than
// reading one. Sums have the order of the tile of one row. If half is set, b is binary16.
func rowPanels(f *file, i isa, n int, half bool) {
	name, typ, size := "rowPanels", "*float32", 4
	if half {
		name, typ, size = "rowHalves", "*uint16", 2
	}
	g := f.function(fmt.Sprintf("%s%d%s", name, n, i.name), i,
		[]arg{{"dst", "*float32"}, {"a", "*float32"}, {"b", typ}, {"panel", "int"}, {"k", "int"}}, nil)
	g.arg("dst", "DI")
	g.arg("a", "SI")
	g.arg("b", "BX")
	g.arg("panel", "R8")
	g.arg("k", "CX")
	const sets, unroll, columns = 4, 4, 32
	vectors, row := columns/i.width, columns*size
	acc := func(s, p, j int) int { return (s*n+p)*vectors + j }
	addr := [...]string{"(BX)", "(BX)(R8*1)"}
	for p := range n {
		for j := range vectors {
			g.op("VMOVUPS", fmt.Sprintf("%d(DI)", 4*(p*columns+j*i.width)), acc(0, p, j))
			for s := 1; s < sets; s++ {
				g.op("VXORPS", acc(s, p, j), acc(s, p, j), acc(s, p, j))
			}
		}
	}
	step := func(u int) {
		t := sets*n*vectors + u%2
		g.op("VBROADCASTSS", fmt.Sprintf("%d(SI)", 4*u), t)
		for p := range n {
			for j := range vectors {
				mem := fmt.Sprintf("%d%s", u*row+j*size*i.width, addr[p])
				if half {
					g.op("VCVTPH2PS", mem, t+2+j)
					g.op("VFMADD231PS", t+2+j, t, acc(u%sets, p, j))
				} else {
					g.op("VFMADD231PS", mem, t, acc(u%sets, p, j))
				}
			}
			// of two lines one: twice as many slow down reading from the caches
			if !half || u%2 == 0 {
				g.e("PREFETCHT0 %d%s", u*row+3072, addr[p])
			}
		}
	}
	next := func(u int) {
		g.e("ADDQ $%d, SI", 4*u)
		g.e("ADDQ $%d, BX", row*u)
	}
	g.e("SUBQ $%d, CX", unroll)
	g.e("JLT rest")
	g.e("PCALIGN $32")
	g.label("loop")
	for u := range unroll {
		step(u)
	}
	next(unroll)
	g.e("SUBQ $%d, CX", unroll)
	g.e("JGE loop")
	g.label("rest")
	g.e("ADDQ $%d, CX", unroll)
	g.e("JZ done")
	g.label("one")
	step(0)
	next(1)
	g.e("DECQ CX")
	g.e("JNZ one")
	g.label("done")
	for p := range n {
		for j := range vectors {
			for s := sets - 1; s > 0; s-- {
				g.op("VADDPS", acc(s, p, j), acc(0, p, j), acc(0, p, j))
			}
			g.op("VMOVUPS", acc(0, p, j), fmt.Sprintf("%d(DI)", 4*(p*columns+j*i.width)))
		}
	}
	g.e("VZEROUPPER")
	g.e("RET")
}

var _ = register("gemm", writeColumns)

func writeColumns(dir string) {
	writeColumnsFor(dir, "amd64", isas)
	writeColumnsFor(dir, "arm64", []isa{neon})
}

func writeColumnsFor(dir, arch string, isas []isa) {
	f := newFile("columns")
	for _, i := range isas {
		for _, n := range []int{1, 2, 4, 8, 16} {
			if n*i.width <= 256 && (i.width != 8 || n <= 8) {
				columns(f, i, n)
			}
		}
		if i.width == 16 {
			for n := 1; n <= 2; n++ {
				rowPanels(f, i, n, false)
				rowPanels(f, i, n, true)
			}
		}
	}
	f.write(dir, "gemm", "")
}
