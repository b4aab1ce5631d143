package main

import "fmt"

// Offsets of the fields of quant's nbitsArgs.
const (
	nA, nAScale, nASum = 0, 8, 16
	nLdA, nLdS         = 24, 32
	nB, nScale, nShift = 40, 48, 56
	nBlocks, nSteps    = 64, 72
	nC, nLdC           = 80, 88
	nAcc, nMask        = 96, 104
	nFar               = 112
	nZero, nStandard   = 120, 128
	aheadScales        = 2048 // prefetch distance of scales
)

// nibbleK returns the k of nibble p of a 32-bit word. Even nibbles hold k = 0 to 3 and odd ones k =
// 4 to 7, so that two masks yield two words of four consecutive bytes.
func nibbleK(p int) int { return p/2 + 4*(p%2) }

// nbitsTile writes the GEMM of mr int8 rows and 32 columns of 4- or 8-bit integers with a scale per
// block of K: VPDPBUSD within a block, float32 across blocks. An iteration takes eight k: a word of
// nibbles, or two words of int8, which become uint8 by adding 128.
func nbitsTile(f *file, bits, mr int) string {
	name := fmt.Sprintf("nbits%d%dx32VNNI", bits, mr)
	g := f.function(name, vnni, []arg{{"t", "*nbitsArgs"}}, nil)
	fl := func(r, j int) int { return r*2 + j }        // sums
	in := func(r, j int) int { return 2*mr + r*2 + j } // sums within the block
	// sums of the upper nibbles; separate for few rows, to hide latency
	up := in
	if mr <= 2 {
		up = func(r, j int) int { return 4*mr + r*2 + j }
	}
	const lo0, hi0, lo1, hi1, maskReg, scale0, scale1 = 24, 25, 26, 27, 28, 29, 30
	g.arg("t", "DX")
	for _, p := range []struct {
		off int
		reg string
	}{{nA, "AX"}, {nAScale, "R10"}, {nASum, "R11"}, {nLdA, "R8"}, {nLdS, "R9"}, {nB, "DI"}, {nScale, "BX"},
		{nShift, "R12"}, {nBlocks, "R13"}} {
		g.e("MOVQ %d(DX), %s", p.off, p.reg)
	}
	g.farNBits()
	if bits == 4 {
		g.op("VMOVUPS", uint32(0x0f0f0f0f), maskReg)
	} else {
		g.op("VMOVUPS", uint32(0x80808080), maskReg)
	}
	for r := range mr {
		for j := range 2 {
			g.op("VXORPS", fl(r, j), fl(r, j), fl(r, j))
		}
	}
	// Rows of A are addressed by AX and R8, scales and sums of blocks by R10, R11 and R9.
	g.e("LEAQ (R8)(R8*2), R15")
	row := func(base, stride, triple string, i, d int) string {
		return fmt.Sprintf("%d", d) + [...]string{"(" + base + ")", "(" + base + ")(" + stride + "*1)",
			"(" + base + ")(" + stride + "*2)", "(" + base + ")(" + triple + "*1)",
			"(" + base + ")(" + stride + "*4)"}[i]
	}
	g.e("LEAQ (R9)(R9*2), SI")
	g.e("TESTQ R12, R12")
	g.e("JNZ block")
	g.e("MOVQ %d(DX), R12", nZero)
	g.label("block")
	g.e("CMPQ %d(DX), $0", nZero)
	g.e("JEQ standard")
	for j := range 2 {
		g.e("VPMOVSXBD %d(R12), Z%d", j*16, lo0+j)
		g.op("VPADDD.BCST", fmt.Sprintf("%d(DX)", nStandard), lo0+j, lo0+j)
		for r := range mr {
			g.op("VPMULLD.BCST", row("R11", "R9", "SI", r, 0), lo0+j, in(r, j))
		}
	}
	g.e("ADDQ $32, R12")
	g.e("JMP begin")
	g.label("standard")
	for r := range mr {
		g.e("VPBROADCASTD %s, Z%d", row("R11", "R9", "SI", r, 0), in(r, 0))
		g.op("VMOVAPS", in(r, 0), in(r, 1))
	}
	g.label("begin")
	for r := range mr {
		for j := range 2 {
			if up(r, j) != in(r, j) {
				g.op("VPXORD", up(r, j), up(r, j), up(r, j))
			}
		}
	}
	g.prefetchScales()
	g.e("MOVQ %d(DX), CX", nSteps)
	g.label("step")
	for j, p := range [][2]int{{lo0, hi0}, {lo1, hi1}} {
		if bits == 8 {
			g.op("VPXORD", fmt.Sprintf("%d(DI)", j*64), maskReg, p[0])
			g.op("VPXORD", fmt.Sprintf("%d(DI)", 128+j*64), maskReg, p[1])
			g.e("PREFETCHT0 %d(R14)", j*64)
			g.e("PREFETCHT0 %d(R14)", 128+j*64)
			continue
		}
		g.op("VMOVUPS", fmt.Sprintf("%d(DI)", j*64), p[0])
		g.e("PREFETCHT0 %d(R14)", j*64)
		g.op("VPSRLD", "$4", p[0], p[1])
		g.op("VPANDD", maskReg, p[0], p[0])
		g.op("VPANDD", maskReg, p[1], p[1])
	}
	for r := range mr {
		g.op("VPDPBUSD.BCST", row("AX", "R8", "R15", r, 0), lo0, in(r, 0))
		g.op("VPDPBUSD.BCST", row("AX", "R8", "R15", r, 0), lo1, in(r, 1))
	}
	for r := range mr {
		g.op("VPDPBUSD.BCST", row("AX", "R8", "R15", r, 4), hi0, up(r, 0))
		g.op("VPDPBUSD.BCST", row("AX", "R8", "R15", r, 4), hi1, up(r, 1))
	}
	g.e("ADDQ $8, AX")
	g.e("ADDQ $%d, DI", 32*bits)
	g.e("ADDQ $%d, R14", 32*bits)
	g.e("SUBQ $%d, CX", bits/4)
	g.e("JNZ step")
	g.op("VMOVUPS", "(BX)", scale0)
	g.op("VMOVUPS", "64(BX)", scale1)
	for r := range mr {
		for j := range 2 {
			if up(r, j) != in(r, j) {
				g.op("VPADDD", up(r, j), in(r, j), in(r, j))
			}
			g.op("VCVTDQ2PS", in(r, j), in(r, j))
			g.op("VMULPS.BCST", row("R10", "R9", "SI", r, 0), scale0+j, 31)
			g.op("VFMADD231PS", 31, in(r, j), fl(r, j))
		}
	}
	g.e("CMPQ %d(DX), $0", nShift)
	g.e("JEQ plain")
	// Add (standard-zero)·scale times the sum of the block's A. The sums of A are stored as
	// -standard·Σ.
	for r := range mr {
		g.e("VPBROADCASTD %s, Z31", row("R11", "R9", "SI", r, 0))
		g.op("VCVTDQ2PS", 31, 31)
		g.op("VMULPS", -1/float64(int(1)<<(bits-1)), 31, 31)
		g.op("VMULPS.BCST", row("R10", "R9", "SI", r, 0), 31, 31)
		for j := range 2 {
			g.op("VFMADD231PS", fmt.Sprintf("%d(R12)", j*64), 31, fl(r, j))
		}
	}
	g.e("ADDQ $128, R12")
	g.label("plain")
	g.e("ADDQ $128, BX")
	g.e("ADDQ $4, R10")
	g.e("ADDQ $4, R11")
	g.e("DECQ R13")
	g.e("JNZ block")
	g.nbitsStore(mr, fl)
	return name
}

