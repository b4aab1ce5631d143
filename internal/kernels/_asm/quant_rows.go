package main

import (
	"fmt"
	"strings"
)

// addByteRows writes kernels that multiply a few rows of bytes by whole panels and add the products
// to float32.
func addByteRows(f *file) string {
	var cases strings.Builder
	for _, rows := range []int{1, 2, 4} {
		name := fmt.Sprintf("addRows%dVNNI", rows)
		addByteRowsOf(f, name, rows)
		fmt.Fprintf(&cases, "\tcase %d:\n\t\t%s(t)\n", rows, name)
	}
	return "\n// addRowsVNNI multiplies 1, 2 or 4 rows.\nfunc addRowsVNNI(rows int, t *rowsTile) {\n\tswitch rows {\n" +
		cases.String() + "\t}\n}\n"
}

func addByteRowsOf(f *file, name string, rows int) {
	const row = 128 // bytes of a step of a panel
	unroll := 4     // steps of K with sums of their own
	if rows > 2 {
		unroll = 2
	}
	acc := func(u, r, half int) int { return (u*rows+r)*2 + half }
	// address returns that of a row, given registers with a base, a stride and three strides.
	address := func(at int, base string, r int, stride, three string) string {
		index := []string{"", "(" + stride + "*1)", "(" + stride + "*2)", "(" + three + "*1)"}
		return fmt.Sprintf("%d(%s)", at, base) + index[r]
	}
	g := f.function(name, avx512, []arg{{"t", "*rowsTile"}}, nil)
	g.arg("t", "R8")
	for i, r := range []string{"DI", "SI", "DX", "R9", "R10", "R11", "R12", "R13", "CX"} {
		g.e("MOVQ %d(R8), %s", 8*i, r)
	}
	g.e("VPBROADCASTD 88(R8), Z20")
	g.e("VBROADCASTSS 92(R8), Z22")
	if rows > 2 {
		g.e("LEAQ (R12)(R12*2), R14")
		g.e("LEAQ (R13)(R13*2), R15")
	}
	step := func(u int) {
		g.e("VMOVDQU32 %d(DX), Z16", row*u)
		g.e("VMOVDQU32 %d(DX), Z17", row*u+64)
		for r := range rows {
			g.e("VPBROADCASTD %s, Z%d", address(4*u, "AX", r, "R13", "R15"), 18+r%2)
			for half := range 2 {
				g.e("VPDPBUSD Z%d, Z%d, Z%d", 16+half, 18+r%2, acc(u, r, half))
			}
		}
	}
	g.label("panel")
	for i := range 2 * unroll * rows {
		g.e("VPXORD Z%d, Z%d, Z%d", i, i, i)
	}
	g.e("MOVQ SI, AX")
	g.e("MOVQ 72(R8), BX")
	g.e("SUBQ $%d, BX", unroll)
	g.e("JLT rest")
	g.e("PCALIGN $32")
	g.label("loop")
	for u := range unroll {
		step(u)
	}
	g.e("ADDQ $%d, AX", 4*unroll)
	g.e("ADDQ $%d, DX", row*unroll)
	g.e("SUBQ $%d, BX", unroll)
	g.e("JGE loop")
	g.label("rest")
	g.e("ADDQ $%d, BX", unroll)
	g.e("JZ sums")
	g.label("one")
	step(0)
	g.e("ADDQ $4, AX")
	g.e("ADDQ $%d, DX", row)
	g.e("DECQ BX")
	g.e("JNZ one")
	g.label("sums")
	g.e("MOVQ 80(R8), AX")
	for half := range 2 {
		at := 64 * half
		g.e("VPMULLD %d(R9), Z20, Z24", at)
		g.e("VMULPS %d(R10), Z22, Z25", at)
		for r := range rows {
			a := acc(0, r, half)
			for n := unroll / 2; n > 0; n /= 2 {
				for u := range n {
					g.e("VPADDD Z%d, Z%d, Z%d", acc(u+n, r, half), acc(u, r, half), acc(u, r, half))
				}
			}
			g.e("VPSUBD Z24, Z%d, Z%d", a, a)
			g.e("VPSUBD.BCST %d(AX), Z%d, Z%d", 4*r, a, a)
			g.e("VCVTDQ2PS Z%d, Z%d", a, a)
			g.e("VMULPS Z25, Z%d, Z%d", a, a)
			y := address(at, "DI", r, "R12", "R14")
			g.e("VADDPS %s, Z%d, Z%d", y, a, a)
			g.e("VADDPS %d(R11), Z%d, Z%d", at, a, a)
			g.e("VMOVUPS Z%d, %s", a, y)
		}
	}
	for _, r := range []string{"DI", "R9", "R10", "R11"} {
		g.e("ADDQ $%d, %s", row, r)
	}
	g.e("DECQ CX")
	g.e("JNZ panel")
	g.e("VZEROUPPER")
	g.e("RET")
}

