package main

import (
	"fmt"
	"math"
)

var _ = add("integers", lookup{})

// lookup maps bytes with a table of 256 entries.
type lookup struct{}

func (lookup) emit(f *file, i isa) {
	g := f.function("mapU8"+i.name, i, []arg{{"dst", "*uint8"}, {"x", "*uint8"}, {"n", "int"}, {"table", "*uint8"}},
		nil)
	g.arg("dst", "DI")
	g.arg("x", "SI")
	g.arg("n", "CX")
	g.arg("table", "DX")
	prepare := g.mapRows
	if g.width == 16 {
		prepare = g.mapHalves
	}
	body := prepare()
	g.label("loop")
	body()
	g.e("ADDQ $%d, SI", 4*g.width)
	g.e("ADDQ $%d, DI", 4*g.width)
	g.e("SUBQ $%d, CX", 4*g.width)
	g.e("JNZ loop")
	g.e("VZEROUPPER")
	g.e("RET")
}

// mapHalves looks up in each half of the table with a VPERMI2B, an instruction of AVX512_VBMI.
func (g *fn) mapHalves() func() {
	for r := range 4 {
		g.op("VMOVDQU8", fmt.Sprintf("%d(DX)", 64*r), 4+r)
	}
	return func() {
		g.op("VMOVDQU8", "(SI)", 0)
		g.e("VPMOVB2M Z0, K1")
		g.op("VMOVDQA32", 0, 1)
		g.op("VPERMI2B", 5, 4, 0)
		g.op("VPERMI2B", 7, 6, 1)
		g.e("VMOVDQU8 Z1, K1, Z0")
		g.op("VMOVDQU8", 0, "(DI)")
	}
}

// mapRows looks up in 16 rows with a VPSHUFB each. Rows of one half of the table hold the
// difference (XOR) from the row before, so that an index adds up the rows up to its own: below a
// row it is negative, for which VPSHUFB gives 0.
func (g *fn) mapRows() func() {
	g.op("VMOVDQU", g.ci(0x10101010), 5)
	g.op("VMOVDQU", g.ci(0x80808080), 6)
	return func() {
		g.op("VMOVDQU", "(SI)", 0)
		g.op("VPXOR", 6, 0, 1)
		for r := range 8 {
			for half := range 2 {
				row, sum, part := 7, 2+half, 4
				g.e("VBROADCASTI128 %d(DX), Y7", 16*(8*half+r))
				if r == 0 {
					g.op("VPSHUFB", half, row, sum)
				} else {
					g.op("VPSUBSB", 5, half, half)
					g.op("VPSHUFB", half, row, part)
					g.op("VPXOR", part, sum, sum)
				}
			}
		}
		g.op("VPXOR", 3, 2, 2)
		g.op("VMOVDQU", 2, "(DI)")
	}
}

// suffix returns the suffix of an instruction of AVX-512, "" for AVX2.
func (g *fn) suffix(s string) string {
	if g.width == 16 {
		return s
	}
	return ""
}

const mapU8 = "\nfunc mapU8(%s cpu.Level, dst, x []uint8, t *[256]uint8) {"

func (lookup) dispatch([]isa) string {
	return fmt.Sprintf(mapU8, "l") + `
	x = x[:len(dst)]
	switch {
	case len(dst) < 64:
	case cpu.VBMI(l):
		for len(dst) >= 64 {
			n := min(len(dst)&^63, chunk)
			mapU8AVX512(&dst[0], &x[0], n, &t[0])
			dst, x = dst[n:], x[n:]
		}
	case l == cpu.AVX512 || l == cpu.AVX2:
		rows := rowSteps(t)
		for len(dst) >= 32 {
			n := min(len(dst)&^31, chunk)
			mapU8AVX2(&dst[0], &x[0], n, &rows[0])
			dst, x = dst[n:], x[n:]
		}
	}
	mapU8Generic(dst, x, t)
}
`
}

func (lookup) noasm() string { return fmt.Sprintf(mapU8, "_") + " mapU8Generic(dst, x, t) }\n" }

func (lookup) neon() bool { return false }

var _ = add("integers", integers()...)

