package main

var _ = add("rows", top{})

// top writes the kernels of a tournament for the largest elements of a row: a tree whose inner
// nodes are the maxima of 16 numbers below them. Its numbers are in the order of the elements, NaN
// first; the smallest 32-bit integer stands for what is taken or missing.
type top struct{}

const (
	topNaN  = 0x7ffffffe
	topGone = 0x80000000
)

func (k top) emit(f *file, i isa) {
	if i.width != 16 {
		return
	}
	load := func(g *fn, args ...[2]string) {
		for _, p := range args {
			g.arg(p[0], p[1])
		}
	}
	// Leaves from elements, with the maxima of 16. A vector that is not whole is filled up.
	g := f.function("topLeavesF32"+i.name, i, []arg{{"leaves", "*int32"}, {"maxima", "*int32"}, {"x", "*float32"},
		{"n", "int"}, {"flip", "int"}}, nil)
	k.constants(g)
	load(g, [2]string{"leaves", "DI"}, [2]string{"maxima", "R8"}, [2]string{"x", "SI"}, [2]string{"n", "CX"})
	k.leaves(g)
	g.e("VZEROUPPER")
	g.e("RET")

	// The maxima of n vectors.
	g = f.function("topMaxima"+i.name, i, []arg{{"maxima", "*int32"}, {"x", "*int32"}, {"n", "int"}}, nil)
	load(g, [2]string{"maxima", "DI"}, [2]string{"x", "SI"}, [2]string{"n", "CX"})
	g.label("vector")
	g.e("VMOVDQU32 (SI), Z1")
	k.maximum(g)
	g.e("VMOVD X1, (DI)")
	g.e("ADDQ $64, SI")
	g.e("ADDQ $4, DI")
	g.e("DECQ CX")
	g.e("JNZ vector")
	g.e("VZEROUPPER")
	g.e("RET")

	// The indices of the n largest leaves, which are taken out. offsets has the offset in bytes of
	// each level, leaves first.
	g = f.function("topTake"+i.name, i,
		[]arg{{"at", "*int64"}, {"tree", "*int32"}, {"offsets", "*int"}, {"levels", "int"}, {"n", "int"}}, nil)
	g.e("MOVL $0x%x, AX", topGone)
	g.e("VPBROADCASTD AX, Z31")
	load(g, [2]string{"at", "DI"}, [2]string{"tree", "SI"}, [2]string{"offsets", "BX"}, [2]string{"levels", "CX"},
		[2]string{"n", "DX"})
	k.take(g, true)
	g.e("VZEROUPPER")
	g.e("RET")

	// The indices of the k largest elements of adjacent rows with one or two levels.
	g = f.function("topRowsF32"+i.name, i,
		[]arg{{"at", "*int64"}, {"tree", "*int32"}, {"offsets", "*int"}, {"levels", "int"}, {"k", "int"},
			{"maxima", "*int32"}, {"x", "*float32"}, {"n", "int"}, {"flip", "int"}, {"rows", "int"}}, nil)
	k.constants(g)
	load(g, [2]string{"x", "R12"}, [2]string{"at", "R13"})
	g.label("row")
	load(g, [2]string{"tree", "DI"}, [2]string{"maxima", "R8"}, [2]string{"n", "CX"})
	g.e("MOVQ R12, SI")
	g.e("LEAQ (R12)(CX*4), R12")
	k.leaves(g)
	load(g, [2]string{"tree", "SI"}, [2]string{"offsets", "BX"}, [2]string{"levels", "CX"}, [2]string{"k", "DX"})
	g.e("MOVQ R13, DI")
	k.take(g, false)
	g.e("MOVQ DI, R13")
	g.e("DECQ rows+%d(FP)", g.off["rows"])
	g.e("JNZ row")
	g.e("VZEROUPPER")
	g.e("RET")
}

// constants loads those of leaves.
func (top) constants(g *fn) {
	g.arg("flip", "AX")
	g.e("VPBROADCASTD AX, Z28")
	for j, v := range []int{topNaN, 0x7fffffff, topGone} {
		g.e("MOVL $0x%x, AX", v)
		g.e("VPBROADCASTD AX, Z%d", 29+j)
	}
	g.e("VPXORD Z27, Z27, Z27")
}