// addByteRowsAMX writes a kernel that multiplies up to 16 rows. The sums pass through memory to
// vector registers one panel later, as in [tiles].
func addByteRowsAMX(f *file) {
	const row, next = 128, 128 // bytes of a step of a panel, and of the columns of a panel of Y
	g := f.function("addRowsAMX", avx512, []arg{{"t", "*rowsTile"}}, nil)
	g.arg("t", "R8")
	for i, r := range []string{"DI", "SI", "DX", "R9", "R10", "R11", "R12", "R13", "CX"} {
		g.e("MOVQ %d(R8), %s", 8*i, r)
	}
	g.e("VPBROADCASTD 88(R8), Z20")
	g.e("VBROADCASTSS 92(R8), Z22")
	g.e("MOVQ 96(R8), AX")
	g.tileConfig("AX")
	g.e("MOVQ 104(R8), R15")
	g.e("KMOVW 144(R8), K1")
	g.e("MOVQ $%d, R14", row)
	g.label("panel")
	g.e("DECQ CX")
	g.e("JLT store")
	g.tileZero(0)
	g.tileZero(1)
	g.e("MOVQ SI, AX")
	g.e("MOVQ 120(R8), BX")
	g.label("chunk")
	g.tileLoad(0, "DX", "R14", 6)
	g.tileLoad(0, "AX", "R13", 4)
	g.tileDotU8S8(6, 4, 0)
	g.tileLoad(64, "DX", "R14", 7)
	g.tileDotU8S8(7, 4, 1)
	g.e("ADDQ 128(R8), AX")
	g.e("ADDQ 136(R8), DX")
	g.e("DECQ BX")
	g.e("JNZ chunk")
	g.e("LEAQ 1(CX), BX")
	g.e("CMPQ BX, 64(R8)")
	g.e("JEQ keep") // the first panel
	g.label("store")
	for half := range 2 {
		at := 64 * half
		g.e("VPMULLD %d(R9), Z20, Z%d", at, 24+half)
		g.e("VMULPS %d(R10), Z22, Z%d", at, 26+half)
		g.e("VMOVUPS %d(R11), Z%d", at, 28+half)
	}
	g.e("MOVQ 80(R8), AX")
	g.e("MOVQ 112(R8), BX")
	g.label("row")
	g.e("VPBROADCASTD (AX), Z2")
	for half := range 2 {
		at := 64 * half
		g.e("VMOVDQU32 %d(R15), Z%d", at, half)
		g.e("VPSUBD Z%d, Z%d, Z%d", 24+half, half, half)
		g.e("VPSUBD Z2, Z%d, Z%d", half, half)
		g.e("VCVTDQ2PS Z%d, Z%d", half, half)
		g.e("VMULPS Z%d, Z%d, Z%d", 26+half, half, half)
		g.e("VADDPS %d(DI), Z%d, K1, Z%d", at, half, half)
		g.e("VADDPS Z%d, Z%d, Z%d", 28+half, half, half)
		g.e("VMOVUPS Z%d, %d(DI)", half, at)
	}
	g.e("ADDQ $4, AX")
	g.e("ADDQ R14, R15")
	g.e("ADDQ R12, DI")
	g.e("DECQ BX")
	g.e("JNZ row")
	g.e("MOVQ 104(R8), R15")
	g.e("ADDQ $%d, (R8)", next)
	g.e("MOVQ (R8), DI")
	for _, r := range []string{"R9", "R10", "R11"} {
		g.e("ADDQ $%d, %s", next, r)
	}
	g.e("TESTQ CX, CX")
	g.e("JLT end")
	g.label("keep")
	g.tileStore(0, 0, "R15", "R14")
	g.tileStore(1, 64, "R15", "R14")
	g.e("JMP panel")
	g.label("end")
	g.tileRelease()
	g.e("VZEROUPPER")
	g.e("RET")
}

// addPairRows writes kernels that multiply a few rows of int16 by whole panels of pairs of int8 and
// add the products to float32.
func addPairRows(f *file) string {
	var cases strings.Builder
	for _, rows := range []int{1, 2} {
		name := fmt.Sprintf("addRows%dAVX2", rows)
		addPairRowsOf(f, name, rows)
		fmt.Fprintf(&cases, "\tcase %d:\n\t\t%s(t)\n", rows, name)
	}
	return "\n// addRowsAVX2 multiplies 1 or 2 rows.\nfunc addRowsAVX2(rows int, t *rowsTile) {\n\tswitch rows {\n" +
		cases.String() + "\t}\n}\n"
}

