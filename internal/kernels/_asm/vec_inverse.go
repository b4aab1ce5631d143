package main

import "math"

// Minimax fits of the relative error of the whole function, with z = x². The last number is the
// error.
var (
	// asin(x) = x + x·z·P(z), |x| ≤ ½; 2.9e-10
	asinP = []float64{0.16666659712791443, 0.07500516623258591, 0.04451499506831169, 0.03182182088494301,
		0.01439125556498766, 0.03757668286561966}
	// atan(x) = x + x·z·P(z), |x| ≤ 1; 2.6e-9
	atanP = []float64{-0.33333298563957214, 0.1999853551387787, -0.14264124631881714, 0.10951638221740723,
		-0.08401985466480255, 0.057934246957302094, -0.031155923381447792, 0.010903410613536835, -0.0017912235343828797}
	// sinh(x) = x + x·z·P(z), |x| ≤ 1; 3.6e-10
	sinhP = []float64{0.1666666716337204, 0.008333315141499043, 0.00019841664470732212, 2.7899995984626003e-06}
)

const (
	plusInf  = uint32(0x7f800000)
	quietNaN = uint32(0x7fc00000)
	// farArgument is so large that √(x²±1) rounds to x, and its square does not overflow.
	farArgument = 0x1p30
)

// inverses lists the trigonometric and hyperbolic functions other than sin, cos and tanh: family
// and body by name. The bodies keep the argument in register 8.
var inverses = []struct {
	name string
	body func(g *fn)
}{
	{"asin", func(g *fn) {
		g.asinParts()
		g.op("VMOVUPS", math.Pi/2, 5)
		g.op("VADDPS", 4, 4, 6)
		g.op("VSUBPS", 6, 5, 5)
		g.sel(gt, 0, 0.5, 5, 4, 0)
		g.signOf8()
	}},
	{"acos", func(g *fn) {
		g.asinParts()
		g.op("VANDPS", sign, 8, 5)
		g.op("VORPS", 5, 4, 4)
		g.op("VMOVUPS", math.Pi/2, 5)
		g.op("VSUBPS", 4, 5, 5)
		g.op("VXORPS", 6, 6, 6)
		g.op("VMOVUPS", math.Pi, 7)
		g.sel(lt, 8, 6, 7, 6, 6)
		g.op("VFMADD231PS", 2.0, 4, 6) // 2·asin(√((1-x)/2)), or π minus that for |x|
		g.sel(gt, 0, 0.5, 6, 5, 0)
	}},
	{"atan", func(g *fn) {
		g.op("VMOVAPS", 0, 8)
		g.op("VANDPS", absBits, 0, 0)
		g.op("VMOVAPS", 0, 1)
		g.op("VMOVAPS", 0, 2)
		g.clampHigh(1, 1, 3)
		g.clampLow(1, 2, 3)
		g.op("VDIVPS", 2, 1, 1) // |x|, or its reciprocal
		g.op("VMULPS", 1, 1, 2)
		g.horner(atanP, 2, 3)
		g.op("VMULPS", 2, 3, 3)
		g.op("VFMADD213PS", 1, 1, 3)
		g.op("VMOVUPS", math.Pi/2-float64(float32(math.Pi/2)), 4)
		g.op("VSUBPS", 3, 4, 4)
		g.op("VADDPS", math.Pi/2, 4, 4)
		g.sel(gt, 0, 1.0, 4, 3, 0)
		g.signOf8()
	}},
	{"sinh", func(g *fn) {
		g.halfExp()
		g.op("VSUBPS", 1, 0, 0)
		g.op("VMULPS", 8, 8, 1)
		g.horner(sinhP, 1, 2)
		g.op("VMULPS", 1, 2, 2)
		g.op("VANDPS", absBits, 8, 3)
		g.op("VFMADD213PS", 3, 3, 2)
		g.sel(lt, 3, 1.0, 2, 0, 0)
		g.signOf8()
	}},
	{"cosh", func(g *fn) {
		g.halfExp()
		g.op("VADDPS", 1, 0, 0)
	}},
	{"asinh", func(g *fn) { // log1p(a + a²/(1+√(1+a²)))
		g.op("VMOVAPS", 0, 8)
		g.op("VANDPS", absBits, 0, 0)
		g.op("VMULPS", 0, 0, 1)
		g.op("VADDPS", 1.0, 1, 2)
		g.op("VSQRTPS", 2, 2)
		g.op("VADDPS", 1.0, 2, 2)
		g.op("VDIVPS", 2, 1, 1)
		g.op("VADDPS", 0, 1, 1)
		g.far(0)
		g.log1p()
		g.op("VANDPS", absBits, 8, 1)
		g.op("VMOVUPS", plusInf, 2)
		g.sel(nlt, 1, 2, 1, 0, 0)
		g.signOf8()
	}},
	{"acosh", func(g *fn) { // log1p(t + √(t·(t+2))), t = x-1
		g.op("VMOVAPS", 0, 8)
		g.op("VSUBPS", 1.0, 0, 1)
		g.op("VADDPS", 2.0, 1, 2)
		g.op("VMULPS", 1, 2, 2)
		g.op("VSQRTPS", 2, 2)
		g.op("VADDPS", 2, 1, 1)
		g.far(0)
		g.log1p()
		g.op("VMOVUPS", plusInf, 1)
		g.sel(nlt, 8, 1, 8, 0, 0)
		g.op("VMOVUPS", quietNaN, 1)
		g.sel(lt, 8, 1.0, 1, 0, 0)
	}},
	{"atanh", func(g *fn) { // log1p(2a/(1-a))/2
		g.op("VMOVAPS", 0, 8)
		g.op("VANDPS", absBits, 0, 0)
		g.op("VADDPS", 0, 0, 1)
		g.op("VMOVUPS", 1.0, 2)
		g.op("VSUBPS", 0, 2, 2)
		g.op("VDIVPS", 2, 1, 0)
		g.op("VXORPS", 2, 2, 2)
		g.log1p()
		g.op("VMULPS", 0.5, 0, 0)
		g.op("VANDPS", absBits, 8, 1)
		g.op("VMOVUPS", plusInf, 2)
		g.sel(eq, 1, 1.0, 2, 0, 0)
		g.signOf8()
		g.op("VMOVUPS", quietNaN, 2)
		g.sel(gt, 1, 1.0, 2, 0, 0)
	}},
}

