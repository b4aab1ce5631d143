package main

import "fmt"

// transpose writes the kernel that transposes n adjacent square blocks. From block to block, src
// advances by the block's width to the right and dst by its height down. Strides are in bytes.
func transpose(f *file, i isa) {
	g := f.function("transposeF32"+i.name, i,
		[]arg{{"dst", "*float32"}, {"src", "*float32"}, {"ldd", "int"}, {"lds", "int"}, {"n", "int"}}, nil)
	g.arg("dst", "DI")
	g.arg("src", "SI")
	g.arg("ldd", "R8")
	g.arg("lds", "R9")
	g.arg("n", "CX")
	g.e("LEAQ (R8)(R8*2), R10")
	g.e("LEAQ (R9)(R9*2), R11")
	row := func(base string, stride, triple string, r int) string {
		return [...]string{"(" + base + ")", "(" + base + ")(" + stride + "*1)", "(" + base + ")(" + stride + "*2)",
			"(" + base + ")(" + triple + "*1)"}[r]
	}
	w := i.width
	g.label("block")
	g.e("MOVQ SI, AX")
	g.e("MOVQ DI, BX")
	for r := range w {
		g.op("VMOVUPS", row("AX", "R9", "R11", r%4), r)
		if r%4 == 3 && r < w-1 {
			g.e("LEAQ (AX)(R9*4), AX")
		}
	}
	// Transpose 4×4 within each 128-bit lane, then move the lanes.
	half := w // registers from w on hold intermediate values
	in := func(q, k int) int { return q*4 + k }
	for q := range w / 4 {
		a, b, c, d := in(q, 0), in(q, 1), in(q, 2), in(q, 3)
		g.op("VUNPCKLPS", b, a, half)
		g.op("VUNPCKHPS", b, a, half+1)
		g.op("VUNPCKLPS", d, c, half+2)
		g.op("VUNPCKHPS", d, c, half+3)
		g.op("VUNPCKLPD", half+2, half, a)
		g.op("VUNPCKHPD", half+2, half, b)
		g.op("VUNPCKLPD", half+3, half+1, c)
		g.op("VUNPCKHPD", half+3, half+1, d)
	}
	// in(q, k) holds column 4m+k of rows 4q to 4q+3 in lane m.
	res := make([]int, w)
	for k := range 4 {
		if w == 4 {
			res[k] = in(0, k)
			continue
		}
		g.op("VPERM2F128", "$0x20", in(1, k), in(0, k), 8+k)
		g.op("VPERM2F128", "$0x31", in(1, k), in(0, k), 12+k)
		res[k], res[4+k] = 8+k, 12+k
	}
	for j := range w {
		g.op("VMOVUPS", res[j], row("BX", "R8", "R10", j%4))
		if j%4 == 3 {
			g.e("LEAQ (BX)(R8*4), BX")
		}
	}
	g.e("MOVQ BX, DI")
	g.e("ADDQ $%d, SI", w*4)
	g.e("DECQ CX")
	g.e("JNZ block")
	g.e("VZEROUPPER")
	g.e("RET")
}

var _ = register("vec", writeTranspose)

func writeTranspose(dir string) {
	writeTransposeFor(dir, "amd64", isas)
	writeTransposeFor(dir, "arm64", []isa{neon})
}

func writeTransposeFor(dir, arch string, isas []isa) {
	f := newFile("transpose")
	for _, i := range isas {
		if i.width < 16 {
			transpose(f, i)
		}
	}
	if arch == "amd64" {
		for _, size := range []int{1, 2, 4, 8} {
			transposeWide(f, size, false)
			transposeWide(f, size, true)
		}
		twoChannels(f)
		threeChannels(f)
	}
	f.write(dir, "vec", "")
}

// twoChannels writes a kernel that splits n times 16 pairs of 32 bits into two rows of stride ldd
// in bytes.
func twoChannels(f *file) {
	for o := range 2 {
		name := fmt.Sprintf("pair%d<>", o)
		f.body.WriteByte('\n')
		for i := range 16 {
			fmt.Fprintf(&f.body, "DATA %s+%d(SB)/4, $%d\n", name, 4*i, 2*i+o)
		}
		fmt.Fprintf(&f.body, "GLOBL %s(SB), RODATA|NOPTR, $64\n", name)
	}
	g := f.function("twoChannelsAVX512", avx512,
		[]arg{{"dst", "*byte"}, {"src", "*byte"}, {"ldd", "int"}, {"n", "int"}}, nil)
	g.arg("dst", "DI")
	g.arg("src", "SI")
	g.arg("ldd", "R8")
	g.arg("n", "CX")
	for o := range 2 {
		g.e("VMOVDQU32 pair%d<>(SB), Z%d", o, 4+o)
	}
	g.label("block")
	g.e("VMOVDQU32 (SI), Z0")
	g.e("VMOVDQU32 64(SI), Z1")
	for o, m := range []string{"(DI)", "(DI)(R8*1)"} {
		g.e("VMOVDQA32 Z%d, Z%d", 4+o, 2+o)
		g.e("VPERMI2D Z1, Z0, Z%d", 2+o)
		g.e("VMOVDQU32 Z%d, %s", 2+o, m)
	}
	g.e("ADDQ $128, SI")
	g.e("ADDQ $64, DI")
	g.e("DECQ CX")
	g.e("JNZ block")
	g.e("VZEROUPPER")
	g.e("RET")
}

// threeChannels writes a kernel that splits n times 16 pixels of three bytes into planes of stride
// ldd in bytes: every third byte of 48 goes to the same plane.
func threeChannels(f *file) {
	const channels = 3
	for o := range channels {
		for r := range channels {
			var v [2]uint64
			for i := range 16 {
				b := uint64(0x80) // becomes 0
				if p := channels*i + o; p/16 == r {
					b = uint64(p % 16)
				}
				v[i/8] |= b << (8 * (i % 8))
			}
			name := fmt.Sprintf("channel%d%d<>", o, r)
			fmt.Fprintf(&f.body, "\nDATA %s+0(SB)/8, $0x%016x\nDATA %s+8(SB)/8, $0x%016x\n"+
				"GLOBL %s(SB), RODATA|NOPTR, $16\n", name, v[0], name, v[1], name)
		}
	}
	g := f.function("threeChannelsAVX512", avx512,
		[]arg{{"dst", "*byte"}, {"src", "*byte"}, {"ldd", "int"}, {"n", "int"}}, nil)
	g.arg("dst", "DI")
	g.arg("src", "SI")
	g.arg("ldd", "R8")
	g.arg("n", "CX")
	for o := range channels {
		for r := range channels {
			g.e("VMOVDQU32 channel%d%d<>(SB), X%d", o, r, 4+channels*o+r)
		}
	}
	g.label("block")
	for r := range channels {
		g.e("VMOVDQU32 %d(SI), X%d", 16*r, r)
	}
	for o, m := range []string{"(DI)", "(DI)(R8*1)", "(DI)(R8*2)"} {
		for r := range channels {
			g.e("VPSHUFB X%d, X%d, X%d", 4+channels*o+r, r, 13+r)
		}
		g.e("VPTERNLOGD $0xfe, X15, X14, X13") // or
		g.e("VMOVDQU32 X13, %s", m)
	}
	g.e("ADDQ $48, SI")
	g.e("ADDQ $16, DI")
	g.e("DECQ CX")
	g.e("JNZ block")
	g.e("VZEROUPPER")
	g.e("RET")
}