// farNBits sets R14 to the address to prefetch for DI.
func (g *fn) farNBits() {
	g.e("MOVQ %d(DX), R14", nFar)
	g.e("ADDQ DI, R14")
}

// prefetchScales prefetches the scales, and the shifts if there are any, of a later block.
// Prefetching beyond the end or at address 0 does not fault.
func (g *fn) prefetchScales() {
	for j := range 2 {
		g.e("PREFETCHT0 %d(BX)", aheadScales+j*64)
		g.e("PREFETCHT0 %d(R12)", aheadScales+j*64)
	}
}

// nbitsStore stores the sums of mr rows, or adds them to C.
func (g *fn) nbitsStore(mr int, fl func(r, j int) int) {
	g.e("MOVQ %d(DX), DI", nC)
	g.e("MOVQ %d(DX), BX", nLdC)
	g.e("KMOVW %d(DX), K1", nMask)
	g.e("KMOVW %d(DX), K2", nMask+2)
	g.e("CMPQ %d(DX), $0", nAcc)
	g.e("JEQ store")
	g.e("MOVQ DI, SI")
	for r := range mr {
		for j := range 2 {
			g.op("VMOVUPS.Z", fmt.Sprintf("%d(SI)", j*64), fmt.Sprintf("K%d", j+1), 31)
			g.op("VADDPS", 31, fl(r, j), fl(r, j))
		}
		g.e("ADDQ BX, SI")
	}
	g.label("store")
	for r := range mr {
		for j := range 2 {
			g.op("VMOVUPS", fl(r, j), fmt.Sprintf("K%d", j+1), fmt.Sprintf("%d(DI)", j*64))
		}
		g.e("ADDQ BX, DI")
	}
	g.e("VZEROUPPER")
	g.e("RET")
}

