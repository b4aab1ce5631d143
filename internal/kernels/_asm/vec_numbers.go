package main

import "fmt"

// lowHalves sets register 0 to the low 32 bits of the eight elements in registers 0 and 1, with
// AVX2.
func (g *fn) lowHalves() {
	g.e("VSHUFPS $0x88, Y1, Y0, Y0")
	g.e("VPERMQ $0xD8, Y0, Y0")
}

// storeBytes stores the low byte of each 32-bit element of register 0. Register 1 is free.
func (g *fn) storeBytes(d string) {
	if g.width == 16 {
		g.e("VPMOVDB Z0, %s", d)
		return
	}
	g.e("VPAND %s, Y0, Y0", g.ci(0xff))
	g.e("VEXTRACTI128 $1, Y0, X1")
	g.e("VPACKUSDW X1, X0, X0")
	g.e("VPACKUSWB X0, X0, X0")
	g.e("VMOVQ X0, %s", d)
}

// storeTruth stores the mask in K1, or that in register 0 for AVX2, as bools. If inverted is set,
// it stores the complement of AVX2's mask. Register 1 is free.
func (g *fn) storeTruth(d string, inverted bool) {
	ones := g.ci(0x01010101)
	if g.width == 16 {
		g.e("VMOVDQU %s, X1", ones)
		g.e("VMOVDQU8.Z X1, K1, X1")
		g.e("VMOVDQU X1, %s", d)
		return
	}
	g.e("VEXTRACTF128 $1, Y0, X1")
	g.e("VPACKSSDW X1, X0, X0")
	g.e("VPACKSSWB X0, X0, X0")
	op := "VPAND"
	if inverted {
		op = "VPANDN"
	}
	g.e("%s %s, X0, X0", op, ones)
	g.e("VMOVQ X0, %s", d)
}

// offset adds n to the displacement of a memory operand.
func offset(n int, mem string) string { return fmt.Sprintf("%d%s", n, mem) }

