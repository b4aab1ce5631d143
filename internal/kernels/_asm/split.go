package main

import "fmt"

// Float32 GEMM by bfloat16 tiles: operands are sums of three bfloat16 numbers.

// splitProducts is tileProducts for operands of three parts, the smallest products first. The parts
// of a chunk of A and of B follow each other.
func (g *fn) splitProducts(halves int) {
	point := 0
	for b := 2; b >= 0; b-- {
		for j := range 2 {
			g.tileLoad(b*tileStride+j*64, "DI", "R9", 6+j)
		}
		for a := 2 - b; a >= 0; a-- {
			for h := range halves {
				g.tileLoad(a*bfStepA, []string{"AX", "SI"}[h], "R8", 4)
				g.tileDotBF16(6, 4, 2*h)
				g.tileDotBF16(7, 4, 2*h+1)
			}
			if point++; point%3 != 0 {
				splitNext(g, point)
			}
		}
	}
}

// Constants of splitPart.
const (
	splitHalf = 30 // half a unit in the last place of a bfloat16 number
	splitMask = 31 // the bits of a bfloat16 number

	splitAhead = 4096 // bytes by which rows of a panel are prefetched
)

func splitConstants(g *fn) {
	g.op("VMOVDQU32", uint32(0x8000), splitHalf)
	g.op("VMOVDQU32", uint32(0xffff0000), splitMask)
}

// splitPart moves the float32 value of register x, rounded to bfloat16, to part, and leaves the
// rest in x.
func splitPart(g *fn, x, part int) {
	g.op("VPADDD", splitHalf, x, part)
	g.op("VPANDD", splitMask, part, part)
	g.op("VSUBPS", part, x, x)
}

// splitRows writes the split of rows, of n chunks each, and the largest magnitude of each row.
func splitRows(f *file) {
	g := f.function("splitRowsAVX512", avx512, []arg{{"dst", "*uint16"}, {"most", "*uint16"}, {"x", "*float32"},
		{"ldx", "int"}, {"rows", "int"}, {"n", "int"}}, nil)
	for _, a := range [][2]string{{"dst", "R8"}, {"most", "DX"}, {"x", "R9"}, {"ldx", "R10"}, {"rows", "R11"},
		{"n", "BX"}} {
		g.arg(a[0], a[1])
	}
	const sign, most = 29, 8
	splitConstants(g)
	g.op("VMOVDQU32", uint32(0x7fffffff), sign)
	g.label("row")
	g.e("MOVQ R8, DI")
	g.e("MOVQ R9, SI")
	g.e("MOVQ BX, CX")
	g.op("VPXORD", most, most, most)
	g.op("VPXORD", most+1, most+1, most+1)
	g.label("chunk")
	for p := range 3 {
		for k := range 2 {
			part := 2 + k
			if p == 0 {
				g.e("VMOVDQU32 %d(SI), Z%d", k*64, k)
				g.op("VPANDD", sign, k, 4+k)
				g.op("VPMAXUD", 4+k, most+k, most+k)
			}
			if p < 2 {
				splitPart(g, k, part)
			}
		}
		if p < 2 {
			g.convertBF16(3, 2, 2)
		} else {
			g.convertBF16(1, 0, 2)
		}
		g.e("VMOVDQU32 Z2, %d(DI)", p*bfStepA)
	}
	g.e("ADDQ $128, SI")
	g.e("ADDQ $%d, DI", 3*bfStepA)
	g.e("DECQ CX")
	g.e("JNZ chunk")
	g.op("VPMAXUD", most+1, most, most)
	g.e("VEXTRACTI64X4 $1, Z%d, Y0", most)
	g.e("VPMAXUD Y0, Y%d, Y1", most)
	g.e("VEXTRACTI128 $1, Y1, X0")
	g.e("VPMAXUD X0, X1, X1")
	for _, order := range []int{0x4e, 0xb1} {
		g.e("VPSHUFD $0x%x, X1, X0", order)
		g.e("VPMAXUD X0, X1, X1")
	}
	g.e("VMOVD X1, AX")
	g.e("SHRL $16, AX")
	g.e("MOVWLZX (DX), CX")
	g.e("CMPL CX, AX")
	g.e("CMOVLGT CX, AX")
	g.e("MOVW AX, (DX)")
	g.e("ADDQ $2, DX")
	g.e("ADDQ R10, R9")
	g.e("ADDQ $%d, R8", bfRow)
	g.e("DECQ R11")
	g.e("JNZ row")
	g.e("VZEROUPPER")
	g.e("RET")
}

// splitPair writes the split of two rows of a panel at BX to R14, and moves both on.
func splitPair(g *fn) {
	for p := range 3 {
		for j := range 2 { // halves of the row
			even, odd, high, low := 8*j, 8*j+1, 8*j+2, 8*j+3
			if p == 0 {
				g.e("PREFETCHT1 %d(BX)", splitAhead+j*64)
				g.e("PREFETCHT1 %d(BX)", splitAhead+128+j*64)
				g.e("VMOVDQU32 %d(BX), Z%d", j*64, even)
				g.e("VMOVDQU32 %d(BX), Z%d", 128+j*64, odd)
			}
			if p < 2 {
				splitPart(g, even, low)
				splitPart(g, odd, high)
			} else {
				low, high = even, odd
			}
			g.op("VPSRLD", "$16", low, low)
			g.op("VPORD", low, high, high)
			g.e("VMOVDQU32 Z%d, %d(R14)", high, p*tileStride+j*64)
		}
	}
	g.e("ADDQ $256, BX")
	g.e("ADDQ $%d, R14", 3*tileStride)
}

// splitPanel writes the split of n pairs of rows of a panel.
func splitPanel(f *file) {
	g := f.function("splitPanelAVX512", avx512, []arg{{"dst", "*uint16"}, {"x", "*float32"}, {"n", "int"}}, nil)
	g.arg("dst", "R14")
	g.arg("x", "BX")
	g.arg("n", "CX")
	splitConstants(g)
	g.label("pair")
	splitPair(g)
	g.e("DECQ CX")
	g.e("JNZ pair")
	g.e("VZEROUPPER")
	g.e("RET")
}

// splitNext writes the split of some pairs of rows of the next panel, while the tiles multiply.
func splitNext(g *fn, point int) {
	pair, split := fmt.Sprintf("pair%d", point), fmt.Sprintf("split%d", point)
	g.e("MOVQ %d(DX), R10", bfLines)
	g.e("CMPQ R10, %d(DX)", bfPairs)
	g.e("CMOVQGT %d(DX), R10", bfPairs)
	g.e("SUBQ R10, %d(DX)", bfPairs)
	g.e("TESTQ R10, R10")
	g.e("JZ %s", split)
	g.label(pair)
	splitPair(g)
	g.e("DECQ R10")
	g.e("JNZ %s", pair)
	g.label(split)
}

var _ = register("gemm", writeSplit)

func writeSplit(dir string) {
	f := newFile("split")
	for halves := 1; halves <= 2; halves++ {
		bfloatTiles(f, halves, 3)
	}
	splitRows(f)
	splitPanel(f)
	f.write(dir, "gemm", "")
}
