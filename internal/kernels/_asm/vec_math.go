package main

import "math"

// Minimax (Remez) fits of the relative error of the whole function. The last number is the error.
var (
	// exp(r) = 1 + r + r²·q(r), |r| ≤ ln2/2; 3.2e-9
	expQ = []float64{0.5, 0.166665181517601, 0.04166620597243309, 0.008368917740881443, 0.0013950543943792582}
	// the same relative to exp(r)-1; 2.4e-10
	expm1Q = []float64{0.5, 0.1666666716337204, 0.04166635498404503, 0.008333273231983185, 0.0013941010693088174,
		0.00019914202857762575}
	// log(1+f) = f - f²/2 + f³·P(f), √½-1 ≤ f ≤ √2-1; 7.3e-10
	logP = []float64{0.3333331048488617, -0.24999986588954926, 0.20002217590808868, -0.16669248044490814,
		0.14218801259994507, -0.12384465336799622, 0.11872150003910065, -0.11788902431726456, 0.06916025280952454}
	// tanh(x) = x + x·z·P(z), z = x², |x| ≤ 0.7; 6.4e-10
	tanhP = []float64{-0.33333325386047363, 0.13333001732826233, -0.053922563791275024, 0.021577484905719757,
		-0.007895045913755894, 0.0019036789890378714}
	// erf(x) = x·P(z), z = x², |x| ≤ 0.95; 6.0e-10
	erfP = []float64{1.128379225730896, -0.37612631916999817, 0.11283672600984573, -0.026858104392886162,
		0.00519779697060585, -0.000810596568044275, 8.215424895752221e-05}
	// erfc(a) = exp(-a²)·t·P(t), t = 1/(1+0.3275911a), 0 ≤ a ≤ 10; 4.1e-9
	erfcP = []float64{0.18477903306484222, 0.185794398188591, 0.16563589870929718, 0.2059507817029953,
		-0.05037841200828552, 0.5013630390167236, -0.5600399374961853, 0.6273441314697266, -0.31712472438812256,
		0.05667581036686897}
)

const (
	erfcScale = 0.3275911
	// ln2Hi has trailing zeros, so that n·ln2Hi is exact for |n| < 2⁹.
	ln2Hi   = 0.693359375
	ln2Lo   = -2.12194440e-4
	absBits = uint32(0x7fffffff)
	sign    = uint32(0x80000000)
)

// horner sets p to the polynomial with coefficients c (lowest first) of register x.
func (g *fn) horner(c []float64, x, p int) {
	g.op("VMOVUPS", c[len(c)-1], p)
	for i := len(c) - 2; i >= 0; i-- {
		g.op("VFMADD213PS", c[i], x, p)
	}
}

// clampLow sets x to at least v. NaN propagates.
func (g *fn) clampLow(v float64, x, t int) {
	g.op("VMOVUPS", v, t)
	g.op("VMAXPS", x, t, x)
}

func (g *fn) clampHigh(v float64, x, t int) {
	g.op("VMOVUPS", v, t)
	g.op("VMINPS", x, t, x)
}

// expParts replaces x by p, and sets n, with exp(x) = p·2ⁿ. t is free. x must be in [-130, 90] or
// NaN.
func (g *fn) expParts(x, n, t int) {
	g.op("VMULPS", math.Log2E, x, n)
	g.round(0, n, n)
	g.op("VFNMADD231PS", ln2Hi, n, x)
	g.op("VFNMADD231PS", ln2Lo, n, x)
	g.horner(expQ, x, t)
	g.op("VFMADD213PS", 1.0, x, t)
	g.op("VFMADD213PS", 1.0, x, t)
	g.op("VMOVAPS", t, x)
}

// scale multiplies p by 2ⁿ with one rounding, also for subnormal results. AVX2 uses t and u.
func (g *fn) scale(n, t, u, p int) {
	if g.width == 16 {
		g.op("VSCALEFPS", n, p, p)
		return
	}
	// 2ⁿ itself may be subnormal. Its two factors are not, and the first product is exact.
	g.op("VCVTPS2DQ", n, t)
	g.op("VPSRAD", "$1", t, u)
	g.op("VPSUBD", u, t, t)
	for _, r := range []int{t, u} {
		g.op("VPADDD", uint32(127), r, r)
		g.op("VPSLLD", "$23", r, r)
		g.op("VMULPS", r, p, p)
	}
}