func addPairRowsOf(f *file, name string, rows int) {
	const row, parts = 64, 4 // bytes of a step of a panel, and its vectors of columns
	unroll := 2              // steps of K, with sums of their own for one row
	acc := func(u, r, part int) int { return ((u%(3-rows))*rows+r)*parts + part }
	g := f.function(name, avx2, []arg{{"t", "*rowsTile"}}, nil)
	g.arg("t", "R8")
	for i, r := range []string{"DI", "SI", "DX", "R9", "R10", "R11", "R12", "R13", "CX"} {
		g.e("MOVQ %d(R8), %s", 8*i, r)
	}
	step := func(u int) {
		for r := range rows {
			g.e("VPBROADCASTD %d(AX)%s, Y%d", 4*u, []string{"", "(R13*1)"}[r], 8+r)
		}
		for part := range parts {
			g.e("VPMOVSXBW %d(DX), Y%d", row*u+16*part, 10+part%2)
			for r := range rows {
				g.e("VPMADDWD Y%d, Y%d, Y%d", 10+part%2, 8+r, 12+r+2*(part%2))
				a := acc(u, r, part)
				g.e("VPADDD Y%d, Y%d, Y%d", 12+r+2*(part%2), a, a)
			}
		}
	}
	g.label("panel")
	for i := range 8 {
		g.e("VPXOR Y%d, Y%d, Y%d", i, i, i)
	}
	g.e("MOVQ SI, AX")
	g.e("MOVQ 72(R8), BX")
	g.e("SUBQ $%d, BX", unroll)
	g.e("JLT rest")
	g.e("PCALIGN $32")
	g.label("loop")
	for u := range unroll {
		step(u)
	}
	g.e("ADDQ $%d, AX", 4*unroll)
	g.e("ADDQ $%d, DX", row*unroll)
	g.e("SUBQ $%d, BX", unroll)
	g.e("JGE loop")
	g.label("rest")
	g.e("ADDQ $%d, BX", unroll)
	g.e("JZ sums")
	step(0)
	g.e("ADDQ $%d, DX", row)
	g.label("sums")
	g.e("MOVQ 80(R8), AX")
	g.e("VBROADCASTSS 92(R8), Y15")
	for r := range rows {
		g.e("VPBROADCASTD %d(AX), Y%d", 4*r, 13+r)
	}
	for part := range parts {
		at := 32 * part
		g.e("VMULPS %d(R10), Y15, Y12", at)
		for r := range rows {
			a := acc(0, r, part)
			if rows == 1 {
				g.e("VPADDD Y%d, Y%d, Y%d", acc(1, r, part), a, a)
			}
			y := fmt.Sprintf("%d(DI)%s", at, []string{"", "(R12*1)"}[r])
			g.e("VPSUBD Y%d, Y%d, Y%d", 13+r, a, a)
			g.e("VCVTDQ2PS Y%d, Y%d", a, a)
			g.e("VMULPS Y12, Y%d, Y%d", a, a)
			g.e("VADDPS %s, Y%d, Y%d", y, a, a)
			g.e("VADDPS %d(R11), Y%d, Y%d", at, a, a)
			g.e("VMOVUPS Y%d, %s", a, y)
		}
	}
	for _, r := range []string{"DI", "R10", "R11"} {
		g.e("ADDQ $128, %s", r)
	}
	g.e("DECQ CX")
	g.e("JNZ panel")
	g.e("VZEROUPPER")
	g.e("RET")
}

// widenBytes writes a kernel that copies n bytes, after XOR with the bytes of flip, as 16-bit
// integers plus shift; n is a multiple of 16.
func widenBytes(f *file) {
	g := f.function("widenBytesAVX2", avx2, []arg{{"dst", "*uint8"}, {"src", "*uint8"}, {"n", "int"},
		{"flip", "uint32"}, {"shift", "uint32"}}, nil)
	g.arg("dst", "DI")
	g.arg("src", "SI")
	g.arg("n", "CX")
	for i, name := range []string{"flip", "shift"} {
		g.e("MOVL %s+%d(FP), AX", name, g.off[name])
		g.e("VMOVD AX, X%d", 1+i)
		g.e("VPBROADCASTD X%d, Y%d", 1+i, 1+i)
	}
	g.label("loop")
	g.e("VPXOR (SI), X1, X0")
	g.e("VPMOVZXBW X0, Y0")
	g.e("VPADDW Y2, Y0, Y0")
	g.e("VMOVDQU Y0, (DI)")
	g.e("ADDQ $16, SI")
	g.e("ADDQ $32, DI")
	g.e("SUBQ $16, CX")
	g.e("JNZ loop")
	g.e("VZEROUPPER")
	g.e("RET")
}
