package main

import "fmt"

// Offsets in a heap's table: 64 thresholds, then 64 features, by node number. Node 0 does not
// exist; its entry holds the depth.
const (
	heapFeatures = 256
	heapBytes    = 512
)

// heaps writes a kernel that finds, for n heaps of float32 of depth 1 to 6, the nodes below the
// last level that sixteen rows reach. Nodes are looked up in registers and features gathered. Two
// adjacent heaps of equal depth advance together, so that the latencies of their gathers overlap;
// another heap advances with itself.
func heaps(f *file) {
	g := f.function("heapsAVX512", avx512, []arg{{"out", "*uint32"}, {"tables", "*uint32"}, {"x", "*float32"}, {"offsets", "*uint32"}, {"n", "int"}}, nil)
	g.arg("out", "DI")
	g.arg("tables", "SI")
	g.arg("x", "BX")
	g.arg("offsets", "AX")
	g.arg("n", "CX")
	g.e("VMOVDQU32 (AX), Z31")
	g.e("MOVL $1, AX")
	g.e("VPBROADCASTD AX, Z30")
	const heap = 12 // registers of a heap: 8 of its table, then the nodes and temporaries
	step := func(thresholds, features int) {
		for r := 0; r < 2*heap; r += heap {
			g.e("VMOVDQA32 Z%d, Z%d", r+8, r+9)
			g.e("VPERMI2D Z%d, Z%d, Z%d", r+features+1, r+features, r+9)
			g.e("VMOVDQA32 Z%d, Z%d", r+8, r+10)
			g.e("VPERMI2PS Z%d, Z%d, Z%d", r+thresholds+1, r+thresholds, r+10)
			g.e("VPADDD Z31, Z%d, Z%[1]d", r+9)
			g.e("KXNORW K1, K1, K1")
			g.e("VPXORD Z%d, Z%[1]d, Z%[1]d", r+11)
			g.e("VGATHERDPS (BX)(Z%d*4), K1, Z%d", r+9, r+11)
		}
		for r := 0; r < 2*heap; r += heap {
			g.e("VCMPPS $6, Z%d, Z%d, K2", r+10, r+11) // not less or equal, and NaN
			g.e("VPADDD Z%d, Z%[1]d, Z%[1]d", r+8)
			g.e("VPADDD Z30, Z%d, K2, Z%[1]d", r+8)
		}
	}
	g.label("tree")
	g.e("MOVL %d(SI), DX", heapFeatures)
	g.e("XORL R9, R9") // offset of the second heap's table
	g.e("CMPQ CX, $1")
	g.e("JEQ load")
	g.e("CMPL DX, %d(SI)", heapBytes+heapFeatures)
	g.e("JNE load")
	g.e("MOVL $%d, R9", heapBytes)
	g.label("load")
	for r := range 4 {
		g.e("VMOVDQU32 %d(SI), Z%d", r*64, r)
		g.e("VMOVDQU32 %d(SI), Z%d", heapFeatures+r*64, 4+r)
		g.e("VMOVDQU32 %d(SI)(R9*1), Z%d", r*64, heap+r)
		g.e("VMOVDQU32 %d(SI)(R9*1), Z%d", heapFeatures+r*64, heap+4+r)
	}
	g.e("VMOVDQA32 Z30, Z8")
	g.e("VMOVDQA32 Z30, Z%d", heap+8)
	g.e("MOVL DX, R8")
	g.e("CMPL R8, $5")
	g.e("JLE level")
	g.e("MOVL $5, R8")
	g.label("level") // nodes 1 to 31
	step(0, 4)
	g.e("DECL R8")
	g.e("JNZ level")
	g.e("CMPL DX, $6")
	g.e("JNE done")
	step(2, 6) // nodes 32 to 63; the lookups use the low bits
	g.label("done")
	g.e("VMOVDQU32 Z8, (DI)")
	g.e("ADDQ $64, DI")
	g.e("ADDQ $%d, SI", heapBytes)
	g.e("DECQ CX")
	g.e("TESTQ R9, R9")
	g.e("JEQ single")
	g.e("VMOVDQU32 Z%d, (DI)", heap+8)
	g.e("ADDQ $64, DI")
	g.e("ADDQ R9, SI")
	g.e("DECQ CX")
	g.label("single")
	g.e("TESTQ CX, CX")
	g.e("JNZ tree")
	g.e("VZEROUPPER")
	g.e("RET")
}

