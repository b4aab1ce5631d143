package main

import "fmt"

var _ = add("fused", axpyRows{})

// axpyRows adds a multiple of each row of x to a row of dst. A step of 0 takes the same row each
// time.
type axpyRows struct{}

func (axpyRows) emit(f *file, i isa) {
	g := f.function("axpyRowsF32"+i.name, i, []arg{{"dst", "*float32"}, {"dstStep", "int"}, {"x", "*float32"},
		{"xStep", "int"}, {"n", "int"}, {"s", "*float32"}, {"rows", "int"}}, nil)
	for _, p := range [][2]string{{"dst", "R10"}, {"dstStep", "R8"}, {"x", "R11"}, {"xStep", "R9"}, {"n", "R12"},
		{"s", "BX"}, {"rows", "R13"}} {
		g.arg(p[0], p[1])
	}
	g.e("SHLQ $2, R8")
	g.e("SHLQ $2, R9")
	const x, s, sum = 0, 1, 2
	vector := func() {
		g.load("(SI)", x)
		g.load("(DI)", sum)
		g.op("VFMADD231PS", s, x, sum)
		g.store(sum, "(DI)")
	}
	advance := func(bytes, elements int) {
		g.e("ADDQ $%d, SI", bytes)
		g.e("ADDQ $%d, DI", bytes)
		g.e("SUBQ $%d, CX", elements)
	}
	g.label("row")
	g.op("VBROADCASTSS", "(BX)", s)
	g.e("MOVQ R10, DI")
	g.e("MOVQ R11, SI")
	g.e("MOVQ R12, CX")
	g.label("vector")
	g.e("CMPQ CX, $%d", i.width)
	g.e("JLT rest")
	vector()
	advance(4*i.width, i.width)
	g.e("JMP vector")
	g.label("rest")
	g.e("TESTQ CX, CX")
	g.e("JZ next")
	if g.neon() {
		g.tail(vector, advance)
	} else {
		g.rest("CX", 4, func(reg, move string) {
			g.e("%s (SI), %s0", move, reg)
			g.e("%s (DI), %s2", move, reg)
			g.e("VFMADD231PS %s0, %s1, %s2", reg, reg, reg)
			g.e("%s %s2, (DI)", move, reg)
		})
	}
	g.label("next")
	g.e("ADDQ R8, R10")
	g.e("ADDQ R9, R11")
	g.e("ADDQ $4, BX")
	g.e("DECQ R13")
	g.e("JNZ row")
	g.e("VZEROUPPER")
	g.e("RET")
}

// rest calls part for vectors of 8, 4, 2 and 1 elements of size bytes at SI and DI, and advances
// both. Together they cover the elements of count, which are fewer than a vector of the level. The
// next row of dst often begins where a masked store would end, and reading it would wait until that
// store is in the cache.
func (g *fn) rest(count string, size int, part func(reg, move string)) {
	suffix := map[int]string{4: "S", 8: "D"}[size]
	for bytes := 2 * g.width; bytes >= size; bytes /= 2 {
		reg, move := "X", "VMOVUP"+suffix
		switch bytes {
		case 32:
			reg = "Y"
		case 8:
			move = "VMOVSD"
		case 4:
			move = "VMOVSS"
		}
		skip := fmt.Sprintf("rest%d", bytes)
		g.e("TESTQ $%d, %s", bytes/size, count)
		g.e("JZ %s", skip)
		part(reg, move)
		g.e("ADDQ $%d, SI", bytes)
		g.e("ADDQ $%d, DI", bytes)
		g.label(skip)
	}
}

