package main

import "fmt"

var _ = register("quant", writeLinearNEON)

// writeLinearNEON writes the kernels of package quant for arm64 other than GEMM.
func writeLinearNEON(dir string) {
	f := newFile("linear")
	transposeBytesNEON(f)
	packRowsNEON(f)
	sumBytesNEON(f)
	quantizeNEON(f)
	requantizeNEON(f)
	combineBytesNEON(f, false)
	combineBytesNEON(f, true)
	for stride := 1; stride <= 2; stride++ {
		maxWindowNEON(f, stride)
	}
	f.write(dir, "quant", "")
}

// widen writes an instruction with the operands d, n and m, and its counterpart for the upper
// halves with bit 30 set.
func (g *fn) widen(code uint32, name, to, from string, n, m, d int) {
	upper := ""
	if code&(1<<30) != 0 {
		upper = "2"
	}
	g.word(code|uint32(m)<<16|uint32(n)<<5|uint32(d), "%s%s v%d.%s, v%d.%s, v%d.%s", name, upper,
		d, to, n, from, m, from)
}

const upperHalf = 1 << 30

// transposeBytesNEON writes the kernel of transposeBytes, and one that interleaves blocks of three
// rows.
func transposeBytesNEON(f *file) {
	g := f.function("transposeBytesNEON", neon,
		[]arg{{"dst", "*uint8"}, {"src", "*uint8"}, {"ldd", "int"}, {"lds", "int"}, {"n", "int"}}, nil)
	g.arg("dst", "DI")
	g.arg("src", "SI")
	g.arg("ldd", "R8")
	g.arg("lds", "R9")
	g.arg("n", "CX")
	g.label("block")
	g.raw("MOVD R4, R0")
	for r := range 16 {
		g.raw("FMOVQ (R0), F%d", r)
		g.raw("ADD R9, R0")
	}
	from, to := 0, 16
	for range 4 { // interleave rows r and r+8 to rows 2r and 2r+1
		for r := range 8 {
			for i := range 2 {
				g.raw("VZIP%d V%d.B16, V%d.B16, V%d.B16", i+1, from+r+8, from+r, to+2*r+i)
			}
		}
		from, to = to, from
	}
	for r := range 16 {
		g.raw("FMOVQ F%d, (R5)", from+r)
		g.raw("ADD R8, R5")
	}
	g.raw("ADD $16, R4")
	g.raw("SUBS $1, R2")
	g.raw("BNE block")
	g.raw("RET")

	g = f.function("interleaveBytesNEON", neon,
		[]arg{{"dst", "*uint8"}, {"src", "*uint8"}, {"lds", "int"}, {"n", "int"}}, nil)
	g.arg("dst", "DI")
	g.arg("src", "SI")
	g.arg("lds", "R8")
	g.arg("n", "CX")
	g.raw("ADD R8, R4, R9")
	g.raw("ADD R8, R9, R10")
	g.label("block")
	for r, reg := range []string{"R4", "R9", "R10"} {
		g.raw("VLD1.P 16(%s), [V%d.B16]", reg, r)
	}
	g.raw("VST3.P [V0.B16, V1.B16, V2.B16], 48(R5)")
	g.raw("SUBS $1, R2")
	g.raw("BNE block")
	g.raw("RET")
}

