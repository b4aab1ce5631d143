package main

import (
	"fmt"
	"strings"
)

// reduction reduces slices to one float32 per call. Go code combines the calls.
type reduction struct {
	family  string
	name    string // name of the assembly and of the generic function, without F32
	disp    string // name of the dispatcher
	ins     []string
	scalar  string
	dst     bool // also writes a slice
	minmax  string
	initial uint32
	body    func(g *fn, acc int, in [2]int) // adds vector in to accumulator acc; may use 5 to 9 with one accumulator
	accs    int
	tables  tables // for AVX-512, in registers from firstTable on
}

func (k *reduction) params() string {
	s := ""
	if k.dst {
		s = "dst, "
	}
	s += strings.Join(k.ins, ", ") + " []float32"
	if k.scalar != "" {
		s += ", " + k.scalar + " float32"
	}
	return s
}

func (k *reduction) args() string {
	var a []string
	if k.dst {
		a = append(a, "dst")
	}
	a = append(a, k.ins...)
	if k.scalar != "" {
		a = append(a, k.scalar)
	}
	return strings.Join(a, ", ")
}

func (k *reduction) emit(f *file, i isa) {
	var args []arg
	if k.dst {
		args = append(args, arg{"dst", "*float32"})
	}
	for _, n := range k.ins {
		args = append(args, arg{n, "*float32"})
	}
	args = append(args, arg{"n", "int"})
	if k.scalar != "" {
		args = append(args, arg{k.scalar, "float32"})
	}
	g := f.function(k.name+"F32"+i.name, i, args, &arg{"r", "float32"})
	if k.dst {
		g.arg("dst", "DI")
	}
	for j, n := range k.ins {
		g.arg(n, memRegs[j])
	}
	g.arg("n", "CX")
	if k.scalar != "" {
		g.bcast(k.scalar, scalarReg(0))
	}
	if k.tables != nil && i.width == 16 {
		g.hoist(k.tables.load(g, k.name, firstTable), 31, func(g *fn) { k.body(g, 8, [2]int{0, 1}) })
	}
	acc := func(u int) int { return 8 + u%k.accs } // 8..11
	for u := range k.accs {
		if k.minmax == "" {
			g.op("VXORPS", acc(u), acc(u), acc(u))
		} else {
			g.op("VMOVUPS", k.initial, acc(u))
		}
	}
	bytes := i.width * 4
	vector := func(u, off int) {
		in := [2]int{0, 1}
		if k.accs > 1 {
			in = [2]int{u % 4 * 2, u%4*2 + 1}
		}
		for j := range k.ins {
			g.load(fmt.Sprintf("%d(%s)", off, memRegs[j]), in[j])
		}
		k.body(g, acc(u), in)
		if k.dst {
			g.store(0, fmt.Sprintf("%d(DI)", off))
		}
	}
	advance := func(bytes, elements int) {
		for j := range k.ins {
			g.e("ADDQ $%d, %s", bytes, memRegs[j])
		}
		if k.dst {
			g.e("ADDQ $%d, DI", bytes)
		}
		g.e("SUBQ $%d, CX", elements)
	}
	if k.accs > 1 {
		g.label("loop4")
		g.e("CMPQ CX, $%d", 4*i.width)
		g.e("JLT loop1")
		for u := range 4 {
			vector(u, u*bytes)
		}
		advance(4*bytes, 4*i.width)
		g.e("JMP loop4")
	}
	g.label("loop1")
	g.e("CMPQ CX, $%d", i.width)
	g.e("JLT tail")
	vector(0, 0)
	advance(bytes, i.width)
	g.e("JMP loop1")
	g.label("tail")
	g.e("TESTQ CX, CX")
	g.e("JZ done")
	g.tail(func() { vector(0, 0) }, advance)
	g.label("done")
	combine := func(a, b, t int) {
		if k.minmax == "" {
			g.op("VADDPS", b, a, a)
			return
		}
		g.op(k.minmax, b, a, t)
		g.sel(uno, a, a, a, t, a)
	}
	for u := k.accs - 1; u > 0; u-- {
		combine(8, 8+u, 0)
	}
	// Halve the lanes; from 256 bits on with AVX2 instructions.
	h := g
	if i.width == 16 {
		g.e("VEXTRACTF64X4 $1, Z8, Y9")
		h = &fn{file: g.file, isa: avx2, off: g.off}
	}
	step := func(prep string) {
		h.e("%s", prep)
		if k.minmax == "" {
			h.op("VADDPS", 9, 8, 8)
			return
		}
		h.op(k.minmax, 9, 8, 0)
		h.sel(uno, 8, 8, 8, 0, 8)
	}
	if i.width == 16 {
		step("")
	}
	if !g.neon() {
		step("VEXTRACTF128 $1, Y8, X9")
	}
	step("VPERMILPS $0x4E, " + h.r(8) + ", " + h.r(9))
	step("VPERMILPS $0xB1, " + h.r(8) + ", " + h.r(9))
	g.e("VMOVSS X8, r+%d(FP)", g.off["r"])
	g.e("VZEROUPPER")
	g.e("RET")
}