// nbitsVector writes the GEMV of one float32 row and 32 columns of integers. With 4 bits, a nibble
// indexes a table of sixteen values. With 8 bits the integers are int8, and the table is not used.
func nbitsVector(f *file, bits int) {
	g := f.function(fmt.Sprintf("nbitsVector%dAVX512", bits), avx512,
		[]arg{{"t", "*nbitsArgs"}, {"table", "*float32"}}, nil)
	g.arg("t", "DX")
	g.arg("table", "SI")
	for _, p := range []struct {
		off int
		reg string
	}{{nA, "AX"}, {nASum, "R11"}, {nB, "DI"}, {nScale, "BX"}, {nShift, "R12"}, {nBlocks, "R13"}} {
		g.e("MOVQ %d(DX), %s", p.off, p.reg)
	}
	g.farNBits()
	const table = 30
	if bits == 4 {
		g.op("VMOVUPS", "(SI)", table)
	}
	for r := range 2 {
		g.op("VXORPS", r, r, r)
	}
	g.label("block")
	for r := 2; r < 10; r++ { // four sums per half, to hide latency
		g.op("VXORPS", r, r, r)
	}
	g.prefetchScales()
	g.e("MOVQ %d(DX), CX", nSteps)
	g.label("step")
	for j := range 2 {
		v := 10 + 8*j
		g.op("VMOVUPS", fmt.Sprintf("%d(DI)", j*64), v)
		g.e("PREFETCHT0 %d(R14)", j*64)
		if bits == 8 {
			for p := range 4 {
				g.signedByte(v, p, v+1+p)
				g.op("VFMADD231PS.BCST", fmt.Sprintf("%d(AX)", 4*p), v+1+p, 2+j*4+p)
			}
			continue
		}
		for p := 1; p < 8; p++ {
			g.op("VPSRLD", fmt.Sprintf("$%d", 4*p), v, v+p)
		}
		for p := range 8 { // the index is in the low four bits of a lane
			g.op("VPERMPS", table, v+p, v+p)
			g.op("VFMADD231PS.BCST", fmt.Sprintf("%d(AX)", 4*nibbleK(p)), v+p, 2+j*4+p%4)
		}
	}
	g.e("ADDQ $%d, AX", 4*32/bits)
	g.e("ADDQ $128, DI")
	g.e("ADDQ $128, R14")
	g.e("DECQ CX")
	g.e("JNZ step")
	for j := range 2 {
		b := 2 + 4*j
		g.op("VADDPS", b+1, b, b)
		g.op("VADDPS", b+3, b+2, b+2)
		g.op("VADDPS", b+2, b, b)
		g.op("VFMADD231PS", fmt.Sprintf("%d(BX)", j*64), b, j)
	}
	g.e("TESTQ R12, R12")
	g.e("JZ plain")
	for j := range 2 {
		g.op("VMOVUPS", fmt.Sprintf("%d(R12)", j*64), 2)
		g.op("VFMADD231PS.BCST", "(R11)", 2, j)
	}
	g.e("ADDQ $128, R12")
	g.label("plain")
	g.e("ADDQ $128, BX")
	g.e("ADDQ $4, R11")
	g.e("DECQ R13")
	g.e("JNZ block")
	g.nbitsStore(1, func(_, j int) int { return j })
}

