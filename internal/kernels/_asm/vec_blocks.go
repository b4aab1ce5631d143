package main

import "fmt"

// transposeWide writes the kernels that transpose n blocks of elements of size bytes: 16×16, or 8×8
// for eight bytes. Elements of two bytes are widened to 32 bits. Strides and distances between
// blocks are in bytes. The edge form handles smaller blocks: it loads the last row again for
// missing ones.
func transposeWide(f *file, size int, edge bool) {
	name := fmt.Sprintf("transposeU%d", 8*size)
	args := []arg{{"dst", "*byte"}, {"src", "*byte"}, {"ldd", "int"}, {"lds", "int"}, {"dstStep", "int"},
		{"srcStep", "int"}, {"n", "int"}}
	if edge {
		name += "Edge"
		args = append(args, arg{"rows", "int"}, arg{"cols", "int"})
	}
	g := f.function(name+"AVX512", avx512, args, nil)
	for i, r := range []string{"DI", "SI", "R8", "R9", "R12", "R13", "DX"} {
		g.arg(args[i].name, r)
	}
	w := 16
	if size == 8 {
		w = 8
	}
	if edge {
		for _, m := range [][3]string{{"rows", "R10", "K2"}, {"cols", "R11", "K1"}} {
			g.arg(m[0], m[1])
			g.e("MOVQ %s, CX", m[1])
			g.e("MOVL $1, AX")
			g.e("SHLL CX, AX")
			g.e("DECL AX")
			g.e("KMOVW AX, %s", m[2])
		}
	}
	load := map[int]string{1: "VMOVDQU8", 2: "VPMOVZXWD", 4: "VMOVUPS", 8: "VMOVUPD"}[size]
	store, v := load, "Z" // a register holds a row of a block
	switch size {
	case 1:
		v = "X"
	case 2:
		store = "VMOVDQU16"
	}
	zero, k1 := "", ""
	if edge {
		zero, k1 = ".Z", "K1, "
	}
	g.label("block")
	g.e("MOVQ SI, AX")
	for r := range w {
		g.e("%s%s (AX), %s%s%d", load, zero, k1, v, r)
		switch {
		case r == w-1:
		case edge:
			g.e("LEAQ (AX)(R9*1), BX")
			g.e("CMPQ R10, $%d", r+1)
			g.e("CMOVQGT BX, AX")
		default:
			g.e("ADDQ R9, AX")
		}
	}
	var res []int
	switch size {
	case 8:
		res = g.network8()
	case 1:
		res = g.riffle16()
	default:
		res = g.network16()
	}
	g.e("MOVQ DI, BX")
	for j := range w {
		if edge && j > 0 {
			g.e("CMPQ R11, $%d", j)
			g.e("JLE stored")
		}
		k2 := ""
		if edge {
			k2 = "K2, "
		}
		to := v
		if size == 2 {
			g.e("VPMOVDW Z%d, Y%d", res[j], res[j])
			to = "Y"
		}
		g.e("%s %s%d, %s(BX)", store, to, res[j], k2)
		g.e("ADDQ R8, BX")
	}
	g.label("stored")
	g.e("ADDQ R12, DI")
	g.e("ADDQ R13, SI")
	g.e("DECQ DX")
	g.e("JNZ block")
	g.e("VZEROUPPER")
	g.e("RET")
}

// riffle16 transposes 16×16 bytes in registers 0 to 15 and returns the registers of the columns.
// Each of four steps rotates the bits of a byte's address, row and column, by one.
func (g *fn) riffle16() []int {
	res := make([]int, 16)
	for step := range 4 {
		from, to := step%2*16, 16-step%2*16
		for r := range 8 {
			a, b := from+r, from+r+8
			g.e("VPUNPCKLBW X%d, X%d, X%d", b, a, to+2*r)
			g.e("VPUNPCKHBW X%d, X%d, X%d", b, a, to+2*r+1)
		}
	}
	for j := range res {
		res[j] = j
	}
	return res
}

// network16 transposes the 16×16 32-bit elements in registers 0 to 15 and returns the registers of
// the columns. It transposes 4×4 within each 128-bit lane, then the lanes. Registers 16 to 19 are
// free.
func (g *fn) network16() []int {
	in := func(q, k int) int { return q*4 + k }
	for q := range 4 {
		a, b, c, d := in(q, 0), in(q, 1), in(q, 2), in(q, 3)
		g.op("VUNPCKLPS", b, a, 16)
		g.op("VUNPCKHPS", b, a, 17)
		g.op("VUNPCKLPS", d, c, 18)
		g.op("VUNPCKHPS", d, c, 19)
		g.op("VUNPCKLPD", 18, 16, a)
		g.op("VUNPCKHPD", 18, 16, b)
		g.op("VUNPCKLPD", 19, 17, c)
		g.op("VUNPCKHPD", 19, 17, d)
	}
	res := make([]int, 16)
	for k := range 4 {
		g.lanes(in(0, k), in(1, k), in(2, k), in(3, k))
		for q := range 4 {
			res[k+4*q] = in(q, k)
		}
	}
	return res
}

// lanes transposes the four 128-bit lanes of four registers. Registers 16 to 19 are free.
func (g *fn) lanes(a, b, c, d int) {
	g.op("VSHUFF32X4", "$0x88", b, a, 16)
	g.op("VSHUFF32X4", "$0xDD", b, a, 17)
	g.op("VSHUFF32X4", "$0x88", d, c, 18)
	g.op("VSHUFF32X4", "$0xDD", d, c, 19)
	g.op("VSHUFF32X4", "$0x88", 18, 16, a)
	g.op("VSHUFF32X4", "$0x88", 19, 17, b)
	g.op("VSHUFF32X4", "$0xDD", 18, 16, c)
	g.op("VSHUFF32X4", "$0xDD", 19, 17, d)
}

// network8 is network16 for the 8×8 64-bit elements in registers 0 to 7.
func (g *fn) network8() []int {
	for q := 0; q < 8; q += 2 {
		g.op("VUNPCKLPD", q+1, q, 16)
		g.op("VUNPCKHPD", q+1, q, q+1)
		g.op("VMOVAPS", 16, q)
	}
	g.lanes(0, 2, 4, 6)
	g.lanes(1, 3, 5, 7)
	return []int{0, 1, 2, 3, 4, 5, 6, 7}
}