// packRowsNEON writes the kernel of packRows.
func packRowsNEON(f *file) {
	const pairs, sums, flip = 4, 16, 30
	g := f.function("packRowsNEON", neon, []arg{{"dst", "*int8"}, {"src", "*uint8"}, {"sums", "*int32"}, {"lds", "int"},
		{"n", "int"}, {"flip", "uint32"}}, nil)
	g.arg("dst", "DI")
	g.arg("src", "SI")
	g.arg("sums", "DX")
	g.arg("lds", "R8")
	g.arg("n", "CX")
	g.raw("MOVWU flip+%d(FP), R6", g.off["flip"])
	g.raw("VDUP R6, V%d.B16", flip)
	for j := range 8 {
		g.raw("FMOVQ %d(R3), F%d", 16*j, sums+j)
	}
	g.label("step")
	g.raw("MOVD R4, R0")
	for r := range 4 {
		g.raw("FLDPQ (R0), (F%d, F%d)", r, 8+r)
		g.raw("ADD R8, R0")
	}
	for h := range 2 {
		for r := range 4 {
			g.raw("VEOR V%d.B16, V%d.B16, V%d.B16", flip, 8*h+r, 8*h+r)
		}
		g.raw("VST4.P [V%d.B16, V%d.B16, V%d.B16, V%d.B16], 64(R5)", 8*h, 8*h+1, 8*h+2, 8*h+3)
		for i := range 2 { // lower and upper columns
			half := uint32(i) * upperHalf
			a, b := pairs+i, pairs+2+i
			g.widen(0x0e200000|half, "saddl", "8h", []string{"8b", "16b"}[i], 8*h, 8*h+1, a)
			g.widen(0x0e200000|half, "saddl", "8h", []string{"8b", "16b"}[i], 8*h+2, 8*h+3, b)
			g.raw("VADD V%d.H8, V%d.H8, V%d.H8", b, a, a)
			for k, t := range []string{"4h", "8h"} {
				s := sums + 4*h + 2*i + k
				g.word(0x0e601000|uint32(k)*upperHalf|uint32(a)<<16|uint32(s)<<5|uint32(s),
					"saddw%s v%d.4s, v%d.4s, v%d.%s", []string{"", "2"}[k], s, s, a, t)
			}
		}
	}
	g.raw("MOVD R0, R4")
	g.raw("SUBS $1, R2")
	g.raw("BNE step")
	for j := range 8 {
		g.raw("FMOVQ F%d, %d(R3)", sums+j, 16*j)
	}
	g.raw("RET")
}

// sumBytesNEON writes a kernel that sums n uint8; n is a multiple of 32.
func sumBytesNEON(f *file) {
	g := f.function("sumU8NEON", neon, []arg{{"x", "*uint8"}, {"n", "int"}}, &arg{"s", "uint32"})
	g.arg("x", "SI")
	g.arg("n", "CX")
	g.zeroNEON(0, 2)
	g.label("loop")
	g.raw("FLDPQ.P 32(R4), (F2, F3)")
	for i := range 2 {
		t := 2 + i
		g.word(0x6e202800|uint32(t)<<5|uint32(t), "uaddlp v%d.8h, v%d.16b", t, t)
		g.word(0x6e606800|uint32(t)<<5|uint32(i), "uadalp v%d.4s, v%d.8h", i, t)
	}
	g.raw("SUBS $32, R2")
	g.raw("BNE loop")
	g.raw("VADD V1.S4, V0.S4, V0.S4")
	g.raw("VADDV V0.S4, V0")
	g.raw("FMOVS F0, s+%d(FP)", g.off["s"])
	g.raw("RET")
}

const (
	lowNEON  = 11
	highNEON = 12
	zeroNEON = 13
)

// bounds loads the zero point and the bounds of narrow16.
func (g *fn) bounds() {
	g.bcast("lo", lowNEON)
	g.bcast("hi", highNEON)
	g.bcast("zero", zeroNEON)
}

// narrow16 is narrow for the sixteen numbers in the registers 0 to 3, which it stores at R5. FMAXNM
// returns the number if the other operand is a quiet NaN.
func (g *fn) narrow16() {
	each := func(code uint32, name string, m int) {
		for r := range 4 {
			g.word(code|uint32(m)<<16|uint32(r)<<5|uint32(r), "%s v%d.4s, v%d.4s, v%d.4s", name, r, r, m)
		}
	}
	for r := range 4 {
		g.two("$8", r, r)
	}
	each(threeNEON["VADDPS"].code, "fadd", zeroNEON)
	each(0x4e20c400, "fmaxnm", lowNEON)
	each(0x4ea0c400, "fminnm", highNEON)
	for r := range 4 {
		g.two("VCVTPS2DQ", r, r)
	}
	g.packBytesNEON(0, 1, 2, 3)
	g.raw("VST1.P [V0.B16], 16(R5)")
}