// Offsets in package tree's group.
const (
	groupRows  = 64
	groupNodes = 96
)

// walk writes a kernel that takes steps of eight traversals (see walkGeneric). It computes with integers; the instruction
// set is that of the level, of which it needs BMI2.
func walk(f *file) {
	g := f.function("walkAVX2", avx2, []arg{{"traversals", "*group"}, {"x", "*float32"}, {"bits", "uint"}, {"steps", "int"}}, nil)
	g.arg("traversals", "AX")
	g.arg("x", "BX")
	g.arg("bits", "CX")
	g.arg("steps", "DX")
	g.e("MOVQ DX, 0(SP)")
	for k := range 8 {
		g.e("MOVL %d(AX), R%d", groupNodes+4*k, 8+k)
	}
	g.label("step")
	for k := range 8 {
		i := fmt.Sprintf("R%d", 8+k)
		g.e("MOVQ %d(AX), DI", 8*k)
		g.e("MOVL 4(DI)(%s*8), SI", i)
		g.e("VMOVSS (DI)(%s*8), X%d", i, k)
		g.e("BZHIL CX, SI, DX")
		g.e("ADDL %d(AX), DX", groupRows+4*k)
		g.e("VUCOMISS (BX)(DX*4), X%d", k) // the carry flag is set if the threshold is less, and for NaN
		g.e("SHRXL CX, SI, %s", i)
		g.e("ADCL $0, %s", i)
	}
	g.e("DECQ 0(SP)")
	g.e("JNZ step")
	for k := range 8 {
		g.e("MOVL R%d, %d(AX)", 8+k, groupNodes+4*k)
	}
	g.e("RET")
}

// walkNEON writes the walk for arm64. A node is one load of threshold and word. HI is greater or unordered.
func walkNEON(f *file) {
	g := f.function("walkNEON", neon, []arg{{"traversals", "*group"}, {"x", "*float32"}, {"bits", "uint"}, {"steps", "int"}}, nil)
	roots := [...]string{"R17", "R19", "R20", "R21", "R22", "R23", "R24", "R25"}
	for i, name := range []string{"traversals", "x", "bits", "steps"} {
		g.raw("MOVD %s+%d(FP), R%d", name, g.off[name], i)
	}
	g.raw("MOVD $1, R4")
	g.raw("LSL R2, R4")
	g.raw("SUB $1, R4")
	for k, root := range roots {
		g.raw("MOVD %d(R0), %s", 8*k, root)
		g.raw("MOVWU %d(R0), R%d", groupNodes+4*k, 8+k)
	}
	g.label("step")
	for k, root := range roots {
		i := 8 + k
		g.raw("MOVD (%s)(R%d<<3), R5", root, i)
		g.raw("FMOVS R5, F%d", k)
		g.raw("LSR $32, R5")
		g.raw("MOVWU %d(R0), R7", groupRows+4*k)
		g.raw("AND R4, R5, R6")
		g.raw("LSR R2, R5, R%d", i)
		g.raw("ADD R7, R6")
		g.raw("FMOVS (R1)(R6<<2), F%d", 16+k)
		g.raw("FCMPS F%d, F%d", k, 16+k)
		g.raw("CINC HI, R%d, R%d", i, i)
	}
	g.raw("SUBS $1, R3")
	g.raw("BNE step")
	for k := range roots {
		g.raw("MOVW R%d, %d(R0)", 8+k, groupNodes+4*k)
	}
	g.raw("RET")
}

func writeTree(dir string) {
	f := newFile("tree")
	heaps(f)
	walk(f)
	write(dir+"/tree_amd64.s", f.text())
	write(dir+"/tree_stubs_amd64.go", generated+"//go:build !purego\n\npackage tree\n"+f.stubs.String())
	f = newFile("tree")
	walkNEON(f)
	write(dir+"/tree_arm64.s", f.text())
	write(dir+"/tree_stubs_arm64.go", generated+"//go:build !purego\n\npackage tree\n"+f.stubs.String())
}
