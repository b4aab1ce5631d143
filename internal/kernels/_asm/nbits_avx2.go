package main

import "fmt"

// signedInteger converts integer p of each lane of v to float32 in d. Integers of 4 bits must be
// two's complement, so v has been inverted by [signNibbles].
func (g *fn) signedInteger(bits, v, p, d int) {
	if bits == 8 {
		g.signedByte(v, p, d)
		return
	}
	if p < 7 {
		g.op("VPSLLD", fmt.Sprintf("$%d", 28-4*p), v, d)
		v = d
	}
	g.op("VPSRAD", "$28", v, d)
	g.op("VCVTDQ2PS", d, d)
}

// signNibbles is the XOR that subtracts 8 from the nibbles of a word, as two's complement.
const signNibbles = uint32(0x88888888)

// wordK returns the k of integer p of a word.
func wordK(bits, p int) int {
	if bits == 4 {
		return nibbleK(p)
	}
	return p
}

// nbitsVectorAVX2 writes the GEMV of one float32 row and 32 columns of integers for AVX2. C has 32
// columns: the mask is not used.
func nbitsVectorAVX2(f *file, bits int) {
	g := f.function(fmt.Sprintf("nbitsVector%dAVX2", bits), avx2, []arg{{"t", "*nbitsArgs"}}, nil)
	g.arg("t", "DX")
	for _, p := range []struct {
		off int
		reg string
	}{{nA, "AX"}, {nASum, "R11"}, {nB, "DI"}, {nScale, "BX"}, {nShift, "R12"}, {nBlocks, "R13"}, {nC, "SI"}} {
		g.e("MOVQ %d(DX), %s", p.off, p.reg)
	}
	g.farNBits()
	const total, sum, word, value, a = 0, 4, 8, 12, 14
	at := func(reg string, j int) string { return fmt.Sprintf("%d(%s)", j*32, reg) }
	for j := range 4 {
		g.op("VXORPS", total+j, total+j, total+j)
	}
	g.e("CMPQ %d(DX), $0", nAcc)
	g.e("JEQ block")
	for j := range 4 {
		g.op("VMOVUPS", at("SI", j), total+j)
	}
	g.label("block")
	for j := range 4 {
		g.op("VXORPS", sum+j, sum+j, sum+j)
	}
	g.prefetchScales()
	g.e("MOVQ %d(DX), CX", nSteps)
	g.label("step")
	if bits == 4 {
		g.op("VMOVUPS", signNibbles, value)
	}
	for j := range 4 {
		if bits == 4 {
			g.op("VPXOR", at("DI", j), value, word+j)
		} else {
			g.op("VMOVUPS", at("DI", j), word+j)
		}
	}
	g.e("PREFETCHT0 (R14)")
	g.e("PREFETCHT0 64(R14)")
	for p := range 32 / bits {
		g.e("VBROADCASTSS %d(AX), %s", 4*wordK(bits, p), g.r(a))
		for j := range 4 {
			g.signedInteger(bits, word+j, p, value+j%2)
			g.op("VFMADD231PS", a, value+j%2, sum+j)
		}
	}
	g.e("ADDQ $%d, AX", 4*32/bits)
	g.e("ADDQ $128, DI")
	g.e("ADDQ $128, R14")
	g.e("DECQ CX")
	g.e("JNZ step")
	for j := range 4 {
		g.op("VFMADD231PS", at("BX", j), sum+j, total+j)
	}
	g.e("TESTQ R12, R12")
	g.e("JZ plain")
	g.e("VBROADCASTSS (R11), %s", g.r(a))
	for j := range 4 {
		g.op("VFMADD231PS", at("R12", j), a, total+j)
	}
	g.e("ADDQ $128, R12")
	g.label("plain")
	g.e("ADDQ $128, BX")
	g.e("ADDQ $4, R11")
	g.e("DECQ R13")
	g.e("JNZ block")
	for j := range 4 {
		g.op("VMOVUPS", total+j, at("SI", j))
	}
	g.e("VZEROUPPER")
	g.e("RET")
}

// dequantizeAVX2 is [dequantize4] or [dequantize8] for AVX2, without a table.
func dequantizeAVX2(f *file, bits int) {
	g := f.function(fmt.Sprintf("dequantize%dAVX2", bits), avx2, []arg{{"dst", "*float32"}, {"b", "*uint8"},
		{"scale", "*float32"}, {"shift", "*float32"}, {"steps", "int"}}, nil)
	g.arg("dst", "DI")
	g.arg("b", "SI")
	g.arg("scale", "BX")
	g.arg("shift", "R12")
	g.arg("steps", "CX")
	const scale, shift, word, value = 0, 4, 8, 9
	for j := range 4 {
		g.op("VMOVUPS", fmt.Sprintf("%d(BX)", j*32), scale+j)
		g.op("VMOVUPS", fmt.Sprintf("%d(R12)", j*32), shift+j)
	}
	g.label("step")
	for j := range 4 {
		g.op("VMOVUPS", fmt.Sprintf("%d(SI)", j*32), word)
		if bits == 4 {
			g.op("VPXOR", signNibbles, word, word)
		}
		for p := range 32 / bits {
			v := value + p%4
			g.signedInteger(bits, word, p, v)
			g.op("VFMADD213PS", shift+j, scale+j, v)
			g.op("VMOVUPS", v, fmt.Sprintf("%d(DI)", wordK(bits, p)*128+j*32))
		}
	}
	g.e("ADDQ $128, SI")
	g.e("ADDQ $%d, DI", 128*32/bits)
	g.e("DECQ CX")
	g.e("JNZ step")
	g.e("VZEROUPPER")
	g.e("RET")
}
