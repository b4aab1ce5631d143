package main

import (
	"fmt"
	"math"
)

// sigmoid replaces register 0 by its sigmoid. Registers 1 to 4, 7 and 8 are free. With AVX-512 the
// registers from table on hold expTable.
func (g *fn) sigmoid(table int) {
	if g.width == 16 {
		// Where exp(-x) may overflow, it hides the 1 in 1/(1+exp(-x)).
		g.overOnePlusExp(table, 1.0, func() { g.expTo(0, 1, 2, 3) })
		return
	}
	g.op("VMOVAPS", 0, 8)
	g.negAbs(0, 0)
	g.expTo(0, 1, 2, 3)
	g.op("VXORPS", 7, 7, 7)
	g.sel(ge, 8, 7, 1.0, 0, 1)
	g.op("VADDPS", 1.0, 0, 0)
	g.op("VDIVPS", 0, 1, 0)
}

// silu replaces register 0 by x·sigmoid(x). Registers and table are as for sigmoid. x·exp(-|x|) is
// computed before scaling by 2ⁿ, so that it loses no precision where exp(-|x|) is subnormal.
func (g *fn) silu(table int) {
	if g.width == 16 {
		g.op("VMOVAPS", 0, 8)
		g.timesSigmoid(table)
		return
	}
	g.clampLow(-126, 0, 1)
	g.op("VMOVAPS", 0, 8)
	g.negAbs(0, 0)
	g.clampLow(-126, 0, 1)
	g.expParts(0, 1, 2)
	g.op("VMULPS", 8, 0, 7)
	g.scale(1, 2, 3, 0, 7)
	if g.neon() {
		g.op("VXORPS", 2, 2, 2)
		g.sel(ge, 8, 2, 8, 7, 7)
	} else {
		g.op("VBLENDVPS", 8, 7, 8, 7) // by sign
	}
	g.op("VADDPS", 1.0, 0, 0)
	g.op("VDIVPS", 0, 7, 0)
}

// timesSigmoid sets register 0 to v·sigmoid(x) for x in register 0 and v in register 8. v has the
// sign of x; if x is less than -87, |v| is at most |x|. It uses AVX-512 and registers 1 to 4 and 7.
// The registers from table on hold expTable.
func (g *fn) timesSigmoid(table int) {
	g.overOnePlusExp(table, 8, func() {
		g.clampLow(-126, 0, 1)
		g.clampLow(-126, 8, 1)
		g.expParts(0, 1, 2)
		g.op("VMULPS", 8, 0, 0)
		g.scale(1, 2, 3, 0)
	})
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
// the remainder x-n·ln2/expSteps (or x+n·ln2/expSteps), which is at most ln2/64 from 0. It uses
// AVX-512 and changes u. The registers from table on hold expTable.
func (g *fn) expReduce(negate bool, table, x, t, u, e int) {
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
	g.op("VPADDD", t, e, e)
}

// smallExp replaces x, which is at most 87, by exp(x), and by 0 where that is subnormal. It uses
// AVX-512 and registers t, n and e. The registers from table on hold expTable. A polynomial of the
// third degree in the remainder is close to 1e-9.
func (g *fn) smallExp(table, x, t, n, e int) {
	g.op("VCMPPS", "$21", -87.3, x, "K3") // not less
	g.expReduce(false, table, x, t, n, e)
	g.op("VMOVUPS", 1.0/6, n)
	g.op("VFMADD213PS", 0.5, x, n)
	g.op("VFMADD213PS", 1.0, x, n)
	g.op("VMULPS", n, x, x)
	g.op("VFMADD213PS.Z", e, e, "K3", x)
}

// overOnePlusExp sets register 0 to v/(1+exp(-x)) for x in register 0; v is register 8 or 1. It
// uses AVX-512 and registers 1, 2, 4 and
//  7. With n and s from expReduce, exp(-x) is 2^(n/32)·exp(-s), and exp(-s) is (c-s)/(c+s) within
//     2.7e-8, so that a single division
//
// remains. far computes the result in register 0 where exp(-x) may overflow; where it may
// underflow, the result is v.
func (g *fn) overOnePlusExp(table int, v any, far func()) {
	const most = 87 // exp(±most) are normal
	const remainder = math.Ln2 / 2 / expSteps
	const c = 2 + remainder*remainder/8 // the largest error is least
	near := g.unique("near")
	g.op("VMOVAPS", 0, 7)
	g.op("VANDPS", absBits, 0, 1)
	g.op("VCMPPS", "$30", float64(most), 1, "K4") // greater
	g.expReduce(true, table, 0, 2, 1, 4)
	g.op("VMOVUPS", c, 1)
	g.op("VSUBPS", 0, 1, 2)
	g.op("VADDPS", 0, 1, 1)
	g.op("VFMADD213PS", 1, 2, 4)
	if v, ok := v.(int); ok {
		g.op("VMULPS", v, 1, 1)
	}
	g.op("VDIVPS", 4, 1, 4)
	g.e("KORTESTW K4, K4")
	g.e("JZ %s", near)
	g.op("VMOVUPS", v, 2)
	g.e("VMOVAPS Z2, K4, Z4")
	g.op("VCMPPS", "$17", -float64(most), 7, "K4") // less
	g.op("VMOVAPS", 7, 0)
	far()
	g.e("VMOVAPS Z0, K4, Z4")
	g.label(near)
	g.op("VMOVAPS", 4, 0)
}
