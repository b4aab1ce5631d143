package main

import (
	"fmt"
	"strings"
)

var vnni = isa{"VNNI", "AVX512", "Z", 16}

var _ = register("quant", writeQuant)

func writeQuant(dir string) {
	f := newFile("tile")
	var dis strings.Builder
	for _, v := range []struct {
		name string
		isa
		arithmetic
		rows int
	}{{"tileVNNI", vnni, dotU8S8, rowsAVX512}, {"tileAVX512", avx512, dotI16, rowsWords},
		{"tileAVX2", avx2, dotI16, rowsAVX}, {"tileDotAVX2", avx2, dotPairs, rowsAVX}} {
		fmt.Fprintf(&dis, "\n// %s computes a tile with the given number of rows.\n"+
			"func %s(rows int, t *tileI32) {\n\tswitch rows {\n", v.name, v.name)
		for mr := 1; mr <= v.rows; mr++ {
			fmt.Fprintf(&dis, "\tcase %d:\n\t\t%s(t)\n", mr, gemmTile(f, v.isa, mr, v.arithmetic))
		}
		dis.WriteString("\t}\n}\n")
	}
	f.write(dir, "quant", dis.String())

	q := newFile("linear")
	transposeBytes(q)
	interleaveBytes(q)
	packRows(q)
	for _, i := range isas {
		sumBytes(q, i)
		quantize(q, i)
		requantize(q, i)
		addBytes(q, i)
		mulBytes(q, i)
	}
	maxWindow(q)
	q.write(dir, "quant", "")

	r := newFile("rows")
	rows := addByteRows(r) + addPairRows(r)
	addByteRowsAMX(r)
	widenBytes(r)
	r.write(dir, "quant", rows)
}

// transposeBytes writes a kernel that transposes n adjacent 16×16 blocks of bytes. From block to
// block, src advances to the right and dst down. Strides are in bytes.
func transposeBytes(f *file) {
	g := f.function("transposeBytesAVX512", avx512,
		[]arg{{"dst", "*uint8"}, {"src", "*uint8"}, {"ldd", "int"}, {"lds", "int"}, {"n", "int"}}, nil)
	g.arg("dst", "DI")
	g.arg("src", "SI")
	g.arg("ldd", "R8")
	g.arg("lds", "R9")
	g.arg("n", "CX")
	g.label("block")
	g.e("MOVQ SI, AX")
	for r := range 16 {
		g.e("VMOVDQU32 (AX), X%d", r)
		g.e("ADDQ R9, AX")
	}
	// Four times: interleave rows r and r+8 to rows 2r and 2r+1.
	from, to := 0, 16
	for range 4 {
		for r := range 8 {
			g.e("VPUNPCKLBW X%d, X%d, X%d", from+r+8, from+r, to+2*r)
			g.e("VPUNPCKHBW X%d, X%d, X%d", from+r+8, from+r, to+2*r+1)
		}
		from, to = to, from
	}
	for r := range 16 {
		g.e("VMOVDQU32 X%d, (DI)", from+r)
		g.e("ADDQ R8, DI")
	}
	g.e("ADDQ $16, SI")
	g.e("DECQ CX")
	g.e("JNZ block")
	g.e("VZEROUPPER")
	g.e("RET")
}