func (k *reduction) ret() string {
	if k.minmax == "" {
		return "float64"
	}
	return "float32"
}

func (k *reduction) neon() bool { return true }

func (k *reduction) dispatch(isas []isa) string {
	var o strings.Builder
	fmt.Fprintf(&o, "\nfunc %sF32(l cpu.Level, %s) %s {\n", k.disp, k.params(), k.ret())
	var slices []string
	if k.dst {
		slices = append(slices, "dst")
	}
	slices = append(slices, k.ins...)
	for _, n := range slices[1:] {
		fmt.Fprintf(&o, "\t%s = %s[:len(%s)]\n", n, n, slices[0])
	}
	walk := slices[0]
	var others []string
	for _, i := range isas {
		others = append(others, "l != cpu."+i.level)
	}
	fmt.Fprintf(&o, "\tif %s {\n\t\treturn %sF32Generic(%s)\n\t}\n", strings.Join(others, " && "), k.name, k.args())
	if k.minmax == "" {
		o.WriteString("\tvar s float64\n")
	} else {
		fmt.Fprintf(&o, "\ts := %sF32Generic(nil)\n", k.name)
	}
	most := "chunk"
	if isas[0].neon() { // a lane adds at most as many numbers as with AVX2, so its error bounds hold
		most = "chunk/2"
	}
	fmt.Fprintf(&o, "\tfor len(%s) > 0 {\n\t\tn := min(len(%s), %s)\n", walk, walk, most)
	var call, right []string
	for _, n := range slices {
		call = append(call, "&"+n+"[0]")
		right = append(right, n+"[n:]")
	}
	call = append(call, "n")
	if k.scalar != "" {
		call = append(call, k.scalar)
	}
	c := strings.Join(call, ", ")
	if len(isas) == 1 {
		fmt.Fprintf(&o, "\t\tr := %sF32%s(%s)\n", k.name, isas[0].name, c)
	} else {
		fmt.Fprintf(&o, "\t\tvar r float32\n\t\tif l == cpu.AVX512 {\n\t\t\tr = %sF32AVX512(%s)\n\t\t} else {\n"+
			"\t\t\tr = %sF32AVX2(%s)\n\t\t}\n", k.name, c, k.name, c)
	}
	switch k.minmax {
	case "":
		o.WriteString("\t\ts += float64(r)\n")
	case "VMAXPS":
		o.WriteString("\t\ts = max(s, r)\n")
	default:
		o.WriteString("\t\ts = min(s, r)\n")
	}
	fmt.Fprintf(&o, "\t\t%s = %s\n\t}\n\treturn s\n}\n", strings.Join(slices, ", "), strings.Join(right, ", "))
	return o.String()
}