// dequantize4 writes a kernel that converts 32 columns of 4-bit integers to float32, [k][32]:
// value·scale + shift per block, in steps of eight k.
func dequantize4(f *file) {
	g := f.function("dequantize4AVX512", avx512, []arg{{"dst", "*float32"}, {"b", "*uint8"}, {"scale", "*float32"},
		{"shift", "*float32"}, {"table", "*float32"}, {"steps", "int"}}, nil)
	g.arg("dst", "DI")
	g.arg("b", "SI")
	g.arg("scale", "BX")
	g.arg("shift", "R12")
	g.arg("table", "AX")
	g.arg("steps", "CX")
	g.op("VMOVUPS", "(AX)", 30)
	for j := range 2 {
		g.op("VMOVUPS", fmt.Sprintf("%d(BX)", j*64), 26+j)
		g.op("VMOVUPS", fmt.Sprintf("%d(R12)", j*64), 28+j)
	}
	g.label("step")
	for j := range 2 {
		g.op("VMOVUPS", fmt.Sprintf("%d(SI)", j*64), 0)
		for p := range 8 {
			if p > 0 {
				g.op("VPSRLD", fmt.Sprintf("$%d", 4*p), 0, 1+p)
			} else {
				g.op("VMOVAPS", 0, 1)
			}
			g.op("VPERMPS", 30, 1+p, 1+p)
			g.op("VFMADD213PS", 28+j, 26+j, 1+p)
			g.op("VMOVUPS", 1+p, fmt.Sprintf("%d(DI)", nibbleK(p)*128+j*64))
		}
	}
	g.e("ADDQ $128, SI")
	g.e("ADDQ $1024, DI")
	g.e("DECQ CX")
	g.e("JNZ step")
	g.e("VZEROUPPER")
	g.e("RET")
}

// signedByte converts byte p of each lane of v to float32 in d.
func (g *fn) signedByte(v, p, d int) {
	if p < 3 {
		g.op("VPSLLD", fmt.Sprintf("$%d", 24-8*p), v, d)
		v = d
	}
	g.op("VPSRAD", "$24", v, d)
	g.op("VCVTDQ2PS", d, d)
}

// dequantize8 is dequantize4 for int8, in steps of four k.
func dequantize8(f *file) {
	g := f.function("dequantize8AVX512", avx512, []arg{{"dst", "*float32"}, {"b", "*uint8"}, {"scale", "*float32"},
		{"shift", "*float32"}, {"steps", "int"}}, nil)
	g.arg("dst", "DI")
	g.arg("b", "SI")
	g.arg("scale", "BX")
	g.arg("shift", "R12")
	g.arg("steps", "CX")
	for j := range 2 {
		g.op("VMOVUPS", fmt.Sprintf("%d(BX)", j*64), 26+j)
		g.op("VMOVUPS", fmt.Sprintf("%d(R12)", j*64), 28+j)
	}
	g.label("step")
	for j := range 2 {
		g.op("VMOVUPS", fmt.Sprintf("%d(SI)", j*64), 0)
		for p := range 4 {
			g.signedByte(0, p, 1+p)
			g.op("VFMADD213PS", 28+j, 26+j, 1+p)
			g.op("VMOVUPS", 1+p, fmt.Sprintf("%d(DI)", p*128+j*64))
		}
	}
	g.e("ADDQ $128, SI")
	g.e("ADDQ $512, DI")
	g.e("DECQ CX")
	g.e("JNZ step")
	g.e("VZEROUPPER")
	g.e("RET")
}

// quantizeRow writes a kernel that quantizes a block of a row to int8: round(x·factor).
func quantizeRow(f *file) {
	g := f.function("quantizeBlockAVX512", avx512,
		[]arg{{"dst", "*int8"}, {"x", "*float32"}, {"n", "int"}, {"factor", "float32"}}, &arg{"sum", "int32"})
	g.arg("dst", "DI")
	g.arg("x", "SI")
	g.arg("n", "CX")
	g.bcast("factor", 1)
	g.op("VPXORD", 2, 2, 2)
	g.label("loop")
	g.op("VMULPS", "(SI)", 1, 0)
	g.op("VCVTPS2DQ", 0, 0)
	g.op("VPADDD", 0, 2, 2)
	g.op("VPMOVSDB", 0, "(DI)")
	g.e("ADDQ $64, SI")
	g.e("ADDQ $16, DI")
	g.e("SUBQ $16, CX")
	g.e("JNZ loop")
	g.sumLanes(2, 3)
	g.e("MOVL AX, sum+%d(FP)", g.off["sum"])
	g.e("VZEROUPPER")
	g.e("RET")
}