// casts lists the conversions that are not supported with NEON.
func casts() []*conversion {
	cast := func(name, src, dst string, body func(g *fn, s, d string)) *conversion {
		return &conversion{name: name, src: src, dst: dst, body: body, amd64: true}
	}
	// halves applies an instruction to both halves of a vector's elements.
	halves := func(op string, from, to int, narrow bool) func(g *fn, s, d string) {
		return func(g *fn, s, d string) {
			half := g.width / 2
			for k := range 2 {
				src, dst := offset(k*half*from, s), offset(k*half*to, d)
				if !narrow {
					g.op(op, src, 0)
					g.op("VMOVUPS", 0, dst)
					continue
				}
				name, reg := op, "Y0"
				if g.width == 8 {
					name, reg = op+"Y", "X0"
				}
				g.e("VMOVUPS %s, %s", src, g.r(1))
				if g.width == 8 {
					g.e("%s Y1, %s", name, reg)
				} else {
					g.e("%s Z1, %s", name, reg)
				}
				g.e("VMOVUPS %s, %s", reg, dst)
			}
		}
	}
	only := func(k *conversion) *conversion { k.only = avx512.name; return k }
	least := func(g *fn, s, d string) { // whether bytes are not zero
		if g.width == 16 {
			g.e("VMOVDQU %s, X0", s)
		} else {
			g.e("VMOVQ %s, X0", s)
		}
		g.e("VPMINUB %s, X0, X0", g.ci(0x01010101))
		if g.width == 16 {
			g.e("VMOVDQU X0, %s", d)
		} else {
			g.e("VMOVQ X0, %s", d)
		}
	}
	load64 := func(g *fn, s string) {
		g.op("VMOVUPS", s, 0)
		g.op("VMOVUPS", offset(g.width*4, s), 1)
	}
	widen := func(op string) func(g *fn, s, d string) {
		return func(g *fn, s, d string) {
			g.op(op, s, 0)
			g.op("VMOVUPS", 0, d)
		}
	}
	// shorts truncates and saturates; NaN, which VCVTTPS2DQ converts to the least int32, becomes
	// the least element.
	shorts := func(pack, narrow string, signed bool) func(g *fn, s, d string) {
		return func(g *fn, s, d string) {
			g.op("VCVTTPS2DQ", s, 0)
			if g.width == 16 {
				if !signed {
					g.op("VPXORD", 1, 1, 1)
					g.op("VPMAXSD", 1, 0, 0)
				}
				g.op(narrow, 0, d)
				return
			}
			g.e("VEXTRACTI128 $1, Y0, X1")
			g.e("%s X1, X0, X0", pack)
			g.e("VMOVDQU X0, %s", d)
		}
	}
	return []*conversion{
		cast("f32ToU8", "float32", "uint8", func(g *fn, s, d string) {
			g.op("VCVTTPS2DQ", s, 0)
			g.storeBytes(d)
		}),
		cast("f32ToI16", "float32", "int16", shorts("VPACKSSDW", "VPMOVSDW", true)),
		cast("f32ToU16", "float32", "uint16", shorts("VPACKUSDW", "VPMOVUSDW", false)),
		cast("i16ToF32", "int16", "float32", widenToFloat("VPMOVSXWD")),
		cast("u16ToF32", "uint16", "float32", widenToFloat("VPMOVZXWD")),
		cast("i32ToU8", "int32", "uint8", func(g *fn, s, d string) {
			g.op("VMOVUPS", s, 0)
			g.storeBytes(d)
		}),
		cast("i64ToU8", "int64", "uint8", func(g *fn, s, d string) {
			load64(g, s)
			if g.width == 16 {
				g.e("VPMOVQB Z0, %s", d)
				g.e("VPMOVQB Z1, %s", offset(8, d))
				return
			}
			g.lowHalves()
			g.storeBytes(d)
		}),
		cast("i64ToI32", "int64", "int32", func(g *fn, s, d string) {
			load64(g, s)
			if g.width == 16 {
				g.e("VPMOVQD Z0, %s", d)
				g.e("VPMOVQD Z1, %s", offset(32, d))
				return
			}
			g.lowHalves()
			g.e("VMOVUPS Y0, %s", d)
		}),
		cast("f32ToBool", "float32", "uint8", func(g *fn, s, d string) {
			g.op("VXORPS", 0, 0, 0)
			if g.width == 16 {
				g.e("VCMPPS $4, %s, Z0, K1", s)
			} else {
				g.e("VCMPPS $4, %s, Y0, Y0", s)
			}
			g.storeTruth(d, false)
		}),
		cast("i32ToBool", "int32", "uint8", func(g *fn, s, d string) {
			g.op("VXORPS", 0, 0, 0)
			if g.width == 16 {
				g.e("VPCMPD $4, %s, Z0, K1", s)
			} else {
				g.e("VPCMPEQD %s, Y0, Y0", s)
			}
			g.storeTruth(d, true)
		}),
		cast("i64ToBool", "int64", "uint8", func(g *fn, s, d string) {
			g.op("VXORPS", 0, 0, 0)
			if g.width == 16 {
				g.e("VPCMPQ $4, %s, Z0, K1", s)
				g.e("VPCMPQ $4, %s, Z0, K2", offset(64, s))
				g.e("KUNPCKBW K1, K2, K1")
			} else {
				g.e("VPCMPEQQ %s, Y0, Y1", offset(32, s))
				g.e("VPCMPEQQ %s, Y0, Y0", s)
				g.lowHalves()
			}
			g.storeTruth(d, true)
		}),
		cast("u8ToBool", "uint8", "uint8", least),
		cast("u8ToI32", "uint8", "int32", widen("VPMOVZXBD")),
		cast("i8ToI32", "int8", "int32", widen("VPMOVSXBD")),
		cast("u8ToI64", "uint8", "int64", halves("VPMOVZXBQ", 1, 8, false)),
		cast("i8ToI64", "int8", "int64", halves("VPMOVSXBQ", 1, 8, false)),
		cast("i32ToI64", "int32", "int64", halves("VPMOVSXDQ", 4, 8, false)),
		cast("f32ToF64", "float32", "float64", halves("VCVTPS2PD", 4, 8, false)),
		cast("i32ToF64", "int32", "float64", halves("VCVTDQ2PD", 4, 8, false)),
		cast("addF32ToF64", "float32", "float64", func(g *fn, s, d string) {
			for k := range 2 {
				at := offset(k*g.width/2*8, d)
				g.op("VCVTPS2PD", offset(k*g.width/2*4, s), 0)
				g.op("VADDPD", at, 0, 0)
				g.op("VMOVUPS", 0, at)
			}
		}),
		cast("f64ToF32", "float64", "float32", halves("VCVTPD2PS", 8, 4, true)),
		cast("f64ToI32", "float64", "int32", halves("VCVTTPD2DQ", 8, 4, true)),
		only(cast("f32ToI64", "float32", "int64", halves("VCVTTPS2QQ", 4, 8, false))),
		only(cast("f64ToI64", "float64", "int64", halves("VCVTTPD2QQ", 8, 8, false))),
		only(cast("i64ToF32", "int64", "float32", halves("VCVTQQ2PS", 8, 4, true))),
		only(cast("i64ToF64", "int64", "float64", halves("VCVTQQ2PD", 8, 8, false))),
	}
}

