package main

import (
	"fmt"
	"strings"
)

// conversion widens or narrows elements. It processes whole vectors, and the tail in a copy in Go,
// because AVX2 has no masked moves for narrow types.
type conversion struct {
	name     string
	src, dst string // Go types
	body     func(g *fn, src, dst string)
	only     string // name of the AVX-512 kernel, if only AVX-512 has the instructions
	amd64    bool   // not supported with NEON
}

var typeSize = map[string]int{"float64": 8, "int64": 8, "float32": 4, "int32": 4, "uint16": 2, "int16": 2, "int8": 1,
	"uint8": 1, "bool": 1, "uint32": 4, "uint64": 8}

// those returns the instruction sets among is that support the conversion.
func (k *conversion) those(is []isa) (r []isa) {
	for _, i := range is {
		if k.only == "" || k.only == i.name {
			r = append(r, i)
		}
	}
	return r
}

func (k *conversion) emit(f *file, i isa) {
	if len(k.those([]isa{i})) == 0 {
		return
	}
	g := f.function(k.name+i.name, i, []arg{{"dst", "*" + k.dst}, {"x", "*" + k.src}, {"n", "int"}}, nil)
	g.arg("dst", "DI")
	g.arg("x", "SI")
	g.arg("n", "CX")
	ss, ds := typeSize[k.src]*i.width, typeSize[k.dst]*i.width
	g.label("loop")
	k.body(g, "(SI)", "(DI)")
	g.e("ADDQ $%d, SI", ss)
	g.e("ADDQ $%d, DI", ds)
	g.e("SUBQ $%d, CX", i.width)
	g.e("JNZ loop")
	g.e("VZEROUPPER")
	g.e("RET")
}

func (k *conversion) neon() bool { return !k.amd64 }

func (k *conversion) dispatch(isas []isa) string {
	var o strings.Builder
	fmt.Fprintf(&o, "\nfunc %s(l cpu.Level, dst []%s, x []%s) {\n\tx = x[:len(dst)]\n", k.name, k.dst, k.src)
	loopOfWhole(&o, isas, k.only, 1, k.name, []string{"dst", "x"})
	fmt.Fprintf(&o, "\t%sGeneric(dst, x)\n}\n", k.name)
	return o.String()
}

func (k *conversion) noasm() string {
	return fmt.Sprintf("\nfunc %s(_ cpu.Level, dst []%s, x []%s) { %sGeneric(dst, x) }\n", k.name, k.dst, k.src, k.name)
}

// widenToFloat converts narrow integers to float32; op extends them to 32 bits.
func widenToFloat(op string) func(g *fn, s, d string) {
	return func(g *fn, s, d string) {
		g.op(op, s, 0)
		g.op("VCVTDQ2PS", 0, 0)
		g.op("VMOVUPS", 0, d)
	}
}

var _ = add("convert", conversions()...)

func conversions() []*conversion {
	return append(casts(), []*conversion{
		{name: "f16ToF32", src: "uint16", dst: "float32", body: func(g *fn, s, d string) {
			g.op("VCVTPH2PS", s, 0)
			g.op("VMOVUPS", 0, d)
		}},
		{name: "f32ToF16", src: "float32", dst: "uint16", body: func(g *fn, s, d string) {
			g.op("VMOVUPS", s, 0)
			g.op("VCVTPS2PH", "$0", 0, d)
		}},
		{name: "bf16ToF32", src: "uint16", dst: "float32", body: func(g *fn, s, d string) {
			g.op("VPMOVZXWD", s, 0)
			g.op("VPSLLD", "$16", 0, 0)
			g.op("VMOVUPS", 0, d)
		}},
		{name: "f32ToBF16", src: "float32", dst: "uint16", body: func(g *fn, s, d string) {
			g.op("VMOVUPS", s, 0)
			g.op("VPSRLD", "$16", 0, 1)
			g.op("VMOVUPS", uint32(1), 2)
			if g.width == 16 {
				g.op("VPANDD", 1, 2, 2)
			} else {
				g.op("VPAND", 1, 2, 2)
			}
			g.op("VPADDD", uint32(0x7fff), 2, 2)
			g.op("VPADDD", 0, 2, 2)
			g.op("VPSRLD", "$16", 2, 2)
			if g.width == 16 {
				g.op("VPORD", uint32(0x40), 1, 1)
			} else {
				g.op("VPOR", uint32(0x40), 1, 1)
			}
			g.sel(uno, 0, 0, 1, 2, 0)
			switch g.width {
			case 16:
				g.op("VPMOVDW", 0, d)
				return
			case 4:
				g.narrowNEON("xtn", 0)
				g.raw("FMOVD F0, %s", g.memory(d))
				return
			}
			g.e("VEXTRACTI128 $1, Y0, X1")
			g.e("VPACKUSDW X1, X0, %s", "X0")
			g.e("VMOVDQU X0, %s", d)
		}},
		{name: "i8ToF32", src: "int8", dst: "float32", body: widenToFloat("VPMOVSXBD")},
		{name: "u8ToF32", src: "uint8", dst: "float32", body: widenToFloat("VPMOVZXBD")},
		{name: "f32ToI32", src: "float32", dst: "int32", body: func(g *fn, s, d string) {
			if g.neon() {
				g.truncateNEON(s)
			} else {
				g.op("VCVTTPS2DQ", s, 0)
			}
			g.op("VMOVUPS", 0, d)
		}},
		{name: "i32ToF32", src: "int32", dst: "float32", body: func(g *fn, s, d string) {
			g.op("VCVTDQ2PS", s, 0)
			g.op("VMOVUPS", 0, d)
		}},
	}...)
}
