package main

var _ = add("window", boxes{})

// boxes finds the first of the groups of 16 boxes with one that overlaps a box enough.
type boxes struct{}

func (boxes) emit(f *file, i isa) {
	if i.width != 16 {
		return
	}
	g := f.function("overlapF32"+i.name, i, []arg{{"groups", "*BoxGroup"}, {"n", "int"}, {"box", "*float32"},
		{"limit", "float32"}}, &arg{"first", "int"})
	for _, p := range [][2]string{{"groups", "SI"}, {"n", "CX"}, {"box", "BX"}} {
		g.arg(p[0], p[1])
	}
	for k := range 5 { // top, left, bottom, right and area
		g.e("VBROADCASTSS %d(BX), Z%d", 4*k, 8+k)
	}
	g.bcast("limit", 13)
	g.e("VXORPS Z15, Z15, Z15")
	g.e("XORQ AX, AX")
	g.label("group")
	for k := range 2 { // the height and the width of the intersection, 0 for NaN
		g.e("VMAXPS %d(SI), Z%d, Z%d", 64*k, 8+k, k)
		g.e("VMINPS %d(SI), Z%d, Z%d", 128+64*k, 10+k, 2+k)
		g.e("VSUBPS Z%d, Z%d, Z%d", k, 2+k, k)
		g.e("VMAXPS Z15, Z%d, Z%d", k, k)
	}
	g.e("VMULPS Z1, Z0, Z0")
	g.e("VADDPS 256(SI), Z12, Z1")
	g.e("VSUBPS Z0, Z1, Z1")
	g.e("VMULPS Z13, Z1, Z1")
	g.e("VCMPPS $%d, Z1, Z0, K1", ge)
	g.e("KORTESTW K1, K1")
	g.e("JNZ found")
	g.e("ADDQ $320, SI")
	g.e("INCQ AX")
	g.e("CMPQ AX, CX")
	g.e("JLT group")
	g.label("found")
	g.e("VZEROUPPER")
	g.e("MOVQ AX, first+%d(FP)", g.off["first"])
	g.e("RET")
}

func (boxes) neon() bool { return false }

func (boxes) dispatch([]isa) string {
	return `
func overlap(groups []BoxGroup, box *[5]float32, limit float32) int {
	return overlapF32AVX512(&groups[0], len(groups), &box[0], limit)
}
`
}

func (boxes) noasm() string {
	return "\nfunc overlap(groups []BoxGroup, _ *[5]float32, _ float32) int { return 0 }\n"
}