// sumLanes sets AX to the sum of the int32 lanes of v.
func (g *fn) sumLanes(v, temp int) {
	g.e("VEXTRACTI64X4 $1, Z%d, Y%d", v, temp)
	g.e("VPADDD Y%d, Y%d, Y%d", temp, v, v)
	g.e("VEXTRACTI128 $1, Y%d, X%d", v, temp)
	g.e("VPADDD X%d, X%d, X%d", temp, v, v)
	g.e("VPHADDD X%d, X%d, X%d", v, v, v)
	g.e("VPHADDD X%d, X%d, X%d", v, v, v)
	g.e("VMOVD X%d, AX", v)
}

// digitBytes writes a kernel that converts a block of a row to integers, round(x·factor), and each
// of them to three int8 digits to base 256: Σ d[j]·256^(2-j). It also stores the sums of the
// digits.
func digitBytes(f *file) {
	g := f.function("digitBytesVNNI", vnni, []arg{{"d0", "*int8"}, {"d1", "*int8"}, {"d2", "*int8"}, {"x", "*float32"},
		{"n", "int"}, {"factor", "float32"}, {"sum", "*int32"}}, nil)
	for j := range 3 {
		g.arg(fmt.Sprintf("d%d", j), [...]string{"R8", "R9", "R10"}[j])
	}
	g.arg("x", "SI")
	g.arg("n", "CX")
	g.arg("sum", "DI")
	g.bcast("factor", 10)
	const sum, which, half = 4, 7, 11
	for j := range 3 {
		g.op("VPXORD", sum+j, sum+j, sum+j)
		g.op("VMOVUPS", uint32(1)<<(16-8*j), which+j)
	}
	g.op("VMOVUPS", uint32(0x808080), half)
	g.label("loop")
	g.op("VMULPS", "(SI)", 10, 2)
	g.op("VCVTPS2DQ", 2, 2)
	g.op("VPADDD", half, 2, 2)
	g.op("VPXORD", half, 2, 2)
	g.op("VPSRLD", "$16", 2, 0)
	g.op("VPSRLD", "$8", 2, 1)
	for j := range 3 {
		g.op("VPMOVDB", j, fmt.Sprintf("(R%d)", 8+j))
		g.op("VPDPBUSD", 2, which+j, sum+j)
		g.e("ADDQ $16, R%d", 8+j)
	}
	g.e("ADDQ $64, SI")
	g.e("SUBQ $16, CX")
	g.e("JNZ loop")
	for j := range 3 {
		g.sumLanes(sum+j, 0)
		g.e("MOVL AX, %d(DI)", 4*j)
	}
	g.e("VZEROUPPER")
	g.e("RET")
}

var _ = register("quant", writeNBits)

func writeNBits(dir string) {
	f := newFile("nbits")
	dis := ""
	for _, bits := range []int{4, 8} {
		dis += fmt.Sprintf("\n// tile%dBits computes a tile with the given number of rows.\n"+
			"func tile%dBits(rows int, t *nbitsArgs) {\n\tswitch rows {\n", bits, bits)
		for mr := 1; mr <= 5; mr++ {
			dis += fmt.Sprintf("\tcase %d:\n\t\t%s(t)\n", mr, nbitsTile(f, bits, mr))
		}
		dis += "\t}\n}\n"
	}
	nbitsVector(f, 4)
	nbitsVector(f, 8)
	dequantize4(f)
	dequantize8(f)
	for _, bits := range []int{4, 8} {
		nbitsVectorAVX2(f, bits)
		dequantizeAVX2(f, bits)
	}
	quantizeRow(f)
	digitBytes(f)
	f.write(dir, "quant", dis)
}
