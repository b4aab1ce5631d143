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

// planar writes the kernel for planes of depthwise k×k convolutions whose rows fit in one vector.
// Masks keep the loads for a kernel column within the row. Rows of up to 8 elements use half a
// vector, whose loads cross fewer cache lines.
func planar(f *file, k int, reg string) {
	g := f.function(fmt.Sprintf("planar%d%sAVX512", k, map[string]string{"Y": "Half"}[reg]), avx512,
		[]arg{{"t", "*planarTile"}}, nil)
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
	g.e("VBROADCASTSS %d(DX), %s3", nLo, reg)
	g.e("VBROADCASTSS %d(DX), %s4", nHi, reg)
	g.e("MOVQ %d(DX), AX", nPlanes)
	g.e("MOVQ AX, planes-8(SP)") // spilled: all registers are used, and one is reserved by Go
	g.label("plane")
	for i := range k * k {
		g.e("VBROADCASTSS %d(BX), %s%d", 4*i, reg, 7+i)
	}
	g.e("VBROADCASTSS (R9), %s6", reg)
	g.e("MOVQ SI, AX")
	g.e("ADDQ %d(DX), AX", nStart) // the first window
	g.e("XORL R12, R12")
	g.e("SUBQ %d(DX), R12", nTop) // its first row
	g.e("MOVQ %d(DX), R13", nOutH)
	g.label("row")
	g.e("VMOVAPS %s6, %s0", reg, reg)
	g.e("MOVQ AX, R15")
	for ky := range k {
		next := fmt.Sprintf("skip%d", ky)
		if ky == 0 {
			g.e("CMPQ R12, R10")
		} else {
			g.e("LEAQ %d(R12), CX", ky)
			g.e("CMPQ CX, R10")
		}
		g.e("JAE %s", next) // unsigned comparison, so rows above the plane are skipped too
		for kx := range k {
			g.e("VMOVUPS.Z %d(R15), K%d, %s1", 4*kx, kx+1, reg)
			g.e("VFMADD231PS %s%d, %s1, %s0", reg, 7+ky*k+kx, reg, reg)
		}
		g.label(next)
		g.e("ADDQ R8, R15")
	}
	g.e("VMAXPS %s0, %s3, %s0", reg, reg, reg) // VMAXPS returns the second source for NaN, here the sum
	g.e("VMINPS %s0, %s4, %s0", reg, reg, reg)
	g.e("VMOVUPS %s0, K6, (DI)", reg)
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

var _ = register("conv", writeConvPlanar)

func writeConvPlanar(dir string) {
	f := newFile("planar")
	for _, k := range []int{3, 5} {
		planar(f, k, "Z")
		planar(f, k, "Y")
	}
	f.write(dir, "conv", "")
}
