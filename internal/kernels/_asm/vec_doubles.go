package main

import "math"

// opd emits an instruction for float64 lanes; a float64 operand is a constant in every lane.
func (g *fn) opd(name string, operands ...any) {
	for i, o := range operands {
		if v, ok := o.(float64); ok {
			operands[i] = g.c64(math.Float64bits(v))
		}
	}
	g.op(name, operands...)
}

// hornerDoubles sets p to the polynomial with coefficients c (lowest first) of register x.
func (g *fn) hornerDoubles(c []float64, x, p int) {
	g.opd("VMOVUPD", c[len(c)-1], p)
	for i := len(c) - 2; i >= 0; i-- {
		g.opd("VFMADD213PD", c[i], x, p)
	}
}

// expSeries returns the coefficients of exp(scale·x) up to the given degree.
func expSeries(scale float64, degree int) []float64 {
	c := []float64{1}
	for i := 1; i <= degree; i++ {
		c = append(c, c[i-1]*scale/float64(i))
	}
	return c
}

// expOf sets n to an integer and p so that exp(x) is p·2ⁿ. It changes x.
func (g *fn) expOf(x, n, p int) {
	g.opd("VMULPD", math.Log2E, x, n)
	g.op("VRNDSCALEPD", "$0", n, n)
	g.opd("VFNMADD231PD", 6.93147180369123816490e-01, n, x) // exact: this part of ln 2 has trailing zeros
	g.opd("VFNMADD231PD", 1.90821492927058770002e-10, n, x)
	g.hornerDoubles(expSeries(1, 13)[2:], x, p)
	g.op("VMULPD", x, p, p)
	g.op("VFMADD213PD", x, x, p)
	g.opd("VADDPD", 1., p, p)
}

// sineDoubles is a kernel for sin(x + quarters·π/2) with the method of quarterWave.
func sineDoubles(name string, quarters uint64) *choice {
	return &choice{name: name, args: [][2]string{{"dst", "float64"}, {"x", "float64"}}, only: avx512.name,
		amd64: true, body: func(g *fn) {
			const magic = 0x1.8p52 // adding it rounds to an integer
			for h := range 2 {
				z := 8 * h
				x, n, k, r, s, sin, cos, t := z, z+1, z+2, z+3, z+4, z+5, z+6, z+7
				g.op("VMOVUPD", offset(64*h, "(SI)"), x)
				g.opd("VMULPD", 2/math.Pi, x, n)
				g.opd("VADDPD", magic, n, n)
				g.opd("VSUBPD", magic, n, k)
				g.op("VMOVUPD", x, r)
				for _, part := range []float64{2 * 7.85398125648498535156e-1, 2 * 3.77489470793079817668e-8,
					2 * 2.69515142907905952645e-15} {
					g.opd("VFNMADD231PD", part, k, r)
				}
				g.op("VMULPD", r, r, s)
				g.hornerDoubles([]float64{-1.66666666666666307295e-1, 8.33333333332211858878e-3,
					-1.98412698295895385996e-4,
					2.75573136213857245213e-6, -2.50507477628578072866e-8, 1.58962301576546568060e-10}, s, sin)
				g.op("VMULPD", s, sin, sin)
				g.op("VFMADD213PD", r, r, sin)
				g.hornerDoubles([]float64{4.16666666666665929218e-2, -1.38888888888730564116e-3,
					2.48015872888517045348e-5,
					-2.75573141792967388112e-7, 2.08757008419747316778e-9, -1.13585365213876817300e-11}, s, cos)
				g.op("VMULPD", s, cos, cos)
				g.opd("VMOVUPD", 1., t)
				g.opd("VFNMADD231PD", 0.5, s, t)
				g.op("VFMADD213PD", t, s, cos)
				if quarters == 0 { // the sum has no sign for −0
					g.op("VXORPD", t, t, t)
					g.op("VCMPPD", "$0", t, x, "K2")
					g.op("VMOVUPD", x, "K2", sin)
				} else {
					g.op("VPADDQ", g.c64(quarters), n, n)
				}
				g.op("VPTESTMQ", g.c64(1), n, "K2")
				g.op("VMOVUPD", cos, "K2", sin)
				g.op("VPSRLQ", "$1", n, n)
				g.op("VPSLLQ", "$63", n, n)
				g.op("VPXORQ", n, sin, sin)
				g.op("VMOVUPD", sin, offset(64*h, "(DI)"))
			}
		}}
}

var _ = add("doubles", doubles()...)