// interleaveBytes writes a kernel that transposes n blocks of three rows and sixteen columns: in
// each 16 bytes of dst, every third byte comes from the same row.
func interleaveBytes(f *file) {
	for o := range 3 {
		for r := range 3 {
			var v [2]uint64
			for i := range 16 {
				p := 16*o + i
				b := uint64(0x80)
				if p%3 == r {
					b = uint64(p / 3)
				}
				v[i/8] |= b << (8 * (i % 8))
			}
			name := fmt.Sprintf("interleave%d%d<>", o, r)
			fmt.Fprintf(&f.body, "\nDATA %s+0(SB)/8, $0x%016x\nDATA %s+8(SB)/8, $0x%016x\n"+
				"GLOBL %s(SB), RODATA|NOPTR, $16\n", name, v[0], name, v[1], name)
		}
	}
	g := f.function("interleaveBytesAVX512", avx512,
		[]arg{{"dst", "*uint8"}, {"src", "*uint8"}, {"lds", "int"}, {"n", "int"}}, nil)
	g.arg("dst", "DI")
	g.arg("src", "SI")
	g.arg("lds", "R8")
	g.arg("n", "CX")
	for o := range 3 {
		for r := range 3 {
			g.e("VMOVDQU32 interleave%d%d<>(SB), X%d", o, r, 4+3*o+r)
		}
	}
	g.label("block")
	for r, m := range []string{"(SI)", "(SI)(R8*1)", "(SI)(R8*2)"} {
		g.e("VMOVDQU32 %s, X%d", m, r)
	}
	for o := range 3 {
		for r := range 3 {
			g.e("VPSHUFB X%d, X%d, X%d", 4+3*o+r, r, 13+r%3)
		}
		g.e("VPORD X13, X14, X13")
		g.e("VPORD X13, X15, X13")
		g.e("VMOVDQU32 X13, %d(DI)", 16*o)
	}
	g.e("ADDQ $16, SI")
	g.e("ADDQ $48, DI")
	g.e("DECQ CX")
	g.e("JNZ block")
	g.e("VZEROUPPER")
	g.e("RET")
}

// packRows writes a kernel that interleaves n times four rows of 32 bytes and applies XOR with flip
// (four equal bytes). It adds the four int8 values of each column to 32 sums.
func packRows(f *file) {
	g := f.function("packRowsVNNI", avx512, []arg{{"dst", "*int8"}, {"src", "*uint8"}, {"sums", "*int32"},
		{"lds", "int"}, {"n", "int"}, {"flip", "uint32"}}, nil)
	g.arg("dst", "DI")
	g.arg("src", "SI")
	g.arg("sums", "DX")
	g.arg("lds", "R8")
	g.arg("n", "CX")
	g.e("LEAQ (R8)(R8*2), R9")
	g.e("MOVL flip+40(FP), AX")
	g.e("VPBROADCASTD AX, Z12")
	g.e("MOVL $0x01010101, AX")
	g.e("VPBROADCASTD AX, Z13")
	g.e("VMOVDQU32 (DX), Z14")
	g.e("VMOVDQU32 64(DX), Z15")
	g.label("step")
	for h := range 2 {
		at := 16 * h
		for r, m := range []string{"(SI)", "(SI)(R8*1)", "(SI)(R8*2)", "(SI)(R9*1)"} {
			g.e("VPMOVZXBD %d%s, Z%d", at, m, 4*h+r)
		}
		for r := 1; r < 4; r++ {
			g.e("VPSLLD $%d, Z%d, Z%d", 8*r, 4*h+r, 4*h+r)
			g.e("VPORD Z%d, Z%d, Z%d", 4*h+r, 4*h, 4*h)
		}
		g.e("VPXORD Z12, Z%d, Z%d", 4*h, 4*h)
		g.e("VPDPBUSD Z%d, Z13, Z%d", 4*h, 14+h)
		g.e("VMOVDQU32 Z%d, %d(DI)", 4*h, 64*h)
	}
	g.e("ADDQ $128, DI")
	g.e("LEAQ (SI)(R8*4), SI")
	g.e("DECQ CX")
	g.e("JNZ step")
	g.e("VMOVDQU32 Z14, (DX)")
	g.e("VMOVDQU32 Z15, 64(DX)")
	g.e("VZEROUPPER")
	g.e("RET")
}

