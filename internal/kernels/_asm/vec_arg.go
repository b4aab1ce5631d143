package main

import "fmt"

var _ = add("rows", argColumns{})

// argColumns searches the columns of a matrix for their largest elements. It continues with the
// values and row indices that it finds in value and at. A column's NaN stays. The elements' bits
// are xored with sign: with the sign bit, it searches for the smallest elements.
type argColumns struct{}

func (k argColumns) emit(f *file, i isa) {
	const (
		values, indices, v, t = 0, 4, 8, 9
		index, first, sign    = 10, 11, 12
		one                   = 13
	)
	g := f.function("argColumnsF32"+i.name, i, []arg{{"at", "*int32"}, {"value", "*float32"}, {"x", "*float32"},
		{"n", "int"}, {"step", "int"}, {"rows", "int"}, {"first", "int32"}, {"sign", "uint32"}}, nil)
	for _, p := range [][2]string{{"at", "DI"}, {"value", "DX"}, {"x", "SI"}, {"n", "CX"},
		{"step", "R9"}, {"rows", "R8"}} {
		g.arg(p[0], p[1])
	}
	g.e("SHLQ $2, R9")
	g.bcast("first", first)
	g.bcast("sign", sign)
	g.op("VMOVUPS", uint32(1), one)
	bytes := 4 * i.width
	block := func(n int) {
		name := fmt.Sprintf("row%d", n)
		for u := range n {
			g.op("VMOVUPS", offset(u*bytes, "(DX)"), values+u)
			g.op("VMOVUPS", offset(u*bytes, "(DI)"), indices+u)
		}
		g.op("VMOVAPS", first, index)
		g.e("MOVQ SI, R11")
		g.e("MOVQ R8, R12")
		g.label(name)
		for u := range n {
			g.op("VXORPS", offset(u*bytes, "(R11)"), sign, v)
			k.replace(g, v, index, values+u, indices+u, t)
		}
		g.op("VPADDD", one, index, index)
		g.e("ADDQ R9, R11")
		g.e("DECQ R12")
		g.e("JNZ %s", name)
		for u := range n {
			g.op("VMOVUPS", values+u, offset(u*bytes, "(DX)"))
			g.op("VMOVUPS", indices+u, offset(u*bytes, "(DI)"))
		}
		for _, r := range []string{"DI", "DX", "SI"} {
			g.e("ADDQ $%d, %s", n*bytes, r)
		}
		g.e("SUBQ $%d, CX", n*i.width)
	}
	g.label("loop4")
	g.e("CMPQ CX, $%d", 4*i.width)
	g.e("JLT loop1")
	block(4)
	g.e("JMP loop4")
	g.label("loop1")
	g.e("TESTQ CX, CX")
	g.e("JZ done")
	g.e("CMPQ CX, $%d", i.width)
	g.e("JGE whole")
	// The last vector begins earlier: what it finds a second time changes nothing.
	g.e("SUBQ $%d, CX", i.width)
	g.e("SHLQ $2, CX")
	for _, r := range []string{"DI", "DX", "SI"} {
		g.e("ADDQ CX, %s", r)
	}
	g.e("MOVQ $%d, CX", i.width)
	g.label("whole")
	block(1)
	g.e("JMP loop1")
	g.label("done")
	g.e("VZEROUPPER")
	g.e("RET")
}

// replace sets best and at to v and index in lanes where v is greater or NaN, unless best is NaN.
func (argColumns) replace(g *fn, v, index, best, at, t int) {
	const notLess, ordered = "$22", "$7" // not less or equal, or one is NaN
	switch {
	case g.neon():
		g.three("FCMGE", v, best, maskNEON)
		g.three("FCMEQ", best, best, t)
		g.op("VANDPS", maskNEON, t, maskNEON)
		g.op("VXORPS", maskNEON, t, maskNEON)
		g.choose(maskNEON, v, best, best)
		g.choose(maskNEON, index, at, at)
	case g.width == 16:
		g.op("VCMPPS", notLess, best, v, "K2")
		g.op("VCMPPS", ordered, best, best, "K2", "K2")
		g.op("VMOVAPS", v, "K2", best)
		g.op("VMOVAPS", index, "K2", at)
	default:
		g.op("VCMPPS", notLess, best, v, t)
		g.op("VCMPPS", ordered, best, best, tempReg)
		g.op("VANDPS", tempReg, t, t)
		g.op("VBLENDVPS", t, v, best, best)
		g.op("VBLENDVPS", t, index, at, at)
	}
}

func (argColumns) neon() bool { return true }

func (argColumns) dispatch(isas []isa) string {
	call := "argColumnsF32%s(&at[0], &value[0], &x[0], len(at), step, rows, first, sign)"
	o := "\nfunc argColumnsF32(l cpu.Level, at []int32, value, x []float32, step, rows int, " +
		"first int32, sign uint32) {\n"
	if len(isas) == 1 {
		return o + "\t" + fmt.Sprintf(call, isas[0].name) + "\n}\n"
	}
	return o + fmt.Sprintf("\tif l == cpu.AVX512 {\n\t\t"+call+"\n\t} else {\n\t\t"+call+"\n\t}\n}\n",
		isas[0].name, isas[1].name)
}

func (argColumns) noasm() string {
	return "\nfunc argColumnsF32(cpu.Level, []int32, []float32, []float32, int, int, int32, uint32) {}\n"
}
