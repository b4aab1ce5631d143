package main

import (
	"fmt"
	"strings"
)

// Offsets of the fields of conv's tileArgs.
const (
	cA, cB, cC       = 0, 8, 16
	cBias, cAdd      = 24, 32
	cCB, cKH, cKW    = 40, 48, 56
	cDKW, cDKH, cDCB = 64, 72, 80
	cPixel           = 88
	cLdC, cLdAdd     = 96, 104
	cAcc, cAct       = 112, 120
	cLo, cHi         = 128, 132
	cPf, cPfStep     = 136, 144
	cBStep           = 152
	cDeltas          = 160
	cTimes           = 168
	cAStep, cCStep   = 176, 184
	cAddStep, cAddAt = 192, 200
	cIdle            = 208
	cIdleA, cIdleB   = 216, 224
	cHalf            = 232
)

// pixelAddresses sets the registers for rowAddr, for mr pixels.
func (g *fn) pixelAddresses(mr int) {
	g.e("MOVQ %d(DX), R8", cPixel)
	if g.neon() {
		g.pointRows(mr)
		return
	}
	g.e("LEAQ (R8)(R8*2), R9")
	g.e("LEAQ (R8)(R8*4), R10")
	g.e("LEAQ (R9)(R8*4), R11")
	if mr > 9 {
		g.e("LEAQ (AX)(R8*8), SI")
		g.e("ADDQ R8, SI")
	}
}

func (g *fn) addA(operand string, mr int) {
	if g.neon() {
		g.advanceRows(mr, operand)
		return
	}
	g.e("ADDQ %s, AX", operand)
	if mr > 9 {
		g.e("ADDQ %s, SI", operand)
	}
}

