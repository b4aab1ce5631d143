package main

// Offsets in a heap's table: 64 thresholds, then 64 features, by node number. Node 0 does not
// exist; its entry holds the depth.
const (
	heapFeatures = 256
	heapBytes    = 512
)

// heaps writes a kernel that finds, for n heaps of depth 1 to 6, the nodes below the
// last level that sixteen rows reach. Nodes are looked up in registers and keys gathered. Two
// adjacent heaps of equal depth advance together, so that the latencies of their gathers overlap;
// another heap advances with itself.
func heaps(f *file) {
	g := f.function("heapsAVX512", avx512, []arg{{"out", "*uint32"}, {"tables", "*uint32"}, {"keys", "*uint32"}, {"offsets", "*uint32"}, {"n", "int"}}, nil)
	g.arg("out", "DI")
	g.arg("tables", "SI")
	g.arg("keys", "BX")
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
			g.e("VPERMI2D Z%d, Z%d, Z%d", r+thresholds+1, r+thresholds, r+10)
			g.e("VPADDD Z31, Z%d, Z%[1]d", r+9)
			g.e("KXNORW K1, K1, K1")
			g.e("VPXORD Z%d, Z%[1]d, Z%[1]d", r+11)
			g.e("VPGATHERDD (BX)(Z%d*4), K1, Z%d", r+9, r+11)
		}
		for r := 0; r < 2*heap; r += heap {
			g.e("VPCMPUD $6, Z%d, Z%d, K2", r+10, r+11) // greater
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

// Layout of package tree's traversals and nodes.
const (
	treeRows = 512
	treeLeaf = 10 // bits that are set in a leaf's threshold
)

// walk writes a kernel that takes steps of groups of eight traversals (see walkGeneric). It computes with integers; the
// instruction set is that of the level, of which it needs BMI2. The traversals of a group end early if all are at leaves
// after a multiple of eight steps.
func walk(f *file) {
	g := f.function("walkAVX2", avx2, []arg{{"t", "*traversals"}, {"nodes", "*uint64"}, {"keys", "*uint32"}, {"bits", "uint"}, {"steps", "int"}, {"groups", "int"}}, nil)
	g.arg("t", "AX")
	g.arg("nodes", "BX")
	g.arg("keys", "DI")
	g.arg("bits", "CX")
	g.label("group")
	for k := range 8 {
		g.e("MOVL %d(AX), R%d", 4*k, 8+k)
		g.e("MOVL %d(AX), SI", 32+4*k) // of the next group, or any number after the last one
		g.e("PREFETCHT0 (BX)(SI*8)")
	}
	g.arg("steps", "DX")
	g.e("TESTQ DX, DX")
	g.e("JEQ done")
	g.label("steps")
	g.e("MOVL $8, SI")
	g.e("CMPQ DX, SI")
	g.e("CMOVQLT DX, SI")
	g.e("SUBQ SI, DX")
	g.e("MOVQ DX, 0(SP)") // steps after these
	g.e("MOVQ SI, 8(SP)")
	g.label("step")
	for k := range 8 {
		g.e("MOVL (BX)(R%d*8), SI", 8+k)
		g.e("BZHIL CX, SI, DX")
		g.e("ADDL %d(AX), DX", treeRows+4*k)
		g.e("MOVL (DI)(DX*4), DX")
		g.e("SHRXL CX, SI, SI")
		g.e("CMPL 4(BX)(R%d*8), DX", 8+k) // the carry flag is set if the threshold is less
		g.e("ADCL SI, R%d", 8+k)
	}
	g.e("DECQ 8(SP)")
	g.e("JNZ step")
	g.e("MOVQ 0(SP), DX")
	g.e("TESTQ DX, DX")
	g.e("JEQ done")
	g.e("MOVQ (BX)(R8*8), SI")
	for k := 1; k < 8; k++ {
		g.e("ANDQ (BX)(R%d*8), SI", 8+k)
	}
	g.e("SARQ $%d, SI", 64-treeLeaf)
	g.e("CMPQ SI, $-1")
	g.e("JNE steps")
	g.label("done")
	for k := range 8 {
		g.e("MOVL 4(BX)(R%d*8), SI", 8+k)
		g.e("ANDL $%d, SI", 1<<(32-treeLeaf)-1)
		g.e("MOVL SI, %d(AX)", 4*k)
	}
	g.e("ADDQ $32, AX")
	g.e("DECQ %s+%d(FP)", "groups", g.off["groups"])
	g.e("JNZ group")
	g.e("RET")
}

// walkNEON writes the walk for arm64.
func walkNEON(f *file) {
	g := f.function("walkNEON", neon, []arg{{"t", "*traversals"}, {"nodes", "*uint64"}, {"keys", "*uint32"}, {"bits", "uint"}, {"steps", "int"}, {"groups", "int"}}, nil)
	for i, name := range []string{"t", "nodes", "keys", "bits"} {
		g.raw("MOVD %s+%d(FP), R%d", name, g.off[name], i)
	}
	g.raw("MOVD $1, R4")
	g.raw("LSL R3, R4")
	g.raw("SUB $1, R4")
	g.label("group")
	for k := range 8 {
		g.raw("MOVWU %d(R0), R%d", 4*k, 8+k)
		g.raw("MOVWU %d(R0), R%d", treeRows+4*k, 19+k)
	}
	g.raw("MOVD steps+%d(FP), R16", g.off["steps"])
	g.raw("CBZ R16, done")
	g.label("steps")
	g.raw("MOVD $8, R5")
	g.raw("CMP R5, R16")
	g.raw("CSEL LT, R16, R5, R5")
	g.raw("SUB R5, R16")
	g.label("step")
	for k := range 8 {
		g.raw("MOVD (R1)(R%d<<3), R6", 8+k)
		g.raw("AND R4, R6, R7")
		g.raw("ADD R%d, R7", 19+k)
		g.raw("MOVWU (R2)(R7<<2), R7")
		g.raw("LSR $32, R6, R17")
		g.raw("LSRW R3, R6, R6")
		g.raw("CMPW R17, R7")
		g.raw("CINC HI, R6, R6") // the threshold is less than the key
		g.raw("ADDW R6, R%d", 8+k)
	}
	g.raw("SUBS $1, R5")
	g.raw("BNE step")
	g.raw("CBZ R16, done")
	g.raw("MOVD (R1)(R8<<3), R6")
	for k := 1; k < 8; k++ {
		g.raw("MOVD (R1)(R%d<<3), R7", 8+k)
		g.raw("AND R7, R6")
	}
	g.raw("ASR $%d, R6", 64-treeLeaf)
	g.raw("CMN $1, R6")
	g.raw("BNE steps")
	g.label("done")
	for k := range 8 {
		g.raw("MOVD (R1)(R%d<<3), R6", 8+k)
		g.raw("UBFX $32, R6, $%d, R6", 32-treeLeaf)
		g.raw("MOVW R6, %d(R0)", 4*k)
	}
	g.raw("ADD $32, R0")
	g.raw("MOVD groups+%d(FP), R6", g.off["groups"])
	g.raw("SUBS $1, R6")
	g.raw("MOVD R6, groups+%d(FP)", g.off["groups"])
	g.raw("BNE group")
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