// expTo computes exp(x) in place, for x of at most 89. Results below 2^-125.5 become 0.
func (g *fn) expTo(x, n, t int) {
	g.clampLow(expZero, x, n)
	g.expParts(x, n, t)
	g.scaleNormal(n, t, x)
}

// expZero is an argument of expParts from which scaleNormal makes 0.
const expZero = -87.3

// scaleNormal multiplies p by 2ⁿ, for n in [-126, 128]; with n = -126 the result is 0. Other
// results have to be normal: processors take about 150 cycles for a subnormal one.
func (g *fn) scaleNormal(n, t, p int) {
	if g.width == 16 {
		g.op("VCMPPS", "$21", -125.5, n, "K3") // not less
		g.op("VSCALEFPS.Z", n, p, "K3", p)
		return
	}
	g.op("VCVTPS2DQ", n, t)
	g.op("VPADDD", uint32(126), t, t)
	g.op("VPSLLD", "$23", t, t) // 2ⁿ⁻¹, or 0
	g.op("VADDPS", p, p, p)
	g.op("VMULPS", t, p, p)
}

// negAbs sets d to -|x|.
func (g *fn) negAbs(x, d int) { g.op("VORPS", sign, x, d) }

// logTail sets f to log(1+f)+k·ln2, for z = f² and the exponent in k. p is free.
func (g *fn) logTail(f, k, z, p int) {
	g.horner(logP, f, p)
	g.op("VMULPS", f, p, p)
	g.op("VMULPS", z, p, p)
	g.op("VFMADD231PS", ln2Lo, k, p)
	g.op("VFNMADD231PS", 0.5, z, p)
	g.op("VADDPS", p, f, f)
	g.op("VFMADD231PS", ln2Hi, k, f)
}

// logNormal replaces a normal number x in register 0 by its logarithm plus ln2·k, with k in
// register 2. Registers 1 to 5 are free.
func (g *fn) logNormal(x int) {
	g.op("VPSUBD", uint32(0x3f3504f3), x, 1) // bits of √½
	g.op("VPSRAD", "$23", 1, 1)
	g.op("VPSLLD", "$23", 1, 3)
	g.op("VPSUBD", 3, x, x) // in [√½, √2)
	g.op("VCVTDQ2PS", 1, 1)
	g.op("VADDPS", 1, 2, 2)
	g.op("VSUBPS", 1.0, x, x)
	g.op("VMULPS", x, x, 4)
	g.logTail(x, 2, 4, 5)
}

// erfc sets c to erfc(|x|) and keeps x. a, t, n and u are free.
func (g *fn) erfc(x, c, a, t, n, u int) {
	g.op("VANDPS", absBits, x, a)
	g.clampHigh(12, a, t)
	g.op("VMOVUPS", erfcScale, t)
	g.op("VFMADD213PS", 1.0, a, t)
	g.op("VMOVUPS", 1.0, n)
	g.op("VDIVPS", t, n, t) // t = 1/(1+0.3275911a)
	g.horner(erfcP, t, u)
	g.op("VMULPS", u, t, u)
	g.op("VMULPS", a, a, c)
	g.op("VXORPS", sign, c, c)
	g.clampLow(expZero, c, n)
	g.op("VMOVAPS", u, a)
	g.expParts(c, n, t)
	g.op("VMULPS", a, c, c)
	g.scaleNormal(n, t, c)
}

func init() {
	for _, k := range elems() {
		add(k.family, k)
	}
}