func (axpyRows) dispatch(isas []isa) string {
	o := `
func axpyRowsF32(l cpu.Level, dst []float32, dstStep int, x []float32, xStep, n int, s []float32) {
	for rows := max(1, chunk/n); len(s) > 0 && width(l) > 0; {
		now := min(len(s), rows)
`
	call := func(i isa) string {
		return "axpyRowsF32" + i.name + "(&dst[0], dstStep, &x[0], xStep, n, &s[0], now)\n"
	}
	if len(isas) == 1 {
		o += "\t\t" + call(isas[0])
	} else {
		o += "\t\tif l == cpu." + isas[0].level + " {\n\t\t\t" + call(isas[0]) + "\t\t} else {\n\t\t\t" +
			call(isas[1]) + "\t\t}\n"
	}
	return o + `		if s = s[now:]; len(s) == 0 {
			return
		}
		dst, x = dst[now*dstStep:], x[now*xStep:]
	}
	axpyRowsF32Generic(dst, dstStep, x, xStep, n, s)
}
`
}

func (axpyRows) noasm() string {
	return `
func axpyRowsF32(_ cpu.Level, dst []float32, dstStep int, x []float32, xStep, n int, s []float32) {
	axpyRowsF32Generic(dst, dstStep, x, xStep, n, s)
}
`
}

func (axpyRows) neon() bool { return true }

var _ = add("doubles", subRows{})

// subRows subtracts a multiple of the row x from each row of dst, of float64.
type subRows struct{}

func (subRows) emit(f *file, i isa) {
	if i.width != 16 {
		return
	}
	g := f.function("subRowsF64"+i.name, i, []arg{{"dst", "*float64"}, {"dstStep", "int"}, {"x", "*float64"},
		{"n", "int"}, {"s", "*float64"}, {"sStep", "int"}, {"rows", "int"}}, nil)
	for _, p := range [][2]string{{"dst", "R10"}, {"dstStep", "R8"}, {"x", "R11"}, {"n", "R12"}, {"s", "BX"},
		{"sStep", "R9"}, {"rows", "R13"}} {
		g.arg(p[0], p[1])
	}
	g.e("SHLQ $3, R8")
	g.e("SHLQ $3, R9")
	g.e("MOVQ R12, CX")
	g.e("ANDQ $7, CX")
	g.e("SUBQ CX, R12")
	g.e("MOVQ CX, DX")
	g.label("row")
	g.op("VBROADCASTSD", "(BX)", 0)
	g.e("MOVQ R10, DI")
	g.e("MOVQ R11, SI")
	g.e("MOVQ R12, CX")
	g.e("TESTQ CX, CX")
	g.e("JZ rest")
	g.label("vector")
	g.op("VMOVUPD", "(DI)", 1)
	g.op("VFNMADD231PD", "(SI)", 0, 1)
	g.op("VMOVUPD", 1, "(DI)")
	g.e("ADDQ $64, SI")
	g.e("ADDQ $64, DI")
	g.e("SUBQ $8, CX")
	g.e("JNZ vector")
	g.label("rest")
	g.rest("DX", 8, func(reg, move string) {
		g.e("%s (SI), %s2", move, reg)
		g.e("%s (DI), %s1", move, reg)
		g.e("VFNMADD231PD %s2, %s0, %s1", reg, reg, reg)
		g.e("%s %s1, (DI)", move, reg)
	})
	g.e("ADDQ R8, R10")
	g.e("ADDQ R9, BX")
	g.e("DECQ R13")
	g.e("JNZ row")
	g.e("VZEROUPPER")
	g.e("RET")
}

func (subRows) neon() bool { return false }

func (subRows) dispatch([]isa) string {
	return `
func subRowsF64(l cpu.Level, dst []float64, dstStep int, x, s []float64, sStep, rows int) {
	if l != cpu.AVX512 {
		subRowsF64Generic(dst, dstStep, x, s, sStep, rows)
		return
	}
	for at, most := 0, max(1, chunk/len(x)); at < rows; at += most {
		subRowsF64AVX512(&dst[at*dstStep], dstStep, &x[0], len(x), &s[at*sStep], sStep, min(most, rows-at))
	}
}
`
}

func (subRows) noasm() string {
	return `
func subRowsF64(_ cpu.Level, dst []float64, dstStep int, x, s []float64, sStep, rows int) {
	subRowsF64Generic(dst, dstStep, x, s, sStep, rows)
}
`
}