// sumBytes writes a kernel that sums n uint8; n is a multiple of the vector length.
func sumBytes(f *file, i isa) {
	g := f.function("sumU8"+i.name, i, []arg{{"x", "*uint8"}, {"n", "int"}}, &arg{"s", "uint32"})
	g.arg("x", "SI")
	g.arg("n", "CX")
	xor := "VPXOR"
	if i.width == 16 {
		xor = "VPXORQ"
	}
	g.op(xor, 0, 0, 0)
	g.op(xor, 1, 1, 1)
	g.label("loop")
	g.op("VPSADBW", "(SI)", 0, 2)
	g.op("VPADDQ", 2, 1, 1)
	g.e("ADDQ $%d, SI", i.width*4)
	g.e("SUBQ $%d, CX", i.width*4)
	g.e("JNZ loop")
	if i.width == 16 {
		g.e("VEXTRACTI64X4 $1, Z1, Y2")
		g.e("VPADDQ Y2, Y1, Y1")
	}
	g.e("VEXTRACTI128 $1, Y1, X2")
	g.e("VPADDQ X2, X1, X1")
	g.e("VPSRLDQ $8, X1, X2")
	g.e("VPADDQ X2, X1, X1")
	g.e("VMOVD X1, AX")
	g.e("MOVL AX, s+%d(FP)", g.off["s"])
	g.e("VZEROUPPER")
	g.e("RET")
}

// narrow rounds the vector in register 0 to integers, adds the zero point in register 13, clips to
// [11, 12] as floats and stores bytes at mem. Clipped values fit in a byte. On x86, NaN converts to
// the smallest integer, which agrees with clipping NaN to lo.
func (g *fn) narrow(mem string) {
	g.round(0, 0, 0)
	g.op("VADDPS", 13, 0, 0)
	g.op("VMAXPS", 11, 0, 0) // NaN becomes lo
	g.op("VMINPS", 12, 0, 0)
	g.op("VCVTPS2DQ", 0, 0)
	if g.width == 16 {
		g.op("VPMOVDB", 0, mem)
		return
	}
	g.op("VPAND", uint32(0xff), 0, 0)
	g.e("VEXTRACTI128 $1, Y0, X1")
	g.e("VPACKUSDW X1, X0, X0")
	g.e("VPACKUSWB X0, X0, X0")
	g.e("VMOVQ X0, %s", mem)
}

// quantize writes a kernel for clip(round(x/scale)+zero) as bytes; n is a multiple of the vector
// length.
func quantize(f *file, i isa) {
	g := f.function("quantizeF32"+i.name, i, []arg{{"dst", "*uint8"}, {"x", "*float32"}, {"n", "int"},
		{"scale", "float32"}, {"zero", "float32"}, {"lo", "float32"}, {"hi", "float32"}}, nil)
	g.arg("dst", "DI")
	g.arg("x", "SI")
	g.arg("n", "CX")
	g.bcast("scale", 10)
	g.bcast("zero", 13)
	g.bcast("lo", 11)
	g.bcast("hi", 12)
	// A division takes as long as all other instructions. If x·(1/scale) is in range, it rounds to
	// the same integer, unless it is close to the middle of two.
	if i.width == 16 {
		g.op("VMOVUPS", 1.0, 9)
		g.op("VDIVPS", 10, 9, 9)
	}
	g.label("loop")
	g.op("VMOVUPS", "(SI)", 1)
	if i.width == 16 {
		g.op("VMULPS", 9, 1, 0)
		g.round(0, 0, 2)
		g.op("VSUBPS", 2, 0, 2)
		g.op("VANDPS", absBits, 2, 2)
		g.op("VCMPPS", "$22", 0.49, 2, "K1") // above, or NaN
		g.e("KORTESTW K1, K1")
		g.e("JNZ divide")
	} else {
		g.op("VDIVPS", 10, 1, 0)
	}
	g.label("narrow")
	g.narrow("(DI)")
	g.e("ADDQ $%d, SI", i.width*4)
	g.e("ADDQ $%d, DI", i.width)
	g.e("SUBQ $%d, CX", i.width)
	g.e("JNZ loop")
	g.e("VZEROUPPER")
	g.e("RET")
	if i.width == 16 {
		g.label("divide")
		g.op("VDIVPS", 10, 1, 0)
		g.e("JMP narrow")
	}
}

