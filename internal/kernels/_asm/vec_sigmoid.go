package main

import (
	"fmt"
	"math"
)

// sigmoid replaces register 0 by its sigmoid. Registers 1 to 4, 7 and 8 are free. With AVX-512 the
// registers from table on hold expTable. Results below 2^-125.5 become 0.
func (g *fn) sigmoid(table int) {
	if g.width == 16 {
		// Where exp(-x) may overflow, it hides the 1 in 1/(1+exp(-x)).
		g.overOnePlusExp(table, 1.0)
		return
	}
	g.op("VMOVAPS", 0, 8)
	g.negAbs(0, 0)
	g.expTo(0, 1, 2)
	g.op("VXORPS", 7, 7, 7)
	g.sel(ge, 8, 7, 1.0, 0, 1)
	g.op("VADDPS", 1.0, 0, 0)
	g.op("VDIVPS", 0, 1, 0)
}

// silu replaces register 0 by x·sigmoid(x). Registers and table are as for sigmoid.
func (g *fn) silu(table int) {
	if g.width == 16 {
		g.op("VMOVAPS", 0, 8)
		g.overOnePlusExp(table, 8)
		return
	}
	g.clampLow(expZero, 0, 1)
	g.op("VMOVAPS", 0, 8)
	g.negAbs(0, 0)
	g.expTo(0, 1, 2)
	g.op("VMULPS", 8, 0, 7)
	if g.neon() {
		g.op("VXORPS", 2, 2, 2)
		g.sel(ge, 8, 2, 8, 7, 7)
	} else {
		g.op("VBLENDVPS", 8, 7, 8, 7) // by sign
	}
	g.op("VADDPS", 1.0, 0, 0)
	g.op("VDIVPS", 0, 7, 0)
}

// expSteps is the number of floats per octave in expTable.
const expSteps = 32

// expTable holds the floats 2^(j/expSteps), less j in the bits from expShift on.
var expTable = func() tables {
	t := make(tables, expSteps/16)
	for j := range expSteps {
		v := float32(math.Exp2(float64(j) / expSteps))
		t[j/16] = append(t[j/16], float64(math.Float32frombits(math.Float32bits(v)-uint32(j)<<expShift)))
	}
	return t
}()

// expShift is the position of n in the bits of 2^(n/expSteps).
const expShift = 18

// expReduce reduces x by the integer n nearest to expSteps·x/ln2, or to -expSteps·x/ln2 if negate
// is set. It sets t to a float whose lowest bits are those of n, and e to 2^(n/expSteps). x becomes
// the remainder x-n·ln2/expSteps (or x+n·ln2/expSteps), which is at most ln2/64 from 0. Lanes of e
// that are not in mask become 0: the power may be subnormal there. It uses AVX-512 and changes u.
// The registers from table on hold expTable.
func (g *fn) expReduce(negate bool, table, x, t, u, e int, mask string) {
	const bias = 0x1.8p23
	steps, sub := expSteps*math.Log2E, "VFNMADD231PS"
	if negate {
		steps, sub = -steps, "VFMADD231PS"
	}
	g.op("VMOVUPS", steps, t)
	g.op("VFMADD213PS", bias, x, t)
	g.op("VSUBPS", bias, t, u)
	g.op(sub, ln2Hi/expSteps, u, x)
	g.op(sub, ln2Lo/expSteps, u, x)
	g.op("VMOVAPS", t, e)
	g.op("VPERMI2PS", table+1, table, e)
	g.op("VPSLLD", fmt.Sprintf("$%d", expShift), t, t)
	g.op("VPADDD.Z", t, e, mask, e)
}

// smallExp replaces x, which is at most 87, by exp(x), and by 0 where that is subnormal. It uses
// AVX-512 and registers t, n and e. The registers from table on hold expTable. A polynomial of the
// third degree in the remainder is close to 1e-9.
func (g *fn) smallExp(table, x, t, n, e int) {
	g.op("VCMPPS", "$21", -87.3, x, "K3") // not less
	g.expReduce(false, table, x, t, n, e, "K3")
	g.op("VMOVUPS", 1.0/6, n)
	g.op("VFMADD213PS", 0.5, x, n)
	g.op("VFMADD213PS", 1.0, x, n)
	g.op("VMULPS", n, x, x)
	g.op("VFMADD213PS.Z", e, e, "K3", x)
}

// overOnePlusExp sets register 0 to v/(1+exp(-x)) for x in register 0; v is register 8 or 1. It
// uses AVX-512 and registers 1, 2, 4 and 7. With n and s from expReduce, exp(-x) is
// 2^(n/32)·exp(-s), and exp(-s) is (c-s)/(c+s) within 2.7e-8, so that a single division remains.
// If x exceeds 87, the result is v; if it is less than -87, 0 with the sign of v, since operations
// with subnormal numbers take over a hundred cycles.
func (g *fn) overOnePlusExp(table int, v any) {
	const most = 87 // exp(±most) are normal
	const remainder = math.Ln2 / 2 / expSteps
	const c = 2 + remainder*remainder/8 // the largest error is least
	near := g.unique("near")
	g.op("VANDPS", absBits, 0, 1)
	g.op("VCMPPS", "$26", float64(most), 1, "K4") // not greater
	g.op("VMOVAPS", 0, 7)
	g.expReduce(true, table, 0, 2, 1, 4, "K4")
	g.op("VMOVUPS", c, 1)
	g.op("VSUBPS", 0, 1, 2)
	g.op("VADDPS", 0, 1, 1)
	g.op("VFMADD213PS", 1, 2, 4)
	if v, ok := v.(int); ok {
		g.op("VMULPS", v, 1, 1)
	}
	g.op("VDIVPS", 4, 1, 4)
	g.e("KORTESTW K4, K4")
	g.e("JC %s", near) // all lanes
	g.op("VMOVUPS", v, 1)
	g.op("VANDPS", sign, 1, 2)
	g.sel(gt, 7, float64(most), 1, 2, 0)
	g.e("KNOTW K4, K4")
	g.e("VMOVAPS Z0, K4, Z4")
	g.label(near)
	g.op("VMOVAPS", 4, 0)
}
