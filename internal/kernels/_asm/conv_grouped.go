package main

import "fmt"

// groupedSizes are the numbers of pixels of the tiles of grouped convolutions. Rows of other widths
// take tiles that overlap.
var groupedSizes = []int{14, 7, 4, 2, 1}

// groupedTile writes the tile of mr pixels and 16 output channels of several groups, each of which
// reads as many input channels in the same lanes. In a step per channel of a group, a permutation
// gives every lane the channel of its group.
func groupedTile(f *file, mr int) string {
	name := fmt.Sprintf("grouped%d%s", mr, avx512.name)
	g := f.function(name, avx512, []arg{{"t", "*tileArgs"}}, nil)
	const weights, lanes, x = 0, 1, 2
	acc := func(r, _ int) int { return 32 - mr + r }
	out := func(r, _ int, reg string) (string, bool) { return fmt.Sprintf("%d(%s)", r*64, reg), false }
	g.arg("t", "DX")
	g.e("MOVQ %d(DX), AX", cA)
	g.e("MOVQ %d(DX), DI", cB)
	g.e("MOVQ %d(DX), CX", cBias)
	g.pixelAddresses(mr)
	for r := range mr {
		g.op("VMOVUPS", "(CX)", acc(r, 0))
	}
	g.e("MOVQ %d(DX), R15", cDeltas)
	g.e("MOVQ %d(DX), R13", cKH)
	g.label("row")
	g.e("MOVQ %d(DX), BX", cKW)
	g.label("tap")
	g.op("VMOVDQU32", "(R15)", lanes)
	g.e("MOVQ %d(DX), CX", cCB)
	g.label("channel")
	g.op("VMOVUPS", "(DI)", weights)
	for r := range mr {
		g.op("VPERMPS", g.rowAddr(r, 0), lanes, x+r%4)
		g.op("VFMADD231PS", weights, x+r%4, acc(r, 0))
	}
	g.op("VPADDD", uint32(1), lanes, lanes)
	g.e("ADDQ $64, DI")
	g.e("DECQ CX")
	g.e("JNZ channel")
	g.addA("$64", mr)
	g.addA(fmt.Sprintf("%d(DX)", cDKW), mr)
	g.e("DECQ BX")
	g.e("JNZ tap")
	g.addA(fmt.Sprintf("%d(DX)", cDKH), mr)
	g.e("DECQ R13")
	g.e("JNZ row")
	g.tileEpilogue(mr, 1, acc, out)
	g.e("VZEROUPPER")
	g.e("RET")
	return name
}
