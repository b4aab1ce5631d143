package main

import "fmt"

// rows reduces as many adjacent rows at a time as a vector has lanes, and stores the results side
// by side. Every row has one accumulator, or with NEON two. A tree of shuffles then adds up the
// lanes, the same way for all rows, so that a row's result does not depend on its index.
type rows struct {
	name    string
	minmax  string
	initial uint32
	body    func(g *fn, acc int, in [2]int)
}

func (k *rows) emit(f *file, i isa) {
	g := f.function(k.name+"RowsF32"+i.name, i, []arg{{"dst", "*float32"}, {"x", "*float32"}, {"n", "int"}}, nil)
	step, shift := i.width, map[int]int{4: 3, 8: 3, 16: 4}[i.width]
	acc := []int{0, 1, 2, 3, 4, 5, 6, 8}
	in, t := [2]int{9, 10}, 11
	if i.width == 16 {
		acc = acc[:0]
		for r := range 16 {
			acc = append(acc, 16+r)
		}
	}
	if g.neon() {
		acc, step = []int{0, 1, 2, 3}, 2*i.width
	}
	const second = 8 // accumulator of the odd vectors with NEON
	g.arg("dst", "DI")
	g.arg("x", "SI")
	g.arg("n", "CX")
	g.e("MOVQ CX, R11")
	g.e("SHRQ $%d, R11", shift)
	g.e("ANDQ $%d, CX", step-1)
	g.e("MOVQ CX, R13")
	if !g.neon() {
		g.tailMask()
	}
	begin := func(a int) {
		if k.minmax == "" {
			g.op("VXORPS", a, a, a)
		} else {
			g.op("VMOVUPS", k.initial, a)
		}
	}
	// combine reduces a and b to a.
	combine := func(a, b int) {
		if k.minmax == "" {
			g.op("VADDPS", b, a, a)
			return
		}
		g.op(k.minmax, b, a, t)
		g.sel(uno, a, a, a, t, a)
	}
	for r, a := range acc {
		begin(a)
		if g.neon() {
			begin(second)
		}
		g.e("MOVQ R11, R12")
		g.e("TESTQ R12, R12")
		g.e("JZ tail%d", r)
		g.label(fmt.Sprintf("row%d", r))
		g.load("(SI)", in[0])
		k.body(g, a, in)
		if g.neon() {
			g.load("16(SI)", in[0])
			k.body(g, second, in)
		}
		g.e("ADDQ $%d, SI", 4*step)
		g.e("DECQ R12")
		g.e("JNZ row%d", r)
		g.label(fmt.Sprintf("tail%d", r))
		g.e("TESTQ R13, R13")
		g.e("JZ next%d", r)
		if g.neon() {
			g.e("MOVQ R13, R12")
			g.label(fmt.Sprintf("element%d", r))
		}
		g.masked = true
		g.load("(SI)", in[0])
		k.body(g, a, in)
		g.masked = false
		if g.neon() {
			g.e("ADDQ $4, SI")
			g.e("DECQ R12")
			g.e("JNZ element%d", r)
		} else {
			g.e("LEAQ (SI)(R13*4), SI")
		}
		g.label(fmt.Sprintf("next%d", r))
		if g.neon() {
			combine(a, second)
		}
	}
	// join combines the halves of a and b in a.
	join := func(a, b int, op, lo, hi string) {
		if lo == "" {
			g.op(op+"L"+hi, b, a, in[0])
			g.op(op+"H"+hi, b, a, in[1])
		} else {
			g.op(op, lo, b, a, in[0])
			g.op(op, hi, b, a, in[1])
		}
		combine(in[0], in[1])
		g.op("VMOVAPS", in[0], a)
	}
	// One lane of 128 bits each for rows r, 4+r, …
	if i.width == 16 {
		for r := range 4 {
			join(acc[r], acc[r+4], "VSHUFF32X4", "$0x88", "$0xDD")
			join(acc[r+8], acc[r+12], "VSHUFF32X4", "$0x88", "$0xDD")
			join(acc[r], acc[r+8], "VSHUFF32X4", "$0x88", "$0xDD")
		}
	} else if !g.neon() {
		for r := range 4 {
			join(acc[r], acc[r+4], "VPERM2F128", "$0x20", "$0x31")
		}
	}
	join(acc[0], acc[1], "VUNPCK", "", "PS")
	join(acc[2], acc[3], "VUNPCK", "", "PS")
	join(acc[0], acc[2], "VUNPCK", "", "PD")
	g.store(acc[0], "(DI)")
	g.e("VZEROUPPER")
	g.e("RET")
}

func (k *rows) dispatch(isas []isa) string {
	o := fmt.Sprintf(`
func %[1]sRowsF32(l cpu.Level, dst, x []float32, n, first int) {
	switch l {
`, k.name)
	for _, i := range isas {
		o += fmt.Sprintf(`	case cpu.%[1]s:
		for lo := 0; lo < len(dst); lo += %[2]d {
			at := min(first+lo, len(x)/n-%[2]d)
			if at == first+lo && lo+%[2]d <= len(dst) {
				%[3]sRowsF32%[4]s(&dst[lo], &x[at*n], n)
				continue
			}
			var r [%[2]d]float32
			%[3]sRowsF32%[4]s(&r[0], &x[at*n], n)
			copy(dst[lo:], r[first+lo-at:])
		}
`, i.level, i.width, k.name, i.name)
	}
	return o + fmt.Sprintf("\tdefault:\n\t\t%sRowsF32Generic(dst, x, n, first)\n\t}\n}\n", k.name)
}

func (k *rows) neon() bool { return true }

func (k *rows) noasm() string {
	return fmt.Sprintf(
		"\nfunc %[1]sRowsF32(_ cpu.Level, dst, x []float32, n, first int) { %[1]sRowsF32Generic(dst, x, n, first) }\n",
		k.name)
}

var _ = add("rows", rowReductions()...)

// rowReductions lists the entries of reductions() that also exist for rows.
func rowReductions() []kernel {
	var ks []kernel
	for _, r := range reductions() {
		if r.family != "reduce" || len(r.ins) > 1 {
			continue
		}
		body := r.body
		if r.scalar != "" { // around zero
			body = func(g *fn, acc int, in [2]int) { g.op("VFMADD231PS", in[0], in[0], acc) }
		}
		ks = append(ks, &rows{name: r.name, minmax: r.minmax, initial: r.initial, body: body})
	}
	return ks
}