// convTile writes the tile of mr pixels and blocks blocks of 16 output channels. Per kernel
// position it reads inner channels: 16, or 1 plane for NCHW input. With inner 0 it reads single
// channels at the distances in deltas. Tiles may have a second loop for eight channels less. Its
// last multiplications have half the width in the tile of 14 pixels. With AVX2 they are left out.
func convTile(f *file, i isa, mr, blocks, inner int) string {
	kind := map[int]string{16: "tile", 1: "nchw", 0: "permuted"}[inner]
	name := fmt.Sprintf("%s%dx%d%s", kind, mr, 16*blocks, i.name)
	g := f.function(name, i, []arg{{"t", "*tileArgs"}}, nil)
	nv, nregs := blocks, 32
	if i.width == 8 {
		nv, nregs = 2*blocks, 16
	}
	if i.neon() {
		nv, nregs = 4*blocks, topNEON
	}
	acc := func(r, j int) int { return nregs - mr*nv + r*nv + j }
	// Vector j of a pixel is in half of a block.
	out := func(r, j int, reg string) (string, bool) {
		if i.width == 16 {
			return fmt.Sprintf("%d(%s)", r*64, reg), j > 0
		}
		halves := 16 / i.width
		return fmt.Sprintf("%d(%s)", r*64+j%halves*i.width*4, reg), j > 0 && j%halves == 0
	}
	g.arg("t", "DX")
	g.e("MOVQ %d(DX), AX", cA)
	g.e("MOVQ %d(DX), DI", cB)
	g.e("MOVQ %d(DX), R12", cPf)
	g.pixelAddresses(mr)
	g.e("CMPQ %d(DX), $0", cAcc)
	g.e("JNE accumulate")
	g.e("MOVQ %d(DX), CX", cBias)
	g.e("TESTQ CX, CX")
	g.e("JZ zero")
	for j := range nv {
		g.op("VMOVUPS", fmt.Sprintf("%d(CX)", j*i.width*4), acc(0, j))
		for r := 1; r < mr; r++ {
			g.op("VMOVAPS", acc(0, j), acc(r, j))
		}
	}
	g.e("JMP start")
	g.label("zero")
	for r := range mr {
		for j := range nv {
			g.op("VXORPS", acc(r, j), acc(r, j), acc(r, j))
		}
	}
	g.e("JMP start")
	g.label("accumulate")
	g.e("MOVQ %d(DX), CX", cC)
	for j := range nv {
		for r := range mr {
			m, next := out(r, j, "CX")
			if next && r == 0 {
				g.e("ADDQ %d(DX), CX", cLdC)
			}
			g.op("VMOVUPS", m, acc(r, j))
		}
	}
	g.label("start")
	g.e("MOVQ %d(DX), R15", cCB)
	if inner > 0 {
		g.label("block")
		g.e("MOVQ %d(DX), R13", cKH)
		g.label("row")
		g.e("MOVQ %d(DX), BX", cKW)
		g.label("tap")
	}
	halves := false // the last vector has 8 lanes
	step := func(u, b int) {
		for j := range nv {
			if halves && j == nv-1 {
				if i.width == 16 {
					g.e("VMOVUPS %d(DI), Y%d", b+j*64, j)
				}
			} else {
				g.op("VMOVUPS", fmt.Sprintf("%d(DI)", b+j*i.width*4), j)
			}
			if i.width == 16 && inner > 1 {
				g.e("PREFETCHT0 %d(DI)", b+j*i.width*4+ahead)
			}
		}
		if halves && i.width == 8 {
			for r := range mr {
				g.op("VBROADCASTSS", g.rowAddr(r, 4*u), nv+r%2)
				g.op("VFMADD231PS", 0, nv+r%2, acc(r, 0))
			}
			return
		}
		for r := range mr {
			if nv == 1 && halves {
				g.e("VFMADD231PS.BCST %s, Y0, Y%d", g.rowAddr(r, 4*u), acc(r, 0))
				continue
			}
			if nv == 1 {
				g.op("VFMADD231PS.BCST", g.rowAddr(r, 4*u), 0, acc(r, 0))
				continue
			}
			t := nv
			if nv+1 < nregs-mr*nv {
				t += r % 2
			}
			if g.neon() {
				g.rowLane(g.rowAddr(r, 4*u), nv, t, func(j int) int { return acc(r, j) })
				continue
			}
			g.op("VBROADCASTSS", g.rowAddr(r, 4*u), t)
			for j := range nv {
				if halves && j == nv-1 {
					g.e("VFMADD231PS Y%d, Y%d, Y%d", j, t, acc(r, j))
				} else {
					g.op("VFMADD231PS", j, t, acc(r, j))
				}
			}
		}
	}
	switch inner {
	case 0:
		g.e("MOVQ %d(DX), R13", cDeltas)
		g.e("MOVQ %d(DX), BX", cBStep)
		g.e("PCALIGN $32")
		g.label("channel")
		g.e("MOVQ (R13), CX")
		g.e("ADDQ $8, R13")
		step(0, 0)
		g.addA("CX", mr)
		g.e("ADDQ BX, DI")
		g.e("DECQ R15")
		g.e("JNZ channel")
	case 1:
		step(0, 0)
		g.addA("$4", mr)
		g.e("ADDQ %d(DX), DI", cBStep)
	default:
		if g.neon() {
			g.e("MOVL $4, CX")
			g.e("CMPQ R15, $1")
			g.e("JNE aligned")
			g.e("SUBQ %d(DX), CX", cIdle)
			g.label("aligned")
		} else { // Go's assembler does not end if a jump leads over PCALIGN
			g.e("CMPQ R15, $2")
			g.e("SBBQ CX, CX") // -1 in the last block
			g.e("ANDQ %d(DX), CX", cIdle)
			g.e("NEGQ CX")
			g.e("ADDQ $4, CX")
		}
		loop := func(label string, half bool) {
			halves = half
			g.e("PCALIGN $32")
			g.label(label)
			for u := range 4 {
				if i.width == 16 {
					g.e("PREFETCHT1 %d(R12)", u*64)
					step(u, u*blocks*64)
				} else {
					step(u, 0)
					g.e("ADDQ %d(DX), DI", cBStep)
				}
			}
			g.addA("$16", mr)
			if i.width == 16 {
				g.e("ADDQ $%d, DI", 4*blocks*64)
				g.e("ADDQ %d(DX), R12", cPfStep)
			}
			g.e("DECL CX")
			g.e("JNZ %s", label)
		}
		few := i.width == 16 && mr == 14 || i.width == 8 && blocks == 1
		if few {
			g.e("CMPQ %d(DX), $0", cHalf)
			g.e("JEQ channels")
			loop("few", true)
			g.e("JMP after")
		}
		loop("channels", false)
		if few {
			g.label("after")
		}
		g.e("CMPQ R15, $1")
		g.e("JNE whole")
		g.addA(fmt.Sprintf("%d(DX)", cIdleA), mr)
		g.e("ADDQ %d(DX), DI", cIdleB)
		g.label("whole")
	}
	for _, l := range []struct {
		off            int
		counter, label string
	}{{cDKW, "BX", "tap"}, {cDKH, "R13", "row"}, {cDCB, "R15", "block"}} {
		if inner == 0 {
			break
		}
		g.addA(fmt.Sprintf("%d(DX)", l.off), mr)
		g.e("DECQ %s", l.counter)
		g.e("JNZ %s", l.label)
	}
	g.tileEpilogue(mr, nv, acc, out)
	g.e("VZEROUPPER")
	g.e("RET")
	return name
}

