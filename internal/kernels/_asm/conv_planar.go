package main

import "fmt"

// Offsets of the fields of conv's planarTile.
const (
	nX, nY, nW, nBias = 0, 8, 16, 24
	nPlanes           = 32
	nH, nOutH         = 40, 48
	nRow, nOutRow     = 56, 64
	nTop, nStart      = 72, 80
	nMasks            = 88
	nLo, nHi          = 112, 116
)

// planar writes planes of depthwise convolutions by k×k whose rows fit one vector. The masks keep the loads of a column
// of the kernel within the row.
func planar(f *file, k int) {
	g := f.function(fmt.Sprintf("planar%dAVX512", k), avx512, []arg{{"t", "*planarTile"}}, nil)
	g.arg("t", "DX")
	for _, p := range []struct {
		off int
		reg string
	}{{nX, "SI"}, {nY, "DI"}, {nW, "BX"}, {nBias, "R9"}, {nH, "R10"}, {nRow, "R8"}, {nOutRow, "R11"}} {
		g.e("MOVQ %d(DX), %s", p.off, p.reg)
	}
	for i := range k {
		g.e("KMOVW %d(DX), K%d", nMasks+4*i, i+1)
	}
	g.e("KMOVW %d(DX), K6", nMasks+20)
	g.e("VBROADCASTSS %d(DX), Z3", nLo)
	g.e("VBROADCASTSS %d(DX), Z4", nHi)
	g.e("MOVQ %d(DX), AX", nPlanes)
	g.e("MOVQ AX, planes-8(SP)") // the registers are few, and one is Go's
	g.label("plane")
	for i := range k * k {
		g.e("VBROADCASTSS %d(BX), Z%d", 4*i, 7+i)
	}
	g.e("VBROADCASTSS (R9), Z6")
	g.e("MOVQ SI, AX")
	g.e("ADDQ %d(DX), AX", nStart) // the first window
	g.e("XORL R12, R12")
	g.e("SUBQ %d(DX), R12", nTop) // its first row
	g.e("MOVQ %d(DX), R13", nOutH)
	g.label("row")
	g.e("VMOVAPS Z6, Z0")
	g.e("MOVQ AX, R15")
	for ky := range k {
		next := fmt.Sprintf("skip%d", ky)
		if ky == 0 {
			g.e("CMPQ R12, R10")
		} else {
			g.e("LEAQ %d(R12), CX", ky)
			g.e("CMPQ CX, R10")
		}
		g.e("JAE %s", next) // unsigned: above the plane, too
		for kx := range k {
			g.e("VMOVUPS.Z %d(R15), K%d, Z1", 4*kx, kx+1)
			g.e("VFMADD231PS Z%d, Z1, Z0", 7+ky*k+kx)
		}
		g.label(next)
		g.e("ADDQ R8, R15")
	}
	g.e("VMAXPS Z0, Z3, Z0") // the second source is the sum: its NaN stays
	g.e("VMINPS Z0, Z4, Z0")
	g.e("VMOVUPS Z0, K6, (DI)")
	g.e("ADDQ R11, DI")
	g.e("ADDQ R8, AX")
	g.e("INCQ R12")
	g.e("DECQ R13")
	g.e("JNZ row")
	g.e("MOVQ R10, AX")
	g.e("IMULQ R8, AX")
	g.e("ADDQ AX, SI")
	g.e("ADDQ $%d, BX", 4*k*k)
	g.e("ADDQ $4, R9")
	g.e("DECQ planes-8(SP)")
	g.e("JNZ plane")
	g.e("VZEROUPPER")
	g.e("RET")
}

func writeConvPlanar(dir string) {
	f := newFile("planar")
	planar(f, 3)
	planar(f, 5)
	write(dir+"/planar_amd64.s", f.text())
	write(dir+"/planar_stubs_amd64.go", generated+"//go:build !purego\n\npackage conv\n"+f.stubs.String())
}
