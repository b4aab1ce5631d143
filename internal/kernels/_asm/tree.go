package main

import "fmt"

// Layout of a heap's table: 64 thresholds, then 16 times 64 features, by node number. Node 0 does
// not exist; its entries are the depth and 16 times the target. A heap has 64 weights.
const (
	heapFeatures = 256
	heapBytes    = 512
	heapWeights  = 256
)

// heaps writes a kernel that walks sixteen rows through n heaps of depth 1 to 6 and adds the
// weights of the nodes that they reach below the last level to sums; without weights, it writes the
// nodes to out. It compares the rows with all nodes of the first four levels, stores 16 results for
// each node, and looks them up in registers; that costs less than to gather the keys of four
// levels. The lookups are done after the comparisons of the next heap, because a load of several
// stores waits until they have reached the cache.
func heaps(f *file) {
	g := f.function("heapsAVX512", avx512, []arg{{"out", "*uint32"}, {"sums", "*float64"}, {"weights", "*float32"},
		{"tables", "*uint32"}, {"keys", "*uint32"}, {"n", "int"}}, nil)
	g.arg("out", "DI")
	g.arg("sums", "R15")
	g.arg("weights", "DX")
	g.arg("tables", "SI")
	g.arg("keys", "BX")
	g.arg("n", "CX")
	table := "" // the numbers of the rows, then their bits in a result
	for r := range 16 {
		table += fmt.Sprintf("DATA heapRows<>+%d(SB)/4, $%d\n", 4*r, r)
	}
	for r := range 16 {
		table += fmt.Sprintf("DATA heapRows<>+%d(SB)/2, $%d\n", 64+2*r, 1<<r)
	}
	f.tables = append(f.tables, table+"GLOBL heapRows<>(SB), RODATA|NOPTR, $96\n")
	const at, result, threshold, row, lane, one, ones = 2, 3, 4, 28, 29, 30, 31
	g.e("VMOVDQU32 heapRows<>+0(SB), Z%d", lane)
	g.e("VMOVDQU16 heapRows<>+64(SB), Y%d", row)
	g.e("MOVL $1, AX")
	g.e("VPBROADCASTD AX, Z%d", one)
	g.e("VPBROADCASTW AX, Y%d", ones)
	g.e("LEAQ 0(SP), R8")  // results of this heap
	g.e("LEAQ 32(SP), R9") // and of the one before
	g.e("XORL R10, R10")   // the depth of the heap before, 0 at first
	g.label("heap")
	g.e("MOVL (SI), R11")
	for k := 1; k < 16; k++ {
		if k == 8 {
			g.e("CMPL R11, $3")
			g.e("JLE compared")
		}
		offset := [2]string{"AX", "R14"}[k%2]
		g.e("MOVL %d(SI), %s", heapFeatures+4*k, offset)
		g.e("VMOVDQU32 (BX)(%s*4), Z%d", offset, 16+k%8)
		g.e("VPCMPUD.BCST $6, %d(SI), Z%d, K%d", 4*k, 16+k%8, 1+k%4) // greater
		g.e("KMOVW K%d, %d(R8)", 1+k%4, 2*k)
	}
	g.label("compared")
	g.e("MOVQ SI, R12")
	g.e("ADDQ $%d, SI", heapBytes)
	g.label("look")
	g.e("XCHGQ R8, R9")
	g.e("TESTL R10, R10")
	g.e("JEQ next")
	g.e("VMOVDQU16 (R8), Y0")
	g.e("VMOVDQA32 Y%d, Y%d", ones, at)
	g.e("MOVL $4, AX")
	g.e("CMPL R10, AX")
	g.e("CMOVLLT R10, AX")
	g.label("level") // nodes 1 to 15
	g.e("VPERMW Y0, Y%d, Y%d", at, result)
	g.e("VPTESTMW Y%d, Y%d, K1", row, result)
	g.e("VPADDW Y%d, Y%[1]d, Y%[1]d", at)
	g.e("VPADDW Y%d, Y%d, K1, Y%[2]d", ones, at)
	g.e("DECL AX")
	g.e("JNZ level")
	g.e("VPMOVZXWD Y%d, Z%[1]d", at)
	step := func() {
		g.e("VPADDD Z%d, Z%d, Z%[2]d", lane, result)
		g.e("KXNORW K1, K1, K1")
		g.e("VPXORD Z5, Z5, Z5")
		g.e("VPGATHERDD (BX)(Z%d*4), K1, Z5", result)
		g.e("VPCMPUD $6, Z%d, Z5, K2", threshold) // greater
		g.e("VPADDD Z%d, Z%[1]d, Z%[1]d", at)
		g.e("VPADDD Z%d, Z%d, K2, Z%[2]d", one, at)
	}
	g.e("CMPL R10, $5")
	g.e("JLT done")
	g.e("VPERMD %d(R13), Z%d, Z%d", heapFeatures+64, at, result) // nodes 16 to 31; the lookups use the low bits
	g.e("VPERMD 64(R13), Z%d, Z%d", at, threshold)
	step()
	g.e("CMPL R10, $6")
	g.e("JNE done")
	g.e("VMOVDQU32 %d(R13), Z0", heapFeatures+128) // nodes 32 to 63
	g.e("VMOVDQU32 128(R13), Z1")
	g.e("VMOVDQA32 Z%d, Z%d", at, result)
	g.e("VMOVDQA32 Z%d, Z%d", at, threshold)
	g.e("VPERMI2D %d(R13), Z0, Z%d", heapFeatures+192, result)
	g.e("VPERMI2D 192(R13), Z1, Z%d", threshold)
	step()
	g.label("done")
	g.e("TESTQ DX, DX")
	g.e("JEQ nodes")
	g.e("MOVL %d(R13), AX", heapFeatures)
	g.e("LEAQ (R15)(AX*8), AX")
	g.e("VMOVUPS (DX), Z0")
	g.e("VMOVUPS 128(DX), Z1")
	g.e("VMOVDQA32 Z%d, Z3", at)
	g.e("VMOVDQA32 Z%d, Z4", at)
	g.e("VPERMI2PS 64(DX), Z0, Z3")
	g.e("VPERMI2PS 192(DX), Z1, Z4")
	g.e("VPSLLD $26, Z%d, Z5", at) // the bit that selects the second half
	g.e("VPMOVD2M Z5, K1")
	g.e("VMOVAPS Z4, K1, Z3")
	g.e("VEXTRACTF32X8 $1, Z3, Y4")
	g.e("VCVTPS2PD Y3, Z3")
	g.e("VCVTPS2PD Y4, Z4")
	g.e("VADDPD (AX), Z3, Z3")
	g.e("VADDPD 64(AX), Z4, Z4")
	g.e("VMOVUPD Z3, (AX)")
	g.e("VMOVUPD Z4, 64(AX)")
	g.e("ADDQ $%d, DX", heapWeights)
	g.e("JMP next")
	g.label("nodes")
	g.e("VMOVDQU32 Z%d, (DI)", at)
	g.e("ADDQ $64, DI")
	g.label("next")
	g.e("MOVL R11, R10")
	g.e("MOVQ R12, R13") // the table of the heap before
	g.e("DECQ CX")
	g.e("JGT heap")
	g.e("JEQ look") // of the last heap
	g.e("VZEROUPPER")
	g.e("RET")
}

// Layout of package tree's traversals and nodes.
const (
	treeRows = 512
	treeLeaf = 10 // bits that are set in a leaf's threshold
)

// walk writes a kernel that takes steps of groups of eight traversals (see walkGeneric). It
// computes with integers; the instruction set is that of the level, of which it needs BMI2. The
// traversals of a group end early if all are at leaves after a multiple of eight steps.
func walk(f *file) {
	g := f.function("walkAVX2", avx2, []arg{{"t", "*traversals"}, {"nodes", "*uint64"}, {"keys", "*uint32"},
		{"bits", "uint"}, {"steps", "int"}, {"groups", "int"}}, nil)
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
	g := f.function("walkNEON", neon, []arg{{"t", "*traversals"}, {"nodes", "*uint64"}, {"keys", "*uint32"},
		{"bits", "uint"}, {"steps", "int"}, {"groups", "int"}}, nil)
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

var _ = register("tree", writeTree)

func writeTree(dir string) {
	f := newFile("tree")
	heaps(f)
	walk(f)
	f.write(dir, "tree", "")
	f = newFile("tree")
	walkNEON(f)
	f.write(dir, "tree", "")
}