// tileEpilogue writes the end of a tile: it adds the residual, applies the activation and stores
// the sums. acc returns the register of vector j of a pixel, out its address relative to a block
// and whether it begins the second block.
func (g *fn) tileEpilogue(mr, nv int, acc func(r, j int) int, out func(r, j int, reg string) (string, bool)) {
	g.e("MOVQ %d(DX), CX", cAdd)
	g.e("TESTQ CX, CX")
	g.e("JZ activation")
	for j := range nv {
		for r := range mr {
			m, next := out(r, j, "CX")
			if next && r == 0 {
				g.e("ADDQ %d(DX), CX", cLdAdd)
			}
			g.op("VADDPS", m, acc(r, j), acc(r, j))
		}
	}
	g.label("activation")
	g.e("MOVQ %d(DX), CX", cAct)
	g.e("TESTQ CX, CX")
	g.e("JZ store")
	g.e("VBROADCASTSS %d(DX), %s", cLo, g.r(0))
	g.e("VBROADCASTSS %d(DX), %s", cHi, g.r(1))
	for r := range mr { // VMAXPS returns the second source for NaN, here the sum
		for j := range nv {
			g.op("VMAXPS", acc(r, j), 0, acc(r, j))
		}
	}
	g.e("CMPQ CX, $%d", clip)
	g.e("JNE store")
	for r := range mr {
		for j := range nv {
			g.op("VMINPS", acc(r, j), 1, acc(r, j))
		}
	}
	g.label("store")
	g.e("MOVQ %d(DX), CX", cC)
	for j := range nv {
		for r := range mr {
			m, next := out(r, j, "CX")
			if next && r == 0 {
				g.e("ADDQ %d(DX), CX", cLdC)
			}
			g.op("VMOVUPS", acc(r, j), m)
		}
	}
}