// requantize is quantize for int32 sums, with one factor per element or, with step 0, one for all.
func requantize(f *file, i isa) {
	g := f.function("requantizeI32"+i.name, i, []arg{{"dst", "*uint8"}, {"x", "*int32"}, {"scale", "*float32"},
		{"step", "int"}, {"n", "int"}, {"zero", "float32"}, {"lo", "float32"}, {"hi", "float32"}}, nil)
	g.arg("dst", "DI")
	g.arg("x", "SI")
	g.arg("scale", "BX")
	g.arg("step", "DX")
	g.arg("n", "CX")
	g.bcast("zero", 13)
	g.bcast("lo", 11)
	g.bcast("hi", 12)
	body := func() {
		g.op("VCVTDQ2PS", "(SI)", 0)
		g.op("VMULPS", 10, 0, 0)
		g.narrow("(DI)")
		g.e("ADDQ $%d, SI", i.width*4)
		g.e("ADDQ $%d, DI", i.width)
		g.e("SUBQ $%d, CX", i.width)
	}
	g.op("VBROADCASTSS", "(BX)", 10)
	g.e("TESTQ DX, DX")
	g.e("JZ one")
	g.label("loop")
	g.op("VMOVUPS", "(BX)", 10)
	g.e("ADDQ $%d, BX", i.width*4)
	body()
	g.e("JNZ loop")
	g.e("JMP done")
	g.label("one")
	body()
	g.e("JNZ one")
	g.label("done")
	g.e("VZEROUPPER")
	g.e("RET")
}

// addBytes writes the kernel for clip(round(a·sa + (b·sb + c)) + zero), with fused multiply-add; n
// is a multiple of the vector length. flip is 128 for int8, otherwise 0.
func addBytes(f *file, i isa) {
	const sa, sb, c, b = 8, 9, 5, 4
	g := combineArgs(f, i, "addBytes", []arg{{"flip", "int32"}, {"sa", "float32"}, {"sb", "float32"}, {"c", "float32"}},
		map[string]int{"flip": 7, "sa": sa, "sb": sb, "c": c})
	g.e("CMPL flip+%d(FP), $0", g.off["flip"])
	g.e("JNE signed")
	for _, name := range []string{"unsigned", "signed"} {
		widen := map[string]string{"unsigned": "VPMOVZXBD", "signed": "VPMOVSXBD"}[name]
		g.label(name)
		g.combineLoops(name, func(u int) {
			g.op(widen, fmt.Sprintf("%d(SI)", u*i.width), u)
			g.op(widen, fmt.Sprintf("%d(BX)", u*i.width), b)
			g.op("VCVTDQ2PS", u, u)
			g.op("VCVTDQ2PS", b, b)
			g.op("VFMADD213PS", c, sb, b)
			g.op("VFMADD213PS", b, sa, u)
		})
	}
}

// mulBytes writes the kernel for clip(round((a-za)·(b-zb)·sa + sb) + zero); n is a multiple of the
// vector length. flip is 128 for int8, whose zero points are then increased by 128, and otherwise
// 0.
func mulBytes(f *file, i isa) {
	g := combineArgs(f, i, "mulBytes",
		[]arg{{"za", "int32"}, {"zb", "int32"}, {"flip", "int32"}, {"sa", "float32"}, {"sb", "float32"}},
		map[string]int{"za": 5, "zb": 6, "flip": 7, "sa": 8, "sb": 9})
	xor := "VPXOR"
	if i.width == 16 {
		xor = "VPXORD"
	}
	// A byte in the low bits of 2²³ is the float32 2²³ plus the byte.
	const magic = 1 << 23
	for _, r := range []int{5, 6} {
		g.op("VCVTDQ2PS", r, r)
		g.op("VADDPS", float64(magic), r, r)
	}
	g.op(xor, float64(magic), 7, 10)
	g.combineLoops("", func(u int) {
		g.op("VPMOVZXBD", fmt.Sprintf("%d(SI)", u*i.width), u)
		g.op("VPMOVZXBD", fmt.Sprintf("%d(BX)", u*i.width), 4)
		for k, r := range []int{u, 4} {
			g.op(xor, 10, r, r)
			g.op("VSUBPS", 5+k, r, r)
		}
		g.op("VMULPS", 4, u, u)
		g.op("VMULPS", 8, u, u)
		g.op("VADDPS", 9, u, u)
	})
}

