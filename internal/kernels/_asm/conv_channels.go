package main

import "fmt"

// channelTile writes a tile that processes channels separately: depthwise convolution, or the
// maximum or sum over a window. It has mr pixels of one block of 16. With AVX-512, the depthwise
// convolution processes as many tiles per call as t says.
func channelTile(f *file, i isa, kind string, mr int) string {
	name := fmt.Sprintf("%s%d%s", kind, mr, i.name)
	g := f.function(name, i, []arg{{"t", "*tileArgs"}}, nil)
	nv, nregs := 16/i.width, 32
	if i.width == 8 {
		nregs = 16
	}
	if i.neon() {
		nregs = topNEON
	}
	if kind == "maximum" && i.width == 8 {
		nregs = tempReg // sel uses it
	}
	vb := min(32, i.width*4)
	acc := func(r, j int) int { return nregs - mr*nv + r*nv + j }
	mem := func(r, j int) string { return g.rowAddr(r, j*vb) }
	g.arg("t", "DX")
	to, repeats := "CX", kind == "depthwise" && i.width == 16
	if repeats {
		to = "R15"
		g.e("MOVQ %d(DX), R12", cA)
		g.e("MOVQ %d(DX), R15", cC)
		g.label("again")
		g.e("MOVQ R12, AX")
	} else {
		g.e("MOVQ %d(DX), AX", cA)
	}
	g.e("MOVQ %d(DX), DI", cB)
	g.pixelAddresses(mr)
	switch kind {
	case "depthwise":
		g.e("MOVQ %d(DX), CX", cBias)
		for j := range nv {
			g.op("VMOVUPS", fmt.Sprintf("%d(CX)", j*vb), acc(0, j))
		}
	case "maximum":
		for j := range nv {
			g.op("VMOVUPS", uint32(0xff800000), acc(0, j))
		}
	case "sum":
		for j := range nv {
			g.op("VXORPS", acc(0, j), acc(0, j), acc(0, j))
		}
	}
	for j := range nv {
		for r := 1; r < mr; r++ {
			g.op("VMOVAPS", acc(0, j), acc(r, j))
		}
	}
	g.e("MOVQ %d(DX), R13", cKH)
	g.label("row")
	g.e("MOVQ %d(DX), BX", cKW)
	g.label("tap")
	if kind == "depthwise" {
		for j := range nv {
			g.op("VMOVUPS", fmt.Sprintf("%d(DI)", j*vb), j)
		}
		g.e("ADDQ $64, DI")
	}
	for r := range mr {
		for j := range nv {
			a := acc(r, j)
			switch kind {
			case "depthwise":
				g.op("VFMADD231PS", mem(r, j), j, a)
			case "sum":
				g.op("VADDPS", mem(r, j), a, a)
			case "maximum": // NaN of the input or of the maximum so far
				g.op("VMOVUPS", mem(r, j), 0)
				g.op("VMAXPS", 0, a, 1)
				g.sel(uno, a, a, a, 1, a)
			}
		}
	}
	g.addA(fmt.Sprintf("%d(DX)", cDKW), mr)
	g.e("DECQ BX")
	g.e("JNZ tap")
	g.addA(fmt.Sprintf("%d(DX)", cDKH), mr)
	g.e("DECQ R13")
	g.e("JNZ row")
	if kind == "sum" {
		g.e("VBROADCASTSS %d(DX), %s", cLo, g.r(0)) // the scale
		for r := range mr {
			for j := range nv {
				g.op("VMULPS", 0, acc(r, j), acc(r, j))
			}
		}
	}
	if !repeats {
		g.e("MOVQ %d(DX), CX", cC)
	}
	if kind == "depthwise" {
		g.e("MOVQ %d(DX), BX", cAdd)
		g.e("TESTQ BX, BX")
		g.e("JZ activation")
		if repeats {
			g.e("ADDQ %d(DX), BX", cAddAt)
		}
		for r := range mr {
			for j := range nv {
				g.op("VADDPS", fmt.Sprintf("%d(BX)", r*64+j*vb), acc(r, j), acc(r, j))
			}
		}
		g.label("activation")
		g.e("VBROADCASTSS %d(DX), %s", cLo, g.r(0))
		g.e("VBROADCASTSS %d(DX), %s", cHi, g.r(1))
		for r := range mr {
			for j := range nv {
				g.op("VMAXPS", acc(r, j), 0, acc(r, j))
				g.op("VMINPS", acc(r, j), 1, acc(r, j))
			}
		}
	}
	for r := range mr {
		for j := range nv {
			g.op("VMOVUPS", acc(r, j), fmt.Sprintf("%d(%s)", r*64+j*vb, to))
		}
	}
	if repeats {
		g.e("ADDQ %d(DX), R12", cAStep)
		g.e("ADDQ %d(DX), R15", cCStep)
		g.e("MOVQ %d(DX), CX", cAddStep)
		g.e("ADDQ CX, %d(DX)", cAddAt)
		g.e("DECQ %d(DX)", cTimes)
		g.e("JNZ again")
	}
	g.e("VZEROUPPER")
	g.e("RET")
	return name
}