// signOf8 copies the sign of register 8 to register 0. Register 7 is free.
func (g *fn) signOf8() {
	g.op("VANDPS", sign, 8, 7)
	g.op("VORPS", 7, 0, 0)
}

// asinParts sets register 8 to x, 0 to |x| and 4 to asin(|x|) or, if |x| > ½, to
// asin(√((1-|x|)/2)).
func (g *fn) asinParts() {
	g.op("VMOVAPS", 0, 8)
	g.op("VANDPS", absBits, 0, 0)
	g.op("VMULPS", 0, 0, 1)
	g.op("VMOVUPS", 1.0, 2)
	g.op("VSUBPS", 0, 2, 2)
	g.op("VMULPS", 0.5, 2, 2)
	g.op("VSQRTPS", 2, 3)
	g.sel(gt, 0, 0.5, 2, 1, 1)
	g.sel(gt, 0, 0.5, 3, 0, 3)
	g.horner(asinP, 1, 4)
	g.op("VMULPS", 1, 4, 4)
	g.op("VFMADD213PS", 3, 3, 4)
}

// halfExp sets register 0 to exp(|x|)/2, 1 to exp(-|x|)/2 and 8 to x.
func (g *fn) halfExp() {
	g.op("VMOVAPS", 0, 8)
	g.op("VANDPS", absBits, 0, 0)
	g.clampHigh(90, 0, 1)
	g.expParts(0, 1, 2)
	g.op("VSUBPS", 1.0, 1, 1)
	g.scale(1, 2, 3, 0)
	g.op("VMOVUPS", 0.25, 1)
	g.op("VDIVPS", 0, 1, 1)
}

// far sets register 0 to register 1 and register 2 to zero. In lanes where register a exceeds
// farArgument, it sets them to a and one: the multiple of ln2 that is missing there.
func (g *fn) far(a int) {
	g.op("VXORPS", 2, 2, 2)
	g.op("VMOVUPS", 1.0, 3)
	g.sel(gt, a, farArgument, 3, 2, 2)
	g.sel(gt, a, farArgument, a, 1, 0)
}

// log1p replaces u ≥ 0 in register 0 by log(1+u) plus ln2·k, with k in register 2. The rounding
// error of 1+u is added back, relative to 1+u. Infinity gives NaN. Registers 1 to 7 are free.
func (g *fn) log1p() {
	g.op("VADDPS", 1.0, 0, 6)
	g.op("VSUBPS", 1.0, 6, 7)
	g.op("VSUBPS", 7, 0, 7)
	g.op("VDIVPS", 6, 7, 7)
	g.op("VMOVAPS", 6, 0)
	g.logNormal(0)
	g.op("VADDPS", 7, 0, 0)
}