// combineArgs begins a kernel that combines bytes a and b, and loads its arguments, those of
// special into the given registers.
func combineArgs(f *file, i isa, name string, special []arg, at map[string]int) *fn {
	args := append([]arg{{"dst", "*uint8"}, {"a", "*uint8"}, {"b", "*uint8"}, {"n", "int"}}, special...)
	g := f.function(name+i.name, i, append(args, arg{"zero", "float32"}, arg{"lo", "float32"}, arg{"hi", "float32"}),
		nil)
	for k, reg := range []string{"DI", "SI", "BX", "CX"} {
		g.arg(args[k].name, reg)
	}
	for _, a := range special {
		g.bcast(a.name, at[a.name])
	}
	g.bcast("zero", 13)
	g.bcast("lo", 11)
	g.bcast("hi", 12)
	return g
}

// combineLoops writes the loops of a kernel and its end; combine computes vector u in register u,
// and may use register 4. The labels begin with prefix.
func (g *fn) combineLoops(prefix string, combine func(u int)) {
	if g.width == 16 {
		g.combineWide(prefix, combine)
	}
	g.label(prefix + "loop")
	combine(0)
	g.narrow("(DI)")
	for _, p := range []string{"DI", "SI", "BX"} {
		g.e("ADDQ $%d, %s", g.width, p)
	}
	g.e("SUBQ $%d, CX", g.width)
	g.e("JNZ %sloop", prefix)
	g.label(prefix + "done")
	g.e("VZEROUPPER")
	g.e("RET")
}

// packedOrder returns the name of the order in which the 32-bit parts of a vector belong after two
// packing instructions, which leave part 4l+u where part 4u+l belongs.
func packedOrder(f *file) string {
	const order = "packedOrder<>"
	if !strings.Contains(f.body.String(), "GLOBL "+order) {
		fmt.Fprintf(&f.body, "\n")
		for m := 0; m < 16; m += 2 {
			at := func(m int) uint64 { return uint64(m%4*4 + m/4) }
			fmt.Fprintf(&f.body, "DATA %s+%d(SB)/8, $0x%016x\n", order, 4*m, at(m)|at(m+1)<<32)
		}
		fmt.Fprintf(&f.body, "GLOBL %s(SB), RODATA|NOPTR, $64\n", order)
	}
	return order
}

// combineWide writes the loop of combineLoops over 64 bytes, for results below 2³¹. Packing
// saturates, so that the zero point is added to int16 and no clamp is needed. Elements of int8 are
// packed as uint8 plus flip, which is in register 7.
func (g *fn) combineWide(prefix string, combine func(u int)) {
	const zero, permute, flip = 14, 15, 16
	g.e("CMPQ CX, $64")
	g.e("JLT %sloop", prefix)
	g.op("VCVTPS2DQ", 13, zero)
	g.op("VPADDD", 7, zero, zero)
	g.op("VPACKSSDW", zero, zero, zero)
	g.op("VMOVDQU32", packedOrder(g.file)+"(SB)", permute)
	g.e("MOVL flip+%d(FP), AX", g.off["flip"])
	g.e("VPBROADCASTB AX, Z%d", flip)
	g.label(prefix + "wide")
	for u := range 4 {
		combine(u)
		g.op("VCVTPS2DQ", u, u) // NaN becomes the smallest integer
	}
	for u := 0; u < 4; u += 2 {
		g.op("VPACKSSDW", u+1, u, u)
		g.op("VPADDSW", zero, u, u)
	}
	g.op("VPACKUSWB", 2, 0, 0)
	g.op("VPERMD", 0, permute, 0)
	g.op("VPXORD", flip, 0, 0)
	g.op("VMOVDQU32", 0, "(DI)")
	for _, p := range []string{"DI", "SI", "BX"} {
		g.e("ADDQ $64, %s", p)
	}
	g.e("SUBQ $64, CX")
	g.e("CMPQ CX, $64")
	g.e("JGE %swide", prefix)
	g.e("TESTQ CX, CX")
	g.e("JZ %sdone", prefix)
}