func elems() []*elem {
	var ks []*elem
	unary := func(family, name string, unroll bool, body func(g *fn, r [3]int), scalars ...string) {
		ks = append(ks, &elem{family: family, name: name, ins: []string{"x"}, scalars: scalars,
			unroll: unroll, body: body})
	}
	simple := func(name string, body func(g *fn, x int), scalars ...string) {
		unary("arith", name, true, func(g *fn, r [3]int) { body(g, r[0]) }, scalars...)
	}
	binary := func(name string, body func(g *fn, a, b int)) {
		ks = append(ks, &elem{family: "arith", name: name, ins: []string{"a", "b"}, unroll: true,
			body: func(g *fn, r [3]int) { body(g, r[0], r[1]) }})
	}
	s0, s1 := scalarReg(0), scalarReg(1)

	// min and max of x86 return the second source if either is NaN. Swapping the operands and
	// selecting NaN of the first operand gives Go's semantics.
	minmax := func(op string) func(g *fn, a, b int) {
		return func(g *fn, a, b int) {
			g.op(op, b, a, b) // NaN of b; NaN of a only if b is NaN
			g.sel(uno, a, a, a, b, a)
		}
	}
	binary("add", func(g *fn, a, b int) { g.op("VADDPS", b, a, a) })
	binary("sub", func(g *fn, a, b int) { g.op("VSUBPS", b, a, a) })
	binary("mul", func(g *fn, a, b int) { g.op("VMULPS", b, a, a) })
	binary("div", func(g *fn, a, b int) { g.op("VDIVPS", b, a, a) })
	binary("min", minmax("VMINPS"))
	binary("max", minmax("VMAXPS"))
	simple("addScalar", func(g *fn, x int) { g.op("VADDPS", s0, x, x) }, "s")
	simple("subScalar", func(g *fn, x int) { g.op("VSUBPS", s0, x, x) }, "s")
	simple("scalarSub", func(g *fn, x int) { g.op("VSUBPS", x, s0, x) }, "s")
	simple("mulScalar", func(g *fn, x int) { g.op("VMULPS", s0, x, x) }, "s")
	simple("divScalar", func(g *fn, x int) { g.op("VDIVPS", s0, x, x) }, "s")
	simple("scalarDiv", func(g *fn, x int) { g.op("VDIVPS", x, s0, x) }, "s")
	for _, op := range []string{"min", "max"} {
		ins := map[string]string{"min": "VMINPS", "max": "VMAXPS"}[op]
		simple(op+"Scalar", func(g *fn, x int) {
			g.op(ins, x, s0, x+1) // NaN of x
			g.sel(uno, s0, s0, s0, x+1, x)
		}, "s")
	}
	simple("clip", func(g *fn, x int) {
		g.op("VMAXPS", x, s0, x)
		g.op("VMINPS", x, s1, x)
	}, "lo", "hi")
	simple("relu", func(g *fn, x int) {
		g.op("VXORPS", x+1, x+1, x+1)
		g.op("VMAXPS", x, x+1, x)
	})
	simple("sqrt", func(g *fn, x int) { g.op("VSQRTPS", x, x) })
	simple("reciprocal", func(g *fn, x int) {
		g.op("VMOVUPS", 1.0, x+1)
		g.op("VDIVPS", x, x+1, x)
	})
	simple("neg", func(g *fn, x int) { g.op("VXORPS", sign, x, x) })
	simple("abs", func(g *fn, x int) { g.op("VANDPS", absBits, x, x) })
	simple("floor", func(g *fn, x int) { g.round(1, x, x) })
	simple("ceil", func(g *fn, x int) { g.round(2, x, x) })
	simple("roundEven", func(g *fn, x int) { g.round(0, x, x) })
	simple("leakyRelu", func(g *fn, x int) {
		g.op("VMULPS", s0, x, x+1)
		g.op("VXORPS", x+2, x+2, x+2)
		g.sel(lt, x, x+2, x+1, x, x)
	}, "alpha")

	fused := func(name string, body func(g *fn, r [3]int), scalars ...string) {
		unary("fused", name, true, body, scalars...)
	}
	fused("scaleShift", func(g *fn, r [3]int) { g.op("VFMADD213PS", s1, s0, r[0]) }, "scale", "shift")
	ks = append(ks, &elem{family: "fused", name: "axpy", ins: []string{"x"}, scalars: []string{"s"}, unroll: true,
		inout: true, body: func(g *fn, r [3]int) {
			g.op("VFMADD213PS", r[1], s0, r[0])
		}})
	ks = append(ks, &elem{family: "fused", name: "mulAdd", ins: []string{"a", "b", "c"}, body: func(g *fn, r [3]int) {
		g.op("VFMADD213PS", r[2], r[1], r[0])
	}})
	fused("hardSigmoid", func(g *fn, r [3]int) {
		x := r[0]
		g.op("VFMADD213PS", s1, s0, x)
		g.clampLow(0, x, x+1)
		g.clampHigh(1, x, x+1)
	}, "alpha", "beta")
	fused("hardSwish", func(g *fn, r [3]int) {
		x := r[0]
		g.op("VMOVUPS", 1.0/6, x+1)
		g.op("VFMADD213PS", 0.5, x, x+1)
		g.clampLow(0, x+1, x+2)
		g.clampHigh(1, x+1, x+2)
		g.op("VMULPS", x+1, x, x)
	})
	fused("scaleSub", func(g *fn, r [3]int) {
		g.op("VSUBPS", s0, r[0], r[0])
		g.op("VMULPS", s1, r[0], r[0])
	}, "sub", "scale")
	ks = append(ks, &elem{family: "fused", name: "normalize", ins: []string{"x", "gain", "bias"},
		scalars: []string{"mean", "invStd"}, body: func(g *fn, r [3]int) {
			g.op("VSUBPS", s0, r[0], r[0])
			g.op("VMULPS", s1, r[0], r[0])
			g.op("VFMADD213PS", r[2], r[1], r[0])
		}})

	math1 := func(family, name string, body func(g *fn), scalars ...string) {
		unary(family, name, false, func(g *fn, _ [3]int) { body(g) }, scalars...)
	}
	math1("exp", "exp", func(g *fn) {
		g.clampHigh(89, 0, 1)
		g.clampLow(-126, 0, 1)
		g.expParts(0, 1, 2)
		if g.width != 16 {
			g.scale(1, 2, 3, 0)
			return
		}
		// Lanes whose result rounds to 0 are left out: VSCALEFPS takes about 150 cycles for them.
		g.op("VCMPPS", "$21", -150.5, 1, "K3") // not less; p < 2
		g.op("VSCALEFPS.Z", 1, 0, "K3", 0)
	})
	math1("exp", "expm1", func(g *fn) { g.expm1(0) })
	math1("exp", "elu", func(g *fn) {
		g.op("VMOVAPS", 0, 8)
		g.expm1(0)
		g.op("VMULPS", s0, 0, 0)
		g.op("VXORPS", 7, 7, 7)
		g.sel(lt, 8, 7, 0, 8, 0)
	}, "alpha")
	math1("exp", "sigmoid", func(g *fn) { g.sigmoid(firstTable) })
	math1("exp", "silu", func(g *fn) { g.silu(firstTable) })
	math1("exp", "mish", func(g *fn) {
		g.clampLow(expZero, 0, 1)
		g.op("VMOVAPS", 0, 8)
		g.negAbs(0, 0)
		g.expTo(0, 1, 2)
		g.op("VMULPS", 8, 0, 7)   // v·e
		g.op("VADDPS", 2.0, 0, 1) // e+2
		g.op("VMULPS", 1, 7, 7)   // v·e·(e+2)
		g.op("VFMADD213PS", 2.0, 0, 1)
		g.op("VADDPS", 0, 0, 2)
		g.op("VADDPS", 1.0, 2, 2) // 1+2e
		g.op("VMULPS", 8, 2, 3)   // v·(1+2e)
		g.op("VADDPS", 0, 0, 4)
		g.op("VFMADD231PS", 4, 0, 2) // 1+2e+2e²
		g.op("VXORPS", 4, 4, 4)
		g.sel(ge, 8, 4, 3, 7, 7)
		g.sel(ge, 8, 4, 2, 1, 1)
		g.op("VDIVPS", 1, 7, 0)
	})
	math1("exp", "tanh", func(g *fn) {
		if g.width == 16 {
			tanhPieces.of(g)
			return
		}
		g.op("VMOVAPS", 0, 8)
		g.op("VANDPS", absBits, 0, 0)
		g.clampHigh(10, 0, 1)
		g.op("VMOVAPS", 0, 7)
		g.op("VMULPS", 8, 8, 4)
		g.horner(tanhP, 4, 5)
		g.op("VMULPS", 4, 5, 5)
		g.op("VMOVAPS", 8, 6)
		g.op("VFMADD231PS", 5, 8, 6) // x + x·z·P(z)
		g.op("VADDPS", 0, 0, 0)
		g.expParts(0, 1, 2)
		g.scaleNormal(1, 2, 0)
		g.op("VADDPS", 1.0, 0, 0)
		g.op("VMOVUPS", 2.0, 1)
		g.op("VDIVPS", 0, 1, 0)
		g.op("VMOVUPS", 1.0, 1)
		g.op("VSUBPS", 0, 1, 0)
		g.op("VANDPS", sign, 8, 1)
		g.op("VORPS", 1, 0, 0)
		g.op("VMOVUPS", 0.7, 1)
		g.sel(lt, 7, 1, 6, 0, 0)
	})
	math1("log", "softplus", func(g *fn) {
		g.op("VMOVAPS", 0, 8)
		g.negAbs(0, 0)
		g.expTo(0, 1, 2)
		// log1p(e), e in [0,1]: f = e, or (e-1)/2 and one ln2
		g.op("VSUBPS", 1.0, 0, 1)
		g.op("VMULPS", 0.5, 1, 1)
		g.op("VXORPS", 7, 7, 7)
		g.op("VMOVUPS", math.Sqrt2-1, 6)
		g.op("VMOVUPS", 1.0, 4)
		g.sel(gt, 0, 6, 4, 7, 2)
		g.sel(gt, 0, 6, 1, 0, 0)
		// The square is of f rounded to a multiple of 2^-31, so that powers of a small f are 0, not
		// subnormal.
		g.op("VADDPS", 0x1p-8, 0, 4)
		g.op("VSUBPS", 0x1p-8, 4, 4)
		g.op("VMULPS", 4, 4, 4)
		g.logTail(0, 2, 4, 5)
		g.op("VMAXPS", 8, 7, 8)
		g.op("VADDPS", 8, 0, 0)
	})
	math1("log", "log", func(g *fn) {
		g.op("VMOVAPS", 0, 8)
		g.op("VXORPS", 7, 7, 7)
		g.op("VMOVUPS", 0x1p-126, 6)
		g.op("VMULPS", 0x1p23, 0, 1)
		g.op("VMOVUPS", -23.0, 2)
		g.sel(lt, 8, 6, 2, 7, 2) // exponent of the factor for subnormal numbers
		g.sel(lt, 8, 6, 1, 0, 0)
		g.logNormal(0)
		inf := g.ci(0x7f800000)
		g.op("VMOVUPS", inf, 1)
		g.sel(nlt, 8, 1, 8, 0, 0) // +Inf and NaN are kept
		g.op("VMOVUPS", uint32(0xff800000), 1)
		g.sel(eq, 8, 7, 1, 0, 0)
		g.op("VMOVUPS", uint32(0x7fc00000), 1)
		g.sel(lt, 8, 7, 1, 0, 0)
	})
	math1("trig", "sin", func(g *fn) { g.sinCos(0) })
	math1("trig", "cos", func(g *fn) { g.sinCos(1) })
	math1("trig", "tan", func(g *fn) {
		g.quarters()
		g.odd(5, 4, 0)
		g.odd(4, 5, 6)
		g.op("VDIVPS", 6, 0, 0)
		g.op("VPSLLD", "$31", 2, 2) // odd quarters flip the sign
		g.op("VXORPS", 2, 0, 0)
	})
	for _, k := range inverses {
		math1("inverse", k.name, k.body)
	}
	math1("erf", "erf", func(g *fn) {
		if g.width == 16 {
			erfPieces.of(g)
			return
		}
		g.op("VMOVAPS", 0, 8)
		g.erfc(8, 0, 1, 2, 3, 4)
		g.op("VMOVUPS", 1.0, 1)
		g.op("VSUBPS", 0, 1, 0)
		g.op("VANDPS", sign, 8, 1)
		g.op("VORPS", 1, 0, 0)
		g.op("VMULPS", 8, 8, 1)
		g.horner(erfP, 1, 2)
		g.op("VMULPS", 8, 2, 2)
		g.op("VANDPS", absBits, 8, 1)
		g.op("VMOVUPS", 0.95, 3)
		g.sel(lt, 1, 3, 2, 0, 0)
	})
	math1("erf", "gelu", func(g *fn) {
		g.clampLow(-1000, 0, 1) // erfc is 0 below; -Inf·0 would be NaN
		if g.width == 16 {
			g.op("VMOVAPS", 0, 9)
			geluPieces.of(g)
			g.op("VADDPS", 0.5, 0, 0)
			g.op("VMULPS", 9, 0, 0)
			return
		}
		g.op("VMULPS", math.Sqrt2/2, 0, 8)
		g.op("VMOVAPS", 0, 9)
		g.erfc(8, 0, 1, 2, 3, 4)
		g.op("VMOVUPS", 2.0, 1)
		g.op("VSUBPS", 0, 1, 1)
		g.op("VXORPS", 2, 2, 2)
		g.sel(lt, 8, 2, 0, 1, 0)
		g.op("VMULPS", 0.5, 9, 9)
		g.op("VMULPS", 9, 0, 0)
	})
	math1("erf", "geluTanh", func(g *fn) {
		const k = 0.7978845608028654 // √(2/π)
		g.clampLow(-1000, 0, 1)
		g.op("VMOVAPS", 0, 8)
		g.op("VMULPS", 0, 0, 1)
		if g.width == 16 {
			g.op("VMOVUPS", 2*k*0.044715, 2)
			g.op("VFMADD213PS", 2*k, 1, 2)
			g.op("VMULPS", 2, 0, 0)
			g.overOnePlusExp(firstTable, 8)
			return
		}
		g.op("VMOVUPS", -2*k*0.044715, 2)
		g.op("VFMADD213PS", -2*k, 1, 2)
		g.op("VMULPS", 2, 0, 0)
		g.clampHigh(89, 0, 1)
		g.expTo(0, 1, 2)
		g.op("VADDPS", 1.0, 0, 0)
		g.op("VDIVPS", 0, 8, 0)
	})
	for _, k := range ks {
		k.tables = map[string]tables{"erf": erfPieces.coefs, "gelu": geluPieces.coefs, "tanh": tanhPieces.coefs,
			"sigmoid": expTable, "silu": expTable, "geluTanh": expTable}[k.name]
	}
	return ks
}