// affine writes a kernel for dst = min(max(x·scale + shift, lo), hi) over n pixels of a block of 16
// channels.
func affine(f *file, i isa) {
	g := f.function("affine"+i.name, i, []arg{{"dst", "*float32"}, {"x", "*float32"}, {"scale", "*float32"},
		{"shift", "*float32"}, {"n", "int"}, {"lo", "float32"}, {"hi", "float32"}}, nil)
	for _, p := range [][2]string{{"dst", "DI"}, {"x", "SI"}, {"scale", "AX"}, {"shift", "BX"}, {"n", "CX"}} {
		g.arg(p[0], p[1])
	}
	nv, vb := 16/i.width, min(32, i.width*4)
	scale, shift, lo, hi := 8, 10, 12, 13
	if g.neon() {
		shift, lo, hi = 12, 16, 17
	}
	for j := range nv {
		g.op("VMOVUPS", fmt.Sprintf("%d(AX)", j*vb), scale+j)
		g.op("VMOVUPS", fmt.Sprintf("%d(BX)", j*vb), shift+j)
	}
	g.bcast("lo", lo)
	g.bcast("hi", hi)
	pixels := func(n int) {
		for p := range n {
			for j := range nv {
				r := (p*nv + j) % 8
				g.op("VMOVUPS", fmt.Sprintf("%d(SI)", p*64+j*vb), r)
				g.op("VFMADD213PS", shift+j, scale+j, r)
				g.op("VMAXPS", r, lo, r)
				g.op("VMINPS", r, hi, r)
				g.op("VMOVUPS", r, fmt.Sprintf("%d(DI)", p*64+j*vb))
			}
		}
		g.e("ADDQ $%d, SI", n*64)
		g.e("ADDQ $%d, DI", n*64)
		g.e("SUBQ $%d, CX", n)
	}
	g.label("loop4")
	g.e("CMPQ CX, $4")
	g.e("JLT loop1")
	pixels(4)
	g.e("JMP loop4")
	g.label("loop1")
	g.e("TESTQ CX, CX")
	g.e("JZ done")
	pixels(1)
	g.e("JMP loop1")
	g.label("done")
	g.e("VZEROUPPER")
	g.e("RET")
}

var _ = register("conv", writeConv)

func writeConv(dir string) {
	writeConvFor(dir, "amd64", isas)
	writeConvFor(dir, "arm64", []isa{neon})
}

func writeConvFor(dir, arch string, isas []isa) {
	f := newFile("tile")
	var dis strings.Builder
	sw := func(name, params, args string, names []string) {
		fmt.Fprintf(&dis, "\nfunc %s(%s, t *tileArgs) {\n\tswitch %s {\n", name, params, args)
		for r, n := range names {
			fmt.Fprintf(&dis, "\tcase %d:\n\t\t%s(t)\n", r+1, n)
		}
		dis.WriteString("\t}\n}\n")
	}
	for _, kind := range []struct {
		name          string
		blocks, inner int
	}{{"tile2", 2, 16}, {"tile1", 1, 16}, {"nchw2", 2, 1}, {"nchw1", 1, 1}, {"permuted2", 2, 0}, {"permuted1", 1, 0}} {
		for _, i := range isas {
			var names []string
			rows := 14
			if i.width < 16 {
				if kind.blocks == 2 { // the other kernels process the halves of a panel one by one
					continue
				}
				rows = 6
			}
			for mr := 1; mr <= rows; mr++ {
				names = append(names, convTile(f, i, mr, kind.blocks, kind.inner))
			}
			sw(kind.name+i.name, "pixels int", "pixels", names)
		}
	}
	for _, kind := range []string{"depthwise", "maximum", "sum"} {
		for _, i := range isas {
			rows := 14
			if i.width < 16 {
				rows = 6
			}
			var names []string
			for mr := 1; mr <= rows; mr++ {
				names = append(names, channelTile(f, i, kind, mr))
			}
			sw(kind+i.name, "pixels int", "pixels", names)
		}
	}
	if arch == "amd64" {
		fmt.Fprintf(&dis, "\nfunc groupedAVX512(pixels int, t *tileArgs) {\n\tswitch pixels {\n")
		for _, mr := range groupedSizes {
			fmt.Fprintf(&dis, "\tcase %d:\n\t\t%s(t)\n", mr, groupedTile(f, mr))
		}
		dis.WriteString("\t}\n}\n")
		for _, kw := range []int{3, 5} {
			for _, stride := range []int{1, 2} {
				var names []string
				for mr := 1; mr <= 14; mr++ {
					names = append(names, depthwiseTile(f, avx512, kw, stride, mr))
				}
				sw(fmt.Sprintf("depthwiseK%dS%d%s", kw, stride, avx512.name), "pixels int", "pixels", names)
			}
		}
	}
	f.write(dir, "conv", dis.String())

	w := newFile("transforms")
	for _, i := range isas {
		winograd(w, i)
	}
	for _, i := range isas {
		affine(w, i)
	}
	w.write(dir, "conv", "")
}
