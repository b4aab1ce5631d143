package main

import "fmt"

// twist is the recurrence of the Mersenne Twister MT19937:
//
//	dst[i] = m[i] ^ (s[i]&0x80000000|next[i]&0x7fffffff)>>1 ^ next[i]&1*0x9908b0df
func twist() *choice {
	return &choice{name: "twistU32", args: [][2]string{{"dst", "uint32"}, {"s", "uint32"}, {"next", "uint32"},
		{"m", "uint32"}}, amd64: true, body: func(g *fn) {
		and, xor, or := "VPAND"+g.suffix("D"), "VPXOR"+g.suffix("D"), "VPOR"+g.suffix("D")
		g.op("VMOVUPS", "(SI)", 0)
		g.op("VMOVUPS", "(DX)", 1)
		g.op("VPSLLD", "$31", 1, 2)
		g.op("VPSRAD", "$31", 2, 2)
		g.op(and, uint32(0x9908b0df), 2, 2)
		g.op(and, uint32(0x80000000), 0, 0)
		g.op(and, uint32(0x7fffffff), 1, 1)
		g.op(or, 1, 0, 0)
		g.op("VPSRLD", "$1", 0, 0)
		g.op(xor, 2, 0, 0)
		g.op(xor, "(BX)", 0, 0)
		g.op("VMOVUPS", 0, "(DI)")
	}}
}

var _ = add("doubles", uniform{})

// uniform tempers words of MT19937 and makes a float64 of each pair, with 27 and 26 of their bits.
type uniform struct{}

func (uniform) emit(f *file, i isa) {
	g := f.function("uniformsF64"+i.name, i, []arg{{"dst", "*float64"}, {"words", "*uint32"}, {"n", "int"}}, nil)
	and, xor, or := "VPAND"+g.suffix("D"), "VPXOR"+g.suffix("D"), "VPOR"+g.suffix("Q")
	const magic, high, low = 8, 9, 10 // 2⁵², 2⁻²⁷ and 2⁻⁵³ as float64
	g.arg("dst", "DI")
	g.arg("words", "SI")
	g.arg("n", "CX")
	for _, c := range []struct {
		r    int
		bits uint32
	}{{magic, 0x43300000}, {high, 0x3e400000}, {low, 0x3ca00000}} {
		g.op("VMOVUPS", c.bits, c.r)
		g.op("VPSLLQ", "$32", c.r, c.r)
	}
	g.label("loop")
	g.op("VMOVUPS", "(SI)", 0)
	g.op("VPSRLD", "$11", 0, 1)
	g.op(xor, 1, 0, 0)
	for _, s := range []struct {
		by   string
		mask uint32
	}{{"$7", 0x9d2c5680}, {"$15", 0xefc60000}} {
		g.op("VPSLLD", s.by, 0, 1)
		g.op(and, s.mask, 1, 1)
		g.op(xor, 1, 0, 0)
	}
	g.op("VPSRLD", "$18", 0, 1)
	g.op(xor, 1, 0, 0)
	// The bits of an integer n < 2⁵² in a float64 with exponent 52 are those of 2⁵²+n.
	g.op("VPSLLQ", "$32", 0, 1)
	g.op("VPSRLQ", "$37", 1, 1)
	g.op("VPSRLQ", "$38", 0, 2)
	for _, r := range []int{1, 2} {
		g.op(or, magic, r, r)
		g.op("VSUBPD", magic, r, r)
	}
	g.op("VMULPD", high, 1, 1)
	g.op("VFMADD231PD", low, 2, 1)
	g.op("VMOVUPS", 1, "(DI)")
	g.e("ADDQ $%d, SI", 4*i.width)
	g.e("ADDQ $%d, DI", 4*i.width)
	g.e("SUBQ $%d, CX", i.width/2)
	g.e("JNZ loop")
	g.e("VZEROUPPER")
	g.e("RET")
}

const uniformsF64 = "\nfunc uniformsF64(%s cpu.Level, dst []float64, words []uint32) {"

func (uniform) dispatch(isas []isa) string {
	o := fmt.Sprintf(uniformsF64, "l") + "\n\twords = words[:2*len(dst)]\n\tswitch l {\n"
	for _, i := range isas {
		o += fmt.Sprintf(`	case cpu.%s:
		for len(dst) >= %d {
			n := min(len(dst)&^%d, chunk)
			uniformsF64%s(&dst[0], &words[0], n)
			dst, words = dst[n:], words[2*n:]
		}
`, i.level, i.width/2, i.width/2-1, i.name)
	}
	return o + "\t}\n\tuniformsF64Generic(dst, words)\n}\n"
}

func (uniform) noasm() string {
	return fmt.Sprintf(uniformsF64, "_") + " uniformsF64Generic(dst, words) }\n"
}

func (uniform) neon() bool { return false }
