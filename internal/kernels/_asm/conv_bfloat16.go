package main

import (
	"fmt"
	"strings"
)

// pairHeights lists the numbers of pixels of the tiles of bfloat16 numbers, a few to keep the code
// small.
var pairHeights = []int{1, 2, 4, 7, 10, 14}

// pairTile writes the tile of mr pixels and blocks blocks of 16 output channels of a convolution of
// bfloat16 numbers. Per kernel position it reads 8 input channels, four pairs. It computes as many
// tiles as t says, and modifies t.
func pairTile(f *file, mr, blocks int) string {
	name := fmt.Sprintf("pairs%dx%dAVX512", mr, 16*blocks)
	g := f.function(name, avx512, []arg{{"t", "*tileArgs"}}, nil)
	acc := func(r, j int) int { return 32 - mr*blocks + r*blocks + j }
	g.arg("t", "DX")
	g.e("MOVQ %d(DX), R12", cPf)
	g.label("again")
	g.e("MOVQ %d(DX), AX", cA)
	g.e("MOVQ %d(DX), DI", cB)
	g.pixelAddresses(mr)
	g.e("MOVQ %d(DX), CX", cBias)
	for j := range blocks {
		g.op("VMOVUPS", fmt.Sprintf("%d(CX)", j*64), acc(0, j))
		for r := 1; r < mr; r++ {
			g.op("VMOVAPS", acc(0, j), acc(r, j))
		}
	}
	g.e("MOVQ %d(DX), R15", cCB)
	g.label("octet")
	g.e("MOVQ %d(DX), R13", cKH)
	g.label("row")
	g.e("MOVQ %d(DX), BX", cKW)
	g.e("PCALIGN $32")
	g.label("tap")
	for u := range 4 {
		g.e("PREFETCHT1 %d(R12)", u*64)
		for j := range blocks {
			g.op("VMOVUPS", fmt.Sprintf("%d(DI)", (u*blocks+j)*64), j)
		}
		for r := range mr {
			a := blocks + r%2
			g.op("VBROADCASTSS", g.rowAddr(r, 4*u), a)
			for j := range blocks {
				g.dotRegistersBF16(j, a, acc(r, j))
			}
		}
	}
	g.e("ADDQ $%d, DI", 4*blocks*64)
	g.e("ADDQ %d(DX), R12", cPfStep)
	for _, l := range []struct {
		off            int
		counter, label string
	}{{cDKW, "BX", "tap"}, {cDKH, "R13", "row"}, {cDCB, "R15", "octet"}} {
		g.addA(fmt.Sprintf("%d(DX)", l.off), mr)
		g.e("DECQ %s", l.counter)
		g.e("JNZ %s", l.label)
	}
	g.tileEpilogue(mr, blocks, acc,
		func(r, j int, reg string) (string, bool) { return fmt.Sprintf("%d(%s)", r*64, reg), j > 0 })
	g.e("DECQ %d(DX)", cTimes)
	g.e("JZ done")
	for _, p := range [][2]int{{cAStep, cA}, {cCStep, cC}, {cAddStep, cAdd}} {
		g.e("MOVQ %d(DX), CX", p[0])
		g.e("ADDQ CX, %d(DX)", p[1])
	}
	g.e("JMP again")
	g.label("done")
	g.e("VZEROUPPER")
	g.e("RET")
	return name
}

// roundOctets writes the conversion of pixels of 16 channels to bfloat16 numbers, four pixels at a
// time. The halves of a pixel go to different addresses.
func roundOctets(f *file) {
	g := f.function("octetsBF16AVX512", avx512, []arg{{"dst", "*uint16"}, {"x", "*float32"}, {"n", "int"},
		{"step", "int"}, {"next", "int"}, {"mask", "uint32"}}, nil)
	for _, p := range [][2]string{{"dst", "DI"}, {"x", "SI"}, {"n", "CX"}, {"step", "DX"}, {"next", "R8"}} {
		g.arg(p[0], p[1])
	}
	g.e("MOVL mask+%d(FP), AX", g.off["mask"])
	g.e("KMOVW AX, K1")
	g.e("LEAQ (DX)(DX*2), BX")
	g.e("SUBQ $4, CX")
	g.e("JLT rest")
	g.label("pixels")
	for p, at := range []string{"(SI)", "(SI)(DX*1)", "(SI)(DX*2)", "(SI)(BX*1)"} {
		g.e("VMOVDQU32.Z %s, K1, Z%d", at, p)
	}
	g.convertBF16(1, 0, 0)
	g.convertBF16(3, 2, 2)
	for half, lanes := range []string{"$0x88", "$0xdd"} { // even and odd quarters
		g.op("VSHUFI64X2", lanes, 2, 0, 4+half)
	}
	g.e("VMOVDQU32 Z4, (DI)")
	g.e("VMOVDQU32 Z5, (DI)(R8*1)")
	g.e("LEAQ (SI)(DX*4), SI")
	g.e("ADDQ $64, DI")
	g.e("SUBQ $4, CX")
	g.e("JGE pixels")
	g.label("rest")
	g.e("ADDQ $4, CX")
	g.e("JZ done")
	g.label("pixel")
	g.e("VMOVDQU32.Z (SI), K1, Z0")
	g.convertBF16(0, 0, 0)
	g.e("VMOVDQU X0, (DI)")
	g.e("VEXTRACTI128 $1, Y0, (DI)(R8*1)")
	g.e("ADDQ DX, SI")
	g.e("ADDQ $16, DI")
	g.e("DECQ CX")
	g.e("JNZ pixel")
	g.label("done")
	g.e("VZEROUPPER")
	g.e("RET")
}

var _ = register("conv", writeConvBFloat16)

func writeConvBFloat16(dir string) {
	f := newFile("bfloat16")
	var dis strings.Builder
	for blocks := 1; blocks <= 2; blocks++ {
		fmt.Fprintf(&dis, "\nfunc pairs%dAVX512(pixels int, t *tileArgs) {\n\tswitch pixels {\n", blocks)
		for _, mr := range pairHeights {
			fmt.Fprintf(&dis, "\tcase %d:\n\t\t%s(t)\n", mr, pairTile(f, mr, blocks))
		}
		dis.WriteString("\t}\n}\n")
	}
	roundOctets(f)
	f.write(dir, "conv", dis.String())
}
