package main

import "fmt"

// cumulate adds up rows: each becomes the sum of it and the rows before. sums has the sums of the
// columns, in pieces of 32 bytes, of which the last one overlaps the one before it in the rows
// only. A row has step bytes, at least 32.
type cumulate struct{ typ, add string }

var _ = add("doubles", cumulates()...)

func cumulates() []cumulate {
	return []cumulate{{"F32", "VADDPS"}, {"F64", "VADDPD"}, {"I32", "VPADDD"}, {"I64", "VPADDQ"}}
}

func (k cumulate) emit(f *file, i isa) {
	if i != avx2 {
		return
	}
	g := f.function("cumulate"+k.typ+i.name, i,
		[]arg{{"dst", "*byte"}, {"src", "*byte"}, {"sums", "*byte"}, {"step", "int"}, {"rows", "int"}}, nil)
	for _, p := range [][2]string{{"dst", "DI"}, {"src", "SI"}, {"sums", "BX"}, {"step", "R8"}, {"rows", "CX"}} {
		g.arg(p[0], p[1])
	}
	g.e("LEAQ -32(R8), R9")
	g.label("row")
	g.e("XORL AX, AX")
	g.e("MOVQ BX, DX")
	g.label("piece")
	g.e("VMOVUPS (DX), Y0")
	g.e("%s (SI)(AX*1), Y0, Y0", k.add)
	g.e("VMOVUPS Y0, (DX)")
	g.e("VMOVUPS Y0, (DI)(AX*1)")
	g.e("ADDQ $32, DX")
	g.e("CMPQ AX, R9")
	g.e("JGE next")
	g.e("ADDQ $32, AX")
	g.e("CMPQ AX, R9")
	g.e("CMOVQGT R9, AX")
	g.e("JMP piece")
	g.label("next")
	g.e("ADDQ R8, SI")
	g.e("ADDQ R8, DI")
	g.e("DECQ CX")
	g.e("JNZ row")
	g.e("VZEROUPPER")
	g.e("RET")
}

func (k cumulate) dispatch([]isa) string {
	return fmt.Sprintf(
		"\nfunc cumulate%s(dst, src, sums *byte, step, rows int) { cumulate%[1]sAVX2(dst, src, sums, step, rows) }\n",
		k.typ)
}

func (cumulate) neon() bool { return false }

func (k cumulate) noasm() string {
	return fmt.Sprintf("\nfunc cumulate%s(_, _, _ *byte, _, _ int) {}\n", k.typ)
}