// sinCos sets register 0 to sin(x + quarters·π/2), for |x| up to 30,000.
func (g *fn) sinCos(quarters uint32) {
	const q, s, c = 2, 4, 5
	g.quarters()
	if quarters > 0 {
		g.op("VPADDD", quarters, q, q)
	}
	g.odd(c, s, 0)             // odd quarters use the cosine
	g.op("VPSRLD", "$1", q, q) // two of four flip the sign
	g.op("VPSLLD", "$31", q, q)
	g.op("VXORPS", q, 0, 0)
}

// quarters reduces x in register 0, |x| up to 30,000, by multiples of π/2 in three parts (Cody and
// Waite), which is exact with fused multiply-add. It sets register 2 to the number of quarter
// turns, and 4 and 5 to sine and cosine of the remainder. Registers 1 and 3 are free.
func (g *fn) quarters() {
	const x, n, q, z, s, c = 0, 1, 2, 3, 4, 5
	g.op("VMULPS", 2/math.Pi, x, n)
	g.round(0, n, n)
	g.op("VCVTPS2DQ", n, q)
	g.op("VFNMADD231PS", 1.5707963705062866, n, x)
	g.op("VFNMADD231PS", -4.371138828673793e-08, n, x)
	g.op("VFNMADD231PS", -1.7151245100058819e-15, n, x)
	g.op("VMULPS", x, x, z)
	// 4.9e-12
	g.horner([]float64{-0.1666666716337204, 0.008333329111337662, -0.00019839327433146536, 2.7182411486137426e-06},
		z, s)
	g.op("VMULPS", z, s, s)
	g.op("VFMADD213PS", x, x, s)
	// 1.0e-13
	g.horner([]float64{0.0416666679084301, -0.0013888883404433727, 2.4799513994366862e-05, -2.720970257996669e-07},
		z, c)
	g.op("VFMADD213PS", -0.5, z, c)
	g.op("VFMADD213PS", 1.0, z, c)
}