// doubles lists kernels that compute in float64, which take instructions of AVX-512.
func doubles() []*choice {
	return []*choice{
		{name: "expF64", args: [][2]string{{"dst", "float64"}, {"x", "float64"}}, only: avx512.name,
			amd64: true, body: func(g *fn) {
				for h := range 2 {
					x, n, p := 3*h, 3*h+1, 3*h+2
					g.op("VMOVUPD", offset(64*h, "(SI)"), x)
					// not less: the others are 0, for which VSCALEFPD takes 150 cycles
					g.opd("VCMPPD", "$5", -746., x, "K2")
					g.opd("VMOVUPD", 720., n)
					g.op("VMINPD", x, n, x) // returns x if it is NaN
					g.opd("VMOVUPD", -750., n)
					g.op("VMAXPD", x, n, x)
					g.expOf(x, n, p)
					g.op("VSCALEFPD.Z", n, p, "K2", p)
					g.op("VMOVUPD", p, offset(64*h, "(DI)"))
				}
			}},
		// tanh computes as TanhF64, of the magnitude.
		{name: "tanhF64", args: [][2]string{{"dst", "float64"}, {"x", "float64"}}, only: avx512.name,
			amd64: true, body: func(g *fn) {
				for h := range 2 {
					r := 8 * h
					x, a, t, n, e, s, p, q := r, r+1, r+2, r+3, r+4, r+5, r+6, r+7
					g.op("VMOVUPD", offset(64*h, "(SI)"), x)
					g.op("VPANDQ", g.c64(math.MaxInt64), x, a)
					g.opd("VCMPPD", "$1", 0.625, a, "K2")
					g.op("VADDPD", a, a, t)
					g.opd("VMOVUPD", 720., n)
					g.op("VMINPD", t, n, t) // returns t if it is NaN
					g.expOf(t, n, e)
					g.op("VSCALEFPD", n, e, e)
					g.op("VMULPD", x, x, s)
					g.hornerDoubles([]float64{-1.61468768441708447952e3, -9.92877231001918586564e1,
						-9.64399179425052238628e-1}, s, p)
					g.op("VMULPD", s, p, p)
					g.op("VMULPD", a, p, p)
					g.hornerDoubles([]float64{4.84406305325125486048e3, 2.23548839060100448583e3,
						1.12811678491632931402e2, 1}, s, q)
					// |tanh x| is 1 - 2/(e+1), or a + p/q.
					g.opd("VMOVUPD", 1., t)
					g.op("VADDPD", t, e, e)
					g.op("VMOVUPD", q, "K2", e)
					g.op("VMOVUPD", a, "K2", t)
					g.opd("VMOVUPD", -2., n)
					g.op("VMOVUPD", p, "K2", n)
					g.op("VDIVPD", e, n, n)
					g.op("VADDPD", n, t, t)
					g.op("VPANDQ", g.c64(1<<63), x, x)
					g.op("VPORQ", x, t, t)
					g.op("VMOVUPD", t, offset(64*h, "(DI)"))
				}
			}},
		sineDoubles("sinF64", 0), sineDoubles("cosF64", 1),
		// log computes as LogF64: the mantissa is in [√½, √2), also of subnormal numbers. Special
		// values need no care: the exponents of 0 and infinity are infinite, and a negative
		// mantissa is NaN.
		{name: "logF64", args: [][2]string{{"dst", "float64"}, {"x", "float64"}}, only: avx512.name,
			amd64: true, body: func(g *fn) {
				even := []float64{6.666666666666735130e-01, 2.857142874366239149e-01, 1.818357216161805012e-01,
					1.479819860510658591e-01}
				odd := []float64{3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01}
				for h := range 2 {
					r := 9 * h
					f, k, half, s, s2, s4, t1, t2, t := r, r+1, r+2, r+3, r+4, r+5, r+6, r+7, r+8
					g.op("VMOVUPD", offset(64*h, "(SI)"), f)
					g.op("VGETEXPPD", f, k)
					g.op("VGETMANTPD", "$12", f, f) // in [1, 2); 12: NaN if negative, but 1 for −0
					g.opd("VCMPPD", "$13", math.Sqrt2, f, "K2")
					g.opd("VMULPD", 0.5, f, "K2", f)
					g.opd("VADDPD", 1., k, "K2", k)
					g.opd("VSUBPD", 1., f, f)
					g.opd("VADDPD", 2., f, s)
					g.op("VDIVPD", s, f, s)
					g.op("VMULPD", s, s, s2)
					g.op("VMULPD", s2, s2, s4)
					g.hornerDoubles(even, s4, t1)
					g.hornerDoubles(odd, s4, t2)
					g.op("VMULPD", s4, t2, t2)
					g.op("VFMADD213PD", t2, s2, t1)
					g.opd("VMULPD", 0.5, f, half)
					g.op("VMULPD", f, half, half)
					g.op("VADDPD", half, t1, t1)
					g.opd("VMULPD", 1.90821492927058770002e-10, k, t)
					g.op("VFMADD213PD", t, s, t1) // s·(half + t1) + k·ln2Lo
					g.op("VSUBPD", t1, half, half)
					g.op("VSUBPD", f, half, half)
					g.opd("VMULPD", 6.93147180369123816490e-01, k, k)
					g.op("VSUBPD", half, k, k)
					g.op("VMOVUPD", k, offset(64*h, "(DI)"))
				}
			}},
		// pow computes exp2(y·log2|x|) with a relative error of 2⁻²⁸, then the special cases. log2
		// of a mantissa m in [¾, 1½) is 2/ln 2·artanh((m-1)/(m+1)).
		{name: "powF32", args: [][2]string{{"dst", "float32"}, {"x", "float32"}, {"y", "float32"}}, only: avx512.name,
			amd64: true, body: func(g *fn) {
				var artanh []float64
				for k := range 8 {
					artanh = append(artanh, 2/math.Ln2/float64(2*k+1))
				}
				const zero, one = 14, 15
				g.op("VXORPD", zero, zero, zero)
				g.opd("VMOVUPD", 1., one)
				for h := range 2 {
					r := 16 * h // registers of this half, but zero and one
					if h == 1 {
						r = 16
					}
					x, y, a, k, m, f, s, log, t, n, p, whole, half, halved := r, r+1, r+2, r+3, r+4, r+5, r+6, r+7, r+8,
						r+9, r+10, r+11, r+12, r+13
					g.op("VCVTPS2PD", offset(32*h, "(SI)"), x)
					g.op("VCVTPS2PD", offset(32*h, "(DX)"), y)
					g.op("VPANDQ", g.c64(math.MaxInt64), x, a)
					g.op("VGETEXPPD", a, k)
					g.op("VGETMANTPD", "$3", a, m)
					g.op("VGETEXPPD", m, f)
					g.op("VSUBPD", f, k, k)
					g.op("VSUBPD", one, m, f)
					g.op("VADDPD", one, m, s)
					g.op("VDIVPD", s, f, f)
					g.op("VMULPD", f, f, s)
					g.hornerDoubles(artanh, s, log)
					g.op("VFMADD213PD", k, f, log)
					g.op("VMULPD", y, log, t)
					// ±1 to the power of ±Inf is 1.
					g.op("VCMPPD", "$0", one, a, "K1")
					g.op("VCMPPD", "$7", y, y, "K1", "K1")
					g.op("VMOVUPD", zero, "K1", t)
					// Both limits are out of the range of float32. The instructions return t if it
					// is NaN.
					g.opd("VMOVUPD", 200., n)
					g.op("VMINPD", t, n, t)
					g.opd("VMOVUPD", -200., n)
					g.op("VMAXPD", t, n, t)
					g.op("VRNDSCALEPD", "$0", t, n)
					g.op("VSUBPD", n, t, t)
					g.hornerDoubles(expSeries(math.Ln2, 9), t, p)
					g.op("VSCALEFPD", n, p, p)
					// A negative finite number to the power of a fraction is NaN.
					g.op("VRNDSCALEPD", "$3", y, whole)
					g.op("VCMPPD", "$1", zero, x, "K1")
					g.opd("VCMPPD", "$14", math.Inf(-1), x, "K1", "K1")
					g.op("VCMPPD", "$4", whole, y, "K1", "K1")
					g.op("VMOVUPD", g.c64(0x7ff8000000000000), "K1", p)
					// An odd power has the sign of the base.
					g.opd("VMULPD", 0.5, y, half)
					g.op("VRNDSCALEPD", "$3", half, halved)
					g.op("VPMOVQ2M", x, "K2")
					g.op("VCMPPD", "$0", whole, y, "K2", "K2")
					g.op("VCMPPD", "$4", halved, half, "K2", "K2")
					g.op("VPORQ", g.c64(1<<63), p, "K2", p)
					// x to the power of 0 and 1 to the power of y are 1, also for NaN.
					g.op("VCMPPD", "$0", zero, y, "K3")
					g.op("VCMPPD", "$0", one, x, "K4")
					g.e("KORW K3, K4, K3")
					g.op("VMOVUPD", one, "K3", p)
					g.e("VCVTPD2PS Z%d, Y%d", p, p)
					g.e("VMOVUPS Y%d, %s", p, offset(32*h, "(DI)"))
				}
			}},
	}
}