// leaves turns CX elements from SI on into leaves at DI and maxima at R8.
func (k top) leaves(g *fn) {
	g.e("KXNORW K1, K1, K1")
	g.label("vector")
	g.e("CMPQ CX, $16")
	g.e("JGE whole")
	g.e("MOVL $1, AX")
	g.e("SHLXL CX, AX, AX")
	g.e("DECL AX")
	g.e("KMOVW AX, K1")
	g.label("whole")
	g.e("VMOVUPS.Z (SI), K1, Z0")
	g.e("VADDPS Z27, Z0, Z0") // -0 becomes 0
	g.e("VCMPPS $3, Z0, Z0, K2")
	g.e("VPSRAD $31, Z0, Z1")
	g.e("VPANDD Z30, Z1, Z1")
	g.e("VPXORD Z1, Z0, Z0")
	g.e("VMOVDQA32 Z29, K2, Z0")
	g.e("VPXORD Z28, Z0, Z0")
	g.e("VMOVDQA32 Z31, Z1")
	g.e("VMOVDQA32 Z0, K1, Z1")
	g.e("VMOVDQU32 Z1, (DI)")
	k.maximum(g)
	g.e("VMOVD X1, (R8)")
	g.e("ADDQ $64, SI")
	g.e("ADDQ $64, DI")
	g.e("ADDQ $4, R8")
	g.e("SUBQ $16, CX")
	g.e("JG vector")
}

// take writes the indices of the DX largest leaves to DI, which it advances. Without more, it
// leaves the last one in the tree.
func (k top) take(g *fn, more bool) {
	g.e("MOVQ -8(BX)(CX*8), R9")
	g.e("VMOVDQU32 (SI)(R9*1), Z3") // the root stays in Z3
	g.e("VMOVDQA32 Z3, Z1")
	k.maximum(g)
	g.label("take")
	g.e("MOVQ CX, R8")
	g.e("XORQ AX, AX") // the index in a level
	g.e("VMOVDQA32 Z3, Z0")
	g.label("down")
	g.e("VPCMPEQD Z1, Z0, K2")
	g.e("KMOVW K2, R11")
	g.e("TZCNTL R11, R11")
	g.e("ADDQ R11, AX")
	g.e("DECQ R8")
	g.e("JZ leaf")
	g.e("MOVQ -8(BX)(R8*8), R9")
	g.e("ADDQ SI, R9")
	g.e("SHLQ $4, AX")
	g.e("VMOVDQU32 (R9)(AX*4), Z0")
	g.e("JMP down")
	g.label("leaf")
	g.e("MOVQ AX, (DI)")
	g.e("ADDQ $8, DI")
	if !more {
		g.e("DECQ DX")
		g.e("JZ taken")
	}
	g.e("VMOVDQA32 Z31, Z1")
	g.label("up")
	g.e("MOVQ (BX)(R8*8), R9")
	g.e("ADDQ SI, R9")
	g.e("MOVL AX, R10")
	g.e("ANDL $15, R10")
	g.e("MOVL $1, R11")
	g.e("SHLXL R10, R11, R11")
	g.e("KMOVW R11, K2")
	g.e("XORQ R10, AX")
	g.e("VMOVDQU32 (R9)(AX*4), Z0")
	g.e("VMOVDQA32 Z1, K2, Z0")
	g.e("VMOVDQU32 Z0, (R9)(AX*4)")
	g.e("VMOVDQA32 Z0, Z1")
	g.e("VMOVDQA32 Z0, Z3")
	k.maximum(g)
	g.e("SHRQ $4, AX")
	g.e("INCQ R8")
	g.e("CMPQ R8, CX")
	g.e("JLT up")
	if more {
		g.e("DECQ DX")
		g.e("JNZ take")
		return
	}
	g.e("JMP take")
	g.label("taken")
}

// maximum sets all lanes of Z1 to the largest.
func (top) maximum(g *fn) {
	for _, s := range []string{"VSHUFI64X2 $0x4E, Z1, Z1, Z2", "VSHUFI64X2 $0xB1, Z1, Z1, Z2", "VPSHUFD $0x4E, Z1, Z2",
		"VPSHUFD $0xB1, Z1, Z2"} {
		g.e("%s", s)
		g.e("VPMAXSD Z2, Z1, Z1")
	}
}

func (top) dispatch(isas []isa) string {
	if len(isas) == 1 {
		return ""
	}
	return `
func topLeavesF32(leaves, maxima *int32, x *float32, n, flip int) {
	topLeavesF32` + isas[0].name + `(leaves, maxima, x, n, flip)
}

func topMaxima(maxima, x *int32, n int) { topMaxima` + isas[0].name + `(maxima, x, n) }

func topTake(at *int64, tree *int32, offsets *int, levels, n int) {
	topTake` + isas[0].name + `(at, tree, offsets, levels, n)
}

func topRowsF32(at *int64, tree *int32, offsets *int, levels, k int, maxima *int32, x *float32, n, flip, rows int) {
	topRowsF32` + isas[0].name + `(at, tree, offsets, levels, k, maxima, x, n, flip, rows)
}
`
}

func (top) neon() bool { return false }

func (top) noasm() string {
	return `
func topLeavesF32(*int32, *int32, *float32, int, int)    {}
func topMaxima(*int32, *int32, int)                      {}
func topTake(*int64, *int32, *int, int, int)             {}
func topRowsF32(*int64, *int32, *int, int, int, *int32, *float32, int, int, int) {}
`
}