// quantizeNEON writes the kernel of quantize; n is a multiple of 16.
func quantizeNEON(f *file) {
	const scale = 10
	g := f.function("quantizeF32NEON", neon, []arg{{"dst", "*uint8"}, {"x", "*float32"}, {"n", "int"},
		{"scale", "float32"}, {"zero", "float32"}, {"lo", "float32"}, {"hi", "float32"}}, nil)
	g.arg("dst", "DI")
	g.arg("x", "SI")
	g.arg("n", "CX")
	g.bcast("scale", scale)
	g.bounds()
	g.label("loop")
	g.raw("VLD1.P 64(R4), [V0.S4, V1.S4, V2.S4, V3.S4]")
	for r := range 4 {
		g.three("VDIVPS", scale, r, r)
	}
	g.narrow16()
	g.raw("SUBS $16, R2")
	g.raw("BNE loop")
	g.raw("RET")
}

// requantizeNEON writes the kernel of requantize; n is a multiple of 16.
func requantizeNEON(f *file) {
	const scale = 16
	g := f.function("requantizeI32NEON", neon, []arg{{"dst", "*uint8"}, {"x", "*int32"}, {"scale", "*float32"},
		{"step", "int"}, {"n", "int"}, {"zero", "float32"}, {"lo", "float32"}, {"hi", "float32"}}, nil)
	g.arg("dst", "DI")
	g.arg("x", "SI")
	g.arg("scale", "BX")
	g.arg("step", "DX")
	g.arg("n", "CX")
	g.bounds()
	g.raw("FMOVS (R1), F%d", scale)
	for r := 3; r >= 0; r-- {
		g.raw("VDUP V%d.S[0], V%d.S4", scale, scale+r)
	}
	g.label("loop")
	g.raw("CBZ R3, one")
	g.raw("VLD1.P 64(R1), [V16.S4, V17.S4, V18.S4, V19.S4]")
	g.label("one")
	g.raw("VLD1.P 64(R4), [V0.S4, V1.S4, V2.S4, V3.S4]")
	for r := range 4 {
		g.two("VCVTDQ2PS", r, r)
		g.three("VMULPS", scale+r, r, r)
	}
	g.narrow16()
	g.raw("SUBS $16, R2")
	g.raw("BNE loop")
	g.raw("RET")
}

// combineBytesNEON writes the kernels of addBytes and mulBytes; n is a multiple of 16, and the zero
// points are bytes.
func combineBytesNEON(f *file, product bool) {
	const bytes, words, flip, zeros, scales, offset = 16, 17, 20, 21, 8, 15
	name, special, zero := "addBytesNEON", []arg{{"flip", "int32"}, {"sa", "float32"}, {"sb", "float32"},
		{"c", "float32"}}, []string{"flip", "flip"}
	first := [2]int{4, 24} // registers of a and b
	if product {
		first = [2]int{0, 4}
		name, special, zero = "mulBytesNEON", []arg{{"za", "int32"}, {"zb", "int32"}, {"flip", "int32"},
			{"sa", "float32"}, {"sb", "float32"}}, []string{"za", "zb"}
	}
	args := append([]arg{{"dst", "*uint8"}, {"a", "*uint8"}, {"b", "*uint8"}, {"n", "int"}}, special...)
	g := f.function(name, neon, append(args, arg{"zero", "float32"}, arg{"lo", "float32"}, arg{"hi", "float32"}), nil)
	g.arg("dst", "DI")
	g.arg("a", "SI")
	g.arg("b", "BX")
	g.arg("n", "CX")
	for i, p := range append([]string{"flip"}, zero...) {
		g.raw("MOVWU %s+%d(FP), R6", p, g.off[p])
		g.raw("VDUP R6, V%d.B16", flip+i)
	}
	g.bcast("sa", scales)
	g.bcast("sb", scales+1)
	if !product {
		g.bcast("c", offset)
	}
	g.bounds()
	g.label("loop")
	for k, reg := range []string{"R4", "R1"} {
		g.raw("VLD1.P 16(%s), [V%d.B16]", reg, bytes)
		g.raw("VEOR V%d.B16, V%d.B16, V%d.B16", flip, bytes, bytes)
		g.widen(0x2e202000, "usubl", "8h", "8b", bytes, zeros+k, words)
		g.widen(0x2e202000|upperHalf, "usubl", "8h", "16b", bytes, zeros+k, words+1)
		for r := range 4 {
			d, n := first[k]+r, words+r/2
			g.word(0x0f10a400|uint32(r%2)*upperHalf|uint32(n)<<5|uint32(d), "sshll%s v%d.4s, v%d.%s, #0",
				[]string{"", "2"}[r%2], d, n, []string{"4h", "8h"}[r%2])
			g.two("VCVTDQ2PS", d, d)
		}
	}
	for r := range 4 {
		if product {
			g.three("VMULPS", 4+r, r, r)
			g.three("VMULPS", scales, r, r)
			g.three("VADDPS", scales+1, r, r)
		} else {
			g.move(offset, r)
			g.op("VFMADD231PS", scales+1, first[1]+r, r)
			g.op("VFMADD231PS", scales, first[0]+r, r)
		}
	}
	g.narrow16()
	g.raw("SUBS $16, R2")
	g.raw("BNE loop")
	g.raw("RET")
}

