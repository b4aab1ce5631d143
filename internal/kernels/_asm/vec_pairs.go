package main

var _ = add("window", pairSums{})

// pairSums adds weighted pairs of elements: the products of the lower and the upper half of a
// register, with elements that are selected from 32 adjacent ones.
type pairSums struct{}

func (pairSums) emit(f *file, i isa) {
	if i.width != 16 {
		return
	}
	g := f.function("pairSumsF32"+i.name, i,
		[]arg{{"dst", "*float32"}, {"x", "*float32"}, {"groups", "*pairGroup"}, {"n", "int"}}, nil)
	for _, p := range [][2]string{{"dst", "DI"}, {"x", "SI"}, {"groups", "BX"}, {"n", "CX"}} {
		g.arg(p[0], p[1])
	}
	g.label("group")
	g.e("MOVQ (BX), AX")
	g.e("MOVQ 8(BX), DX")
	g.e("VMOVDQU32 16(BX), Z1")
	g.e("VMOVUPS (SI)(AX*4), Z0")
	g.e("VPERMI2PS 64(SI)(AX*4), Z0, Z1")
	g.e("VMULPS 80(BX), Z1, Z1")
	g.e("VEXTRACTF32X8 $1, Z1, Y2")
	g.e("VADDPS Y2, Y1, Y1")
	g.e("VMOVUPS Y1, (DI)(DX*4)")
	g.e("ADDQ $144, BX")
	g.e("DECQ CX")
	g.e("JNZ group")
	g.e("VZEROUPPER")
	g.e("RET")
}

func (pairSums) neon() bool { return false }

func (pairSums) dispatch([]isa) string {
	return `
func pairSums(dst, x []float32, groups []pairGroup) {
	pairSumsF32AVX512(&dst[0], &x[0], &groups[0], len(groups))
}
`
}

func (pairSums) noasm() string {
	return "\nfunc pairSums([]float32, []float32, []pairGroup) {}\n"
}