// odd sets d to t in lanes where the number of quarters in register 2 is odd, otherwise to f.
// Register 1 is free.
func (g *fn) odd(t, f, d int) {
	g.op("VPSLLD", "$31", 2, 1)
	if g.neon() {
		g.op("VPSRAD", "$31", 1, 1)
		g.choose(1, t, f, d)
	} else if g.width == 16 {
		g.op("VPMOVD2M", 1, "K2")
		g.op("VBLENDMPS", t, f, "K2", d)
	} else {
		g.op("VBLENDVPS", 1, t, f, d)
	}
}

// expm1 computes exp(x)-1 in place. It uses registers x+1 to x+6.
func (g *fn) expm1(x int) {
	n, p, s, t, m := x+1, x+2, x+3, x+4, x+5
	g.clampHigh(89, x, n)
	g.clampLow(-25, x, n)
	g.op("VMULPS", math.Log2E, x, n)
	g.round(0, n, n)
	g.op("VFNMADD231PS", ln2Hi, n, x)
	g.op("VFNMADD231PS", ln2Lo, n, x)
	g.horner(expm1Q, x, p)
	g.op("VMULPS", x, x, s)
	g.op("VMOVAPS", x, m)
	g.op("VFMADD231PS", s, p, m) // exp(r)-1
	// 2·(s·m + (s-½)) with s = 2ⁿ⁻¹, which overflows only if the result does.
	g.op("VCVTPS2DQ", n, s)
	g.op("VPADDD", uint32(126), s, s)
	g.op("VPSLLD", "$23", s, s)
	g.op("VSUBPS", 0.5, s, t)
	g.op("VFMADD231PS", s, m, t)
	g.op("VADDPS", t, t, t)
	g.op("VXORPS", s, s, s)
	g.sel(eq, n, s, m, t, x) // exact around zero, including its sign
}