// maxWindowNEON writes the kernel of maxWindow for at least eight windows. The last block overlaps
// the one before it.
func maxWindowNEON(f *file, stride int) {
	const flip = 7
	g := f.function(fmt.Sprintf("maxWindow%dNEON", stride), neon,
		[]arg{{"dst", "*uint8"}, {"x", "*uint8"}, {"lds", "int"}, {"kh", "int"}, {"kw", "int"}, {"n", "int"},
			{"flip", "uint32"}}, nil)
	for _, p := range [][2]string{{"dst", "DI"}, {"x", "SI"}, {"lds", "R8"}, {"kh", "R9"}, {"kw", "R10"}, {"n", "CX"}} {
		g.arg(p[0], p[1])
	}
	g.raw("MOVWU flip+%d(FP), R6", g.off["flip"])
	g.raw("VDUP R6, V%d.B16", flip)
	g.raw("CMP $16, R2")
	g.raw("BLT block8")
	for _, width := range []int{16, 8} {
		at := func(label string) string { return fmt.Sprintf("%s%d", label, width) }
		g.label(at("block"))
		g.zeroNEON(0, 1)
		g.raw("MOVD R4, R11")
		g.raw("MOVD R9, R12")
		g.label(at("row"))
		g.raw("MOVD R11, R13")
		g.raw("MOVD R10, R1")
		g.label(at("tap"))
		if stride == 1 {
			g.raw("VLD1 (R13), [V1.B%d]", width)
		} else {
			g.raw("VLD2 (R13), [V1.B%d, V2.B%d]", width, width)
		}
		g.raw("VEOR V%d.B16, V1.B16, V1.B16", flip)
		g.raw("VUMAX V1.B16, V0.B16, V0.B16")
		g.raw("ADD $1, R13")
		g.raw("SUBS $1, R1")
		g.raw("BNE %s", at("tap"))
		g.raw("ADD R8, R11")
		g.raw("SUBS $1, R12")
		g.raw("BNE %s", at("row"))
		g.raw("VEOR V%d.B16, V0.B16, V0.B16", flip)
		g.raw("VST1 [V0.B%d], (R5)", width)
		g.raw("SUBS $%d, R2", width)
		g.raw("BEQ done")
		g.raw("MOVD $%d, R7", width)
		g.raw("CMP R7, R2")
		g.raw("CSEL LT, R2, R7, R7") // the distance of the next block
		g.raw("ADD R7, R5")
		g.raw("ADD R7<<%d, R4", stride-1)
		g.raw("MOVD $%d, R7", width)
		g.raw("CMP R7, R2")
		g.raw("CSEL LT, R7, R2, R2")
		g.raw("B %s", at("block"))
	}
	g.label("done")
	g.raw("RET")
}