// maxWindow writes a kernel for the maxima of uint8 over windows of kh×kw with stride 1 or 2. flip
// is 128 for int8. With stride 1 there are count ranges of n windows; the ranges of the input have
// stride step.
func maxWindow(f *file) {
	for stride := 1; stride <= 2; stride++ {
		args := []arg{{"dst", "*uint8"}, {"x", "*uint8"}, {"lds", "int"}, {"kh", "int"}, {"kw", "int"}, {"n", "int"}}
		v, block := "Z", 64
		if stride == 1 {
			args = append(args, arg{"count", "int"}, arg{"step", "int"})
		} else {
			v, block = "Y", 32
		}
		g := f.function(fmt.Sprintf("maxWindow%dAVX512", stride), avx512, append(args, arg{"flip", "uint32"}), nil)
		for _, p := range [][2]string{{"dst", "DI"}, {"x", "SI"}, {"lds", "R8"}, {"kh", "R9"},
			{"kw", "R10"}, {"n", "CX"}} {
			g.arg(p[0], p[1])
		}
		g.e("MOVL flip+%d(FP), AX", g.off["flip"])
		g.e("VPBROADCASTB AX, %s7", v)
		if stride == 1 {
			g.arg("count", "DX")
			g.e("MOVQ SI, R15")
			g.label("range")
		}
		g.label("block")
		g.e("MOVQ $-1, AX")
		g.e("CMPQ CX, $%d", block)
		g.e("JGE full")
		g.e("MOVL $1, AX")
		g.e("SHLQ CX, AX")
		g.e("DECQ AX")
		g.label("full")
		g.e("KMOVQ AX, K1")
		g.e("VPXORD %[1]s0, %[1]s0, %[1]s0", v)
		g.e("MOVQ SI, R11")
		g.e("MOVQ R9, R12")
		g.label("row")
		g.e("MOVQ R11, R13")
		g.e("MOVQ R10, BX")
		g.label("tap")
		if stride == 1 {
			g.e("VMOVDQU8.Z (R13), K1, Z1")
		} else {
			g.e("VMOVDQU16.Z (R13), K1, Z1")
			g.e("VPMOVWB Z1, Y1")
		}
		g.e("VPXORD %[1]s7, %[1]s1, %[1]s1", v)
		g.e("VPMAXUB %[1]s1, %[1]s0, %[1]s0", v)
		g.e("INCQ R13")
		g.e("DECQ BX")
		g.e("JNZ tap")
		g.e("ADDQ R8, R11")
		g.e("DECQ R12")
		g.e("JNZ row")
		g.e("VPXORD %[1]s7, %[1]s0, %[1]s0", v)
		g.e("VMOVDQU8 %s0, K1, (DI)", v)
		g.e("ADDQ $%d, DI", block)
		g.e("ADDQ $%d, SI", block*stride)
		g.e("SUBQ $%d, CX", block)
		g.e("JG block")
		if stride == 1 {
			g.e("ADDQ CX, DI") // the elements beyond the range, negative
			g.arg("n", "CX")
			g.e("ADDQ step+%d(FP), R15", g.off["step"])
			g.e("MOVQ R15, SI")
			g.e("DECQ DX")
			g.e("JNZ range")
		}
		g.e("VZEROUPPER")
		g.e("RET")
	}
}