// byteComparisons lists the comparisons of int8 and uint8. Masks of −1 become 1.
func byteComparisons() (ks []*choice) {
	add := func(name, typ, twin string, pred int, avx2 func(g *fn)) {
		ks = append(ks, &choice{name: name, args: [][2]string{{"dst", "bool"}, {"a", typ}, {"b", typ}}, amd64: true,
			whole: true, twin: twin, body: func(g *fn) {
				g.op("VMOVUPS", "(SI)", 0)
				g.op("VMOVUPS", "(DX)", 1)
				if g.width == 16 {
					op := "VPCMPUB"
					if typ == "int8" {
						op = "VPCMPB"
					}
					g.e("%s $%d, Z1, Z0, K1", op, pred)
					g.e("VPMOVM2B K1, Z0")
					g.e("VPABSB Z0, Z0")
				} else {
					avx2(g)
				}
				g.op("VMOVUPS", 0, "(DI)")
			}})
	}
	truth := func(g *fn) { g.e("VPABSB Y0, Y0") }
	inverted := func(g *fn) {
		g.e("VPCMPEQB Y2, Y2, Y2")
		g.e("VPSUBB Y2, Y0, Y0")
	}
	add("equalU8", "uint8", "equalBytes", eq, func(g *fn) {
		g.e("VPCMPEQB Y1, Y0, Y0")
		truth(g)
	})
	add("lessU8", "uint8", "lessLoop", lt, func(g *fn) {
		g.e("VPMINUB Y1, Y0, Y0")
		g.e("VPCMPEQB Y1, Y0, Y0")
		inverted(g)
	})
	add("lessOrEqualU8", "uint8", "lessOrEqualLoop", le, func(g *fn) {
		g.e("VPMINUB Y1, Y0, Y1")
		g.e("VPCMPEQB Y1, Y0, Y0")
		truth(g)
	})
	add("lessI8", "int8", "lessLoop", lt, func(g *fn) {
		g.e("VPCMPGTB Y0, Y1, Y0")
		truth(g)
	})
	add("lessOrEqualI8", "int8", "lessOrEqualLoop", le, func(g *fn) {
		g.e("VPCMPGTB Y1, Y0, Y0")
		inverted(g)
	})
	return ks
}

// numberComparisons lists the comparisons of 32- and 64-bit integers and of float64.
func numberComparisons() (ks []*choice) {
	for _, c := range []struct {
		name string
		pred int
	}{{"less", lt}, {"lessOrEqual", le}, {"equal", eq}} {
		for _, typ := range []string{"int32", "int64", "uint32"} {
			size := typeSize[typ]
			letter := map[string]string{"int32": "D", "int64": "Q", "uint32": "UD"}[typ]
			if typ == "uint32" && c.pred == eq {
				continue // that of int32
			}
			body := func(g *fn) {
				vectors := size / 4
				for v := range vectors {
					at := offset(v*4*g.width, "(SI)")
					with := offset(v*4*g.width, "(DX)")
					switch {
					case g.width == 16:
						g.op("VMOVUPS", at, v)
						g.e("VPCMP%s $%d, %s, Z%d, K%d", letter, c.pred, with, v, v+1)
					case c.pred == lt:
						g.op("VMOVUPS", with, v)
						g.e("VPCMPGT%s %s, Y%d, Y%d", letter, at, v, v)
					case c.pred == le:
						g.op("VMOVUPS", at, v)
						g.e("VPCMPGT%s %s, Y%d, Y%d", letter, with, v, v)
					default:
						g.op("VMOVUPS", at, v)
						g.e("VPCMPEQ%s %s, Y%d, Y%d", letter, with, v, v)
					}
				}
				switch {
				case vectors == 2 && g.width == 16:
					g.e("KUNPCKBW K1, K2, K1")
				case vectors == 2:
					g.lowHalves()
				}
				g.storeTruth("(DI)", c.pred == le)
			}
			k := &choice{name: c.name + map[string]string{"int32": "I32", "int64": "I64", "uint32": "U32"}[typ],
				args: [][2]string{{"dst", "bool"}, {"a", typ}, {"b", typ}}, body: body, amd64: true,
				twin: c.name + "Loop"}
			if typ == "uint32" {
				k.only = avx512.name
			}
			ks = append(ks, k)
		}
		ks = append(ks, &choice{name: c.name + "F64", args: [][2]string{{"dst", "bool"}, {"a", "float64"},
			{"b", "float64"}}, amd64: true, twin: c.name + "Loop", body: func(g *fn) {
			for v := range 2 {
				g.op("VMOVUPS", offset(v*4*g.width, "(SI)"), v)
				if with := offset(v*4*g.width, "(DX)"); g.width == 16 {
					g.e("VCMPPD $%d, %s, Z%d, K%d", c.pred, with, v, v+1)
				} else {
					g.e("VCMPPD $%d, %s, Y%d, Y%d", c.pred, with, v, v)
				}
			}
			if g.width == 16 {
				g.e("KUNPCKBW K1, K2, K1")
			} else {
				g.lowHalves()
			}
			g.storeTruth("(DI)", false)
		}})
	}
	return ks
}