// depthwiseTile writes the tile of mr pixels of a depthwise convolution whose kernel has kw
// adjacent columns, with the given stride. Unlike channelTile it loads an input once for all
// columns of the kernel, since channelTile is limited by its loads. The sums have the same order.
func depthwiseTile(f *file, i isa, kw, stride, mr int) string {
	name := fmt.Sprintf("depthwise%dk%ds%d%s", mr, kw, stride, i.name)
	g := f.function(name, i, []arg{{"t", "*tileArgs"}}, nil)
	acc := func(r int) int { return 32 - mr + r }
	group := mr // outputs whose inputs fit in registers
	for (group-1)*stride+2*kw+mr > 32 {
		group--
	}
	g.arg("t", "DX")
	g.e("MOVQ %d(DX), R12", cA)
	g.e("MOVQ %d(DX), R15", cC)
	g.e("MOVQ %d(DX), R8", cDKH)
	g.e("ADDQ $%d, R8", kw*64)
	g.label("again")
	g.e("MOVQ R12, AX")
	g.e("MOVQ %d(DX), DI", cB)
	g.e("MOVQ %d(DX), CX", cBias)
	g.op("VMOVUPS", "(CX)", acc(0))
	for r := 1; r < mr; r++ {
		g.op("VMOVAPS", acc(0), acc(r))
	}
	g.e("MOVQ %d(DX), R13", cKH)
	g.e("PCALIGN $32")
	g.label("row")
	for k := range kw {
		g.op("VMOVUPS", fmt.Sprintf("%d(DI)", k*64), k)
	}
	for first := 0; first < mr; first += group {
		n := min(group, mr-first)
		for q := range (n-1)*stride + kw {
			g.op("VMOVUPS", fmt.Sprintf("%d(AX)", (first*stride+q)*64), kw+q)
		}
		for k := range kw {
			for r := range n {
				g.op("VFMADD231PS", k, kw+r*stride+k, acc(first+r))
			}
		}
	}
	g.e("ADDQ $%d, DI", kw*64)
	g.e("ADDQ R8, AX")
	g.e("DECQ R13")
	g.e("JNZ row")
	g.e("MOVQ %d(DX), BX", cAdd)
	g.e("TESTQ BX, BX")
	g.e("JZ activation")
	g.e("ADDQ %d(DX), BX", cAddAt)
	for r := range mr {
		g.op("VADDPS", fmt.Sprintf("%d(BX)", r*64), acc(r), acc(r))
	}
	g.label("activation")
	g.e("VBROADCASTSS %d(DX), %s", cLo, g.r(0))
	g.e("VBROADCASTSS %d(DX), %s", cHi, g.r(1))
	for r := range mr {
		g.op("VMAXPS", acc(r), 0, acc(r))
		g.op("VMINPS", acc(r), 1, acc(r))
		g.op("VMOVUPS", acc(r), fmt.Sprintf("%d(R15)", r*64))
	}
	g.e("ADDQ %d(DX), R12", cAStep)
	g.e("ADDQ %d(DX), R15", cCStep)
	g.e("MOVQ %d(DX), CX", cAddStep)
	g.e("ADDQ CX, %d(DX)", cAddAt)
	g.e("DECQ %d(DX)", cTimes)
	g.e("JNZ again")
	g.e("VZEROUPPER")
	g.e("RET")
	return name
}