func (k *reduction) noasm() string {
	return fmt.Sprintf("\nfunc %sF32(_ cpu.Level, %s) %s { return %sF32Generic(%s) }\n", k.disp, k.params(),
		k.ret(), k.name, k.args())
}

func init() {
	for _, k := range reductions() {
		add(k.family, k)
	}
}

func reductions() []*reduction {
	s0 := scalarReg(0)
	ks := []*reduction{
		{name: "sum", disp: "sum64", body: func(g *fn, acc int, in [2]int) { g.op("VADDPS", in[0], acc, acc) }},
		{name: "dot", disp: "dot64", ins: []string{"a", "b"},
			body: func(g *fn, acc int, in [2]int) { g.op("VFMADD231PS", in[0], in[1], acc) }},
		{name: "sumSquares", disp: "sumSquares64", scalar: "center", body: func(g *fn, acc int, in [2]int) {
			g.op("VSUBPS", s0, in[0], in[0])
			g.zeroTail(in[0])
			g.op("VFMADD231PS", in[0], in[0], acc)
		}},
		{name: "sumAbs", disp: "sumAbs64", body: func(g *fn, acc int, in [2]int) {
			g.op("VANDPS", absBits, in[0], in[0])
			g.op("VADDPS", in[0], acc, acc)
		}},
		{name: "reduceMax", disp: "reduceMax", minmax: "VMAXPS", initial: 0xff800000},
		{name: "reduceMin", disp: "reduceMin", minmax: "VMINPS", initial: 0x7f800000},
		{name: "expSubSum", disp: "expSubSum64", dst: true, scalar: "shift", accs: 1, family: "norm", tables: expTable,
			body: func(g *fn, acc int, in [2]int) {
				g.op("VSUBPS", s0, 0, 0)
				if g.width == 16 {
					g.smallExp(firstTable, 0, 1, 2, 3)
				} else {
					g.clampHigh(89, 0, 1)
					g.expTo(0, 1, 2)
				}
				g.zeroTail(0)
				g.op("VADDPS", 0, acc, acc)
			}},
	}
	for _, k := range ks {
		if k.ins == nil {
			k.ins = []string{"x"}
		}
		if k.family == "" {
			k.family = "reduce"
		}
		if k.accs == 0 {
			k.accs = 4
		}
		if k.minmax != "" {
			k.body = extreme(k.minmax, k.initial)
		}
	}
	return ks
}

// extreme combines a vector with the running minima or maxima. Operand order and a selection
// propagate NaN of both.
func extreme(op string, initial uint32) func(g *fn, acc int, in [2]int) {
	return func(g *fn, acc int, in [2]int) {
		if g.masked {
			g.fillTail(in[0], initial)
		}
		g.op(op, in[0], acc, in[1])
		g.sel(uno, acc, acc, acc, in[1], acc)
	}
}

// zeroTail clears the lanes beyond the end.
func (g *fn) zeroTail(r int) {
	switch {
	case !g.masked:
	case g.neon():
		g.raw("FMOVS F%d, F%d", r, r)
	case g.width == 16:
		g.op("VMOVAPS.Z", r, "K1", r)
	default:
		g.op("VANDPS", maskReg, r, r)
	}
}

// fillTail sets the lanes beyond the end to a constant.
func (g *fn) fillTail(r int, bits uint32) {
	if g.neon() {
		t := g.vector(g.ci(bits), tempNEON)
		g.move(t, maskNEON)
		g.raw("VMOV V%d.S[0], V%d.S[0]", r, maskNEON)
		g.move(maskNEON, r)
		return
	}
	g.op("VMOVUPS", bits, 7)
	if g.width == 16 {
		g.op("VBLENDMPS", r, 7, "K1", r)
	} else {
		g.op("VBLENDVPS", maskReg, r, 7, r)
	}
}