// integers lists kernels of integers.
func integers() []*choice {
	return []*choice{twist(),
		{name: "absI32", args: [][2]string{{"dst", "int32"}, {"x", "int32"}}, amd64: true, body: func(g *fn) {
			g.op("VPABSD", "(SI)", 0)
			g.op("VMOVUPS", 0, "(DI)")
		}},
		{name: "absI64", args: [][2]string{{"dst", "int64"}, {"x", "int64"}}, amd64: true, only: "AVX512",
			body: func(g *fn) {
				for at := range 2 {
					g.op("VPABSQ", offset(at*64, "(SI)"), 0)
					g.op("VMOVUPS", 0, offset(at*64, "(DI)"))
				}
			}},
		{name: "orderF32", args: [][2]string{{"dst", "uint32"}, {"x", "float32"}}, amd64: true, body: func(g *fn) {
			g.op("VMOVUPS", "(SI)", 0)
			g.op("VPSRAD", "$31", 0, 1)
			g.op("VPOR"+g.suffix("D"), uint32(1<<31), 1, 1)
			g.op("VPXOR"+g.suffix("D"), 1, 0, 0)
			g.op("VPADDD", uint32(0xff800001), 0, 0)
			g.e("VPMINUD %s, %s, %s", g.ci(0xff000002), g.r(0), g.r(0))
			g.op("VPADDD", uint32(1), 0, 0)
			g.op("VMOVUPS", 0, "(DI)")
		}},
		{name: "signI32", args: [][2]string{{"dst", "int32"}, {"x", "int32"}}, amd64: true, body: func(g *fn) {
			g.op("VMOVUPS", "(SI)", 0)
			g.e("VPMINSD %s, %s, %s", g.ci(1), g.r(0), g.r(0))
			g.e("VPMAXSD %s, %s, %s", g.ci(0xffffffff), g.r(0), g.r(0))
			g.op("VMOVUPS", 0, "(DI)")
		}},
		{name: "sqrtF64", args: [][2]string{{"dst", "float64"}, {"x", "float64"}}, amd64: true, body: func(g *fn) {
			for v := range 2 {
				at := v * g.width * 4
				g.op("VSQRTPD", offset(at, "(SI)"), 0)
				g.op("VMOVUPS", 0, offset(at, "(DI)"))
			}
		}},
		{name: "absF64", args: [][2]string{{"dst", "float64"}, {"x", "float64"}}, amd64: true, body: func(g *fn) {
			for v := range 2 {
				at := v * g.width * 4
				g.op("VMOVUPD", g.c64(math.MaxInt64), 0)
				g.op("VANDPD", offset(at, "(SI)"), 0, 0)
				g.op("VMOVUPD", 0, offset(at, "(DI)"))
			}
		}},
		signs("F64", "D", 8, func(g *fn) string { return g.c64(1 << 63) },
			func(g *fn) string { return g.c64(math.Float64bits(1)) }),
		signs("F32", "S", 4, func(g *fn) string { return g.ci(1 << 31) },
			func(g *fn) string { return g.ci(math.Float32bits(1)) }),
		// Quotients of float64 truncate to those of integers: one that is not an integer differs
		// from the nearest one by more than the rounding.
		{name: "divI32", args: [][2]string{{"dst", "int32"}, {"a", "int32"}, {"b", "int32"}},
			amd64: true, body: func(g *fn) {
				for v := range 2 {
					at := v * 2 * g.width
					g.op("VCVTDQ2PD", offset(at, "(SI)"), 0)
					g.op("VCVTDQ2PD", offset(at, "(DX)"), 1)
					g.op("VDIVPD", 1, 0, 0)
					if g.width == 16 {
						g.e("VCVTTPD2DQ Z0, Y0")
						g.e("VMOVUPS Y0, %s", offset(at, "(DI)"))
					} else {
						g.e("VCVTTPD2DQY Y0, X0")
						g.e("VMOVUPS X0, %s", offset(at, "(DI)"))
					}
				}
			}},
		halfTest("infiniteF16", "VPCMPEQW"),
		halfTest("nanF16", "VPCMPGTW"),
		{name: "signF16", args: [][2]string{{"dst", "uint16"}, {"x", "uint16"}}, amd64: true, body: func(g *fn) {
			// ±1 replaces the elements whose magnitude is from 1 to 0x7c00.
			r := "X"
			if g.width == 16 {
				r = "Y"
			}
			g.e("VMOVUPS (SI), %s0", r)
			g.e("VPAND %s, %s0, %s1", g.ci(0x7fff7fff), r, r)
			g.e("VPXOR %s1, %s0, %s2", r, r, r)
			g.e("VPOR %s, %s2, %s2", g.ci(0x3c003c00), r, r)
			g.e("VPXOR %s3, %s3, %s3", r, r, r)
			g.e("VPCMPGTW %s3, %s1, %s3", r, r, r)
			g.e("VPCMPGTW %s, %s1, %s1", g.ci(0x7c007c00), r, r)
			g.e("VPANDN %s3, %s1, %s1", r, r, r)
			g.e("VPBLENDVB %s1, %s2, %s0, %s0", r, r, r, r)
			g.e("VMOVUPS %s0, (DI)", r)
		}},
	}
}

// halfTest returns a kernel that compares the magnitudes of float16 elements with infinity.
func halfTest(name, compare string) *choice {
	return &choice{name: name, args: [][2]string{{"dst", "bool"}, {"x", "uint16"}}, amd64: true, body: func(g *fn) {
		if g.width == 16 {
			g.e("VMOVUPS (SI), Y0")
			g.e("VPAND %s, Y0, Y0", g.ci(0x7fff7fff))
			g.e("%s %s, Y0, K1", compare, g.ci(0x7c007c00))
			g.storeTruth("(DI)", false)
			return
		}
		g.e("VMOVUPS (SI), X0")
		g.e("VPAND %s, X0, X0", g.ci(0x7fff7fff))
		g.e("%s %s, X0, X0", compare, g.ci(0x7c007c00))
		g.e("VPACKSSWB X0, X0, X0")
		g.e("VPAND %s, X0, X0", g.ci(0x01010101))
		g.e("VMOVQ X0, (DI)")
	}}
}

// signs returns the kernel of Sign for floating-point elements: ±1 replaces those that are not 0
// and not NaN.
func signs(name, letter string, size int, sign, one func(g *fn) string) *choice {
	typ := fmt.Sprintf("float%d", 8*size)
	return &choice{name: "sign" + name, args: [][2]string{{"dst", typ}, {"x", typ}}, amd64: true, body: func(g *fn) {
		for v := range size / 4 {
			at := v * g.width * 4
			g.op("VMOVUPS", offset(at, "(SI)"), 0)
			g.op("VANDP"+letter, sign(g), 0, 1)
			g.op("VORP"+letter, one(g), 1, 1)
			g.op("VXORPS", 2, 2, 2)
			if g.width == 16 {
				g.op("VCMPP"+letter, "$12", 2, 0, "K1")
				g.op("VMOVUP"+letter, 1, "K1", 0)
			} else {
				g.op("VCMPP"+letter, "$12", 2, 0, 2)
				g.op("VBLENDVP"+letter, 2, 1, 0, 0)
			}
			g.op("VMOVUPS", 0, offset(at, "(DI)"))
		}
	}}
}
