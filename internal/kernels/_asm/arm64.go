package main

import (
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
)

// The kernels are written once, with the operand order and names of amd64 instructions. This file
// translates each of them to NEON. General registers map one to one. Memory operands of arithmetic
// instructions are loaded first, and constants are built in general registers. A maximum or minimum
// becomes a comparison and a selection, since those of amd64 and arm64 treat NaN and zeros
// differently. The translation uses registers V30 and V31, R6 and R7.
//
// Go's assembler lacks most floating-point vector instructions; they are written as WORDs. Their
// encodings are those of the Arm Architecture Reference Manual for A-profile (DDI 0487), section
// C7.2. The comment behind each is a disassembler's output, and a test compares the two.

var neon = isa{"NEON", "NEON", "V", 4}

func (i isa) neon() bool { return i.name == neon.name }

const (
	maskNEON = 30 // mask of comparisons
	tempNEON = 31
	// topNEON is the number of vector registers that kernels may use.
	topNEON  = 30
	rowsNEON = 6
)

var generalNEON = map[string]string{"AX": "R0", "BX": "R1", "CX": "R2", "DX": "R3", "SI": "R4", "DI": "R5",
	"R8": "R8", "R9": "R9", "R10": "R10", "R11": "R11", "R12": "R12", "R13": "R13", "R15": "R15"}

// rowRegs are the registers with the addresses of a tile's rows. amd64 computes the addresses from
// two registers.
var rowRegs = [rowsNEON]string{"R0", "R19", "R20", "R21", "R22", "R23"}

// Three-operand instructions by their amd64 names: Vd.4S = Vn op Vm, with Rm from bit 16, Rn from
// bit 5, Rd from bit 0.
var threeNEON = map[string]struct {
	code uint32
	name string
}{
	"VADDPS":  {0x4e20d400, "fadd"},
	"VSUBPS":  {0x4ea0d400, "fsub"},
	"VMULPS":  {0x6e20dc00, "fmul"},
	"VDIVPS":  {0x6e20fc00, "fdiv"},
	"VHADDPS": {0x6e20d400, "faddp"},
	"FCMEQ":   {0x4e20e400, "fcmeq"},
	"FCMGE":   {0x6e20e400, "fcmge"},
	"FCMGT":   {0x6ea0e400, "fcmgt"},
}

var twoNEON = map[string]struct {
	code uint32
	name string
}{
	"VSQRTPS":   {0x6ea1f800, "fsqrt"},
	"VCVTDQ2PS": {0x4e21d800, "scvtf"},
	"VCVTPS2DQ": {0x4e21a800, "fcvtns"},
	"$8":        {0x4e218800, "frintn"}, // the mode of VROUNDPS
	"$9":        {0x4e219800, "frintm"},
	"$10":       {0x4ea18800, "frintp"},
	"$11":       {0x4ea19800, "frintz"},
}

// nativeNEON lists the instructions that Go's assembler supports.
var nativeNEON = map[string]string{"VPADDD": "VADD V%d.S4", "VPSUBD": "VSUB V%d.S4", "VANDPS": "VAND V%d.B16",
	"VORPS": "VORR V%d.B16", "VPAND": "VAND V%d.B16", "VPOR": "VORR V%d.B16",
	"VUNPCKLPS": "VZIP1 V%d.S4", "VUNPCKHPS": "VZIP2 V%d.S4", "VUNPCKLPD": "VZIP1 V%d.D2", "VUNPCKHPD": "VZIP2 V%d.D2",
	"VXORPS": "VEOR V%d.B16"}

func (g *fn) raw(format string, a ...any) {
	g.trace()
	fmt.Fprintf(&g.body, "\t"+format+"\n", a...)
}

func (g *fn) word(code uint32, format string, a ...any) {
	g.raw("WORD $0x%08x // "+format, append([]any{code}, a...)...)
}

func (g *fn) three(name string, m, n, d int) {
	t := threeNEON[name]
	g.word(t.code|uint32(m)<<16|uint32(n)<<5|uint32(d), "%s v%d.4s, v%d.4s, v%d.4s", t.name, d, n, m)
}

func (g *fn) two(name string, n, d int) {
	t, ok := twoNEON[name]
	if !ok {
		panic(name)
	}
	g.word(t.code|uint32(n)<<5|uint32(d), "%s v%d.4s, v%d.4s", t.name, d, n)
}

// fmlaLane writes d += n·m[0].
func (g *fn) fmlaLane(m, n, d int) {
	g.word(0x4f801000|uint32(m)<<16|uint32(n)<<5|uint32(d), "fmla v%d.4s, v%d.4s, v%d.s[0]", d, n, m)
}

var memoryOperand = regexp.MustCompile(`^(-?\d*)\((\w+)\)(?:\((\w+)\*(\d)\))?$`)

func isMemory(o string) bool { return strings.HasSuffix(o, ")") }

func general(o string) string {
	if r, ok := generalNEON[o]; ok {
		return r
	}
	if strings.HasPrefix(o, "R") { // address of a row
		return o
	}
	panic("no general register for " + o)
}

// memory returns the arm64 form of a memory operand. It adds a scaled index in R7.
func (g *fn) memory(o string) string {
	if strings.HasSuffix(o, "(FP)") {
		return o
	}
	m := memoryOperand.FindStringSubmatch(o)
	if m == nil {
		panic("memory operand " + o)
	}
	base := general(m[2])
	if m[3] != "" {
		scale, _ := strconv.Atoi(m[4])
		g.raw("ADD %s<<%d, %s, R7", general(m[3]), bits.TrailingZeros(uint(scale)), base)
		base = "R7"
	}
	return m[1] + "(" + base + ")"
}

// value returns a general register that holds the operand, or the immediate itself.
func (g *fn) value(o string) string {
	switch {
	case strings.HasPrefix(o, "$"):
		return o
	case isMemory(o):
		g.raw("MOVD %s, R6", g.memory(o))
		return "R6"
	}
	return general(o)
}

func vectorNumber(o string) int {
	n, err := strconv.Atoi(strings.TrimLeft(o, "VX"))
	if err != nil {
		panic("vector register " + o)
	}
	return n
}

// vector returns a vector register that holds the operand. It loads memory and constants into
// register t.
func (g *fn) vector(o string, t int) int {
	switch {
	case strings.HasPrefix(o, "#"):
		g.constant(o, t)
	case isMemory(o):
		g.raw("FMOVQ %s, F%d", g.memory(o), t)
	default:
		return vectorNumber(o)
	}
	return t
}

func (g *fn) constant(o string, d int) {
	if o == "#00000000" {
		g.raw("VEOR V%d.B16, V%d.B16, V%d.B16", d, d, d)
		return
	}
	g.raw("MOVD $0x%s, R6", o[1:])
	g.raw("VDUP R6, V%d.S4", d)
}

func (g *fn) move(s, d int) {
	if s != d {
		g.raw("VMOV V%d.B16, V%d.B16", s, d)
	}
}

// choose sets d to t in lanes where the mask is set, otherwise to f.
func (g *fn) choose(mask, t, f, d int) {
	switch d {
	case f:
		g.raw("VBIT V%d.B16, V%d.B16, V%d.B16", mask, t, d)
	case t:
		g.raw("VBIF V%d.B16, V%d.B16, V%d.B16", mask, f, d)
	default:
		g.raw("VBSL V%d.B16, V%d.B16, V%d.B16", f, t, mask)
		g.move(mask, d)
	}
}

func (g *fn) selNEON(pred, a int, b, t any, f, d int) {
	operand := func(o any) int {
		switch o := o.(type) {
		case int:
			return o
		case float64:
			return g.vector(g.c(o), tempNEON)
		}
		panic(fmt.Sprint(o))
	}
	invert := false
	switch n := operand(b); pred {
	case eq:
		g.three("FCMEQ", n, a, maskNEON)
	case lt, nlt:
		g.three("FCMGT", a, n, maskNEON)
		invert = pred == nlt
	case le:
		g.three("FCMGE", a, n, maskNEON)
	case gt:
		g.three("FCMGT", n, a, maskNEON)
	case ge:
		g.three("FCMGE", n, a, maskNEON)
	case uno:
		if n != a {
			panic("uno compares a register with itself")
		}
		g.three("FCMEQ", a, a, maskNEON)
		invert = true
	default:
		panic("predicate")
	}
	if x := operand(t); invert {
		g.choose(maskNEON, f, x, d)
	} else {
		g.choose(maskNEON, x, f, d)
	}
}

// pointRows sets rowRegs to the addresses of mr rows, which start at AX with stride R8.
func (g *fn) pointRows(mr int) {
	for r := 1; r < mr; r++ {
		g.raw("ADD R8, %s, %s", rowRegs[r-1], rowRegs[r])
	}
}

// rowLane multiplies the first nv registers by the element at mem and adds the products to the
// sums.
func (g *fn) rowLane(mem string, nv, t int, acc func(j int) int) {
	g.raw("FMOVS %s, F%d", mem, t)
	for j := range nv {
		g.fmlaLane(t, j, acc(j))
	}
}

func (g *fn) advanceRows(mr int, operand string) {
	v := g.value(operand)
	for r := range mr {
		g.raw("ADD %s, %s", v, rowRegs[r])
	}
}

var jumpsNEON = map[string]string{"JMP": "B", "JZ": "BEQ", "JEQ": "BEQ", "JNZ": "BNE", "JNE": "BNE",
	"JLT": "BLT", "JGE": "BGE"}

// translate translates an amd64 instruction to arm64.
func (g *fn) translate(s string) {
	name, rest, _ := strings.Cut(s, " ")
	o := strings.Split(rest, ", ")
	last := o[len(o)-1]
	if j, ok := jumpsNEON[name]; ok {
		g.raw("%s %s", j, rest)
		return
	}
	if _, ok := threeNEON[name]; ok {
		g.three(name, g.vector(o[0], tempNEON), vectorNumber(o[1]), vectorNumber(o[2]))
		return
	}
	if n, ok := nativeNEON[name]; ok {
		m, a, d := g.vector(o[0], tempNEON), vectorNumber(o[1]), vectorNumber(o[2])
		arrangement := n[strings.Index(n, ".")+1:]
		g.raw("%s V%d.%s, V%d.%s, V%d.%s", n[:strings.Index(n, " ")], m, arrangement, a, arrangement, d, arrangement)
		return
	}
	switch name {
	case "VZEROUPPER", "PREFETCHT0", "PREFETCHT1", "PCALIGN":
	case "RET":
		g.raw("RET")
	case "MOVQ", "MOVL":
		switch {
		case isMemory(last):
			panic(s)
		case isMemory(o[0]):
			g.raw("MOVD %s, %s", g.memory(o[0]), general(last))
		default:
			g.raw("MOVD %s, %s", g.value(o[0]), general(last))
		}
	case "ADDQ":
		g.raw("ADDS %s, %s", g.value(o[0]), general(last))
	case "ANDQ":
		g.raw("AND %s, %s", g.value(o[0]), general(last))
	case "SHRQ":
		g.raw("LSR %s, %s", g.value(o[0]), general(last))
	case "SHLQ":
		g.raw("LSL %s, %s", g.value(o[0]), general(last))
	case "SUBQ":
		g.raw("SUBS %s, %s", g.value(o[0]), general(last))
	case "DECQ", "DECL":
		g.raw("SUBS $1, %s", general(last))
	case "LEAQ":
		m := g.memory(o[0])
		if m != "(R7)" {
			panic(s)
		}
		g.raw("MOVD R7, %s", general(last))
	case "CMPQ":
		g.raw("CMP %s, %s", o[1], g.value(o[0]))
	case "TESTQ":
		g.raw("CMP $0, %s", general(last))
	case "VMOVUPS", "VMOVAPS":
		switch {
		case isMemory(last):
			g.raw("FMOVQ F%d, %s", vectorNumber(o[0]), g.memory(last))
		default:
			d := vectorNumber(last)
			g.move(g.vector(o[0], d), d)
		}
	case "VMOVSS":
		if isMemory(last) {
			g.raw("FMOVS F%d, %s", vectorNumber(o[0]), g.memory(last))
		} else {
			g.raw("FMOVS %s, F%d", g.memory(o[0]), vectorNumber(last))
		}
	case "VBROADCASTSS":
		d := vectorNumber(last)
		n := d
		if isMemory(o[0]) {
			g.raw("FMOVS %s, F%d", g.memory(o[0]), d)
		} else {
			n = vectorNumber(o[0])
		}
		g.raw("VDUP V%d.S[0], V%d.S4", n, d)
	case "VCVTPH2PS":
		d := vectorNumber(last)
		g.raw("FMOVD %s, F%d", g.memory(o[0]), d)
		g.word(0x0e217800|uint32(d)<<5|uint32(d), "fcvtl v%d.4s, v%d.4h", d, d)
	case "VPMOVZXWD":
		d := vectorNumber(o[1])
		g.raw("FMOVD %s, F%d", g.memory(o[0]), d)
		g.raw("VUXTL V%d.H4, V%d.S4", d, d)
	case "VPMOVSXBD", "VPMOVZXBD":
		d := vectorNumber(o[1])
		code, text := uint32(0x0f08a400), "sshll"
		if name == "VPMOVZXBD" {
			code, text = 0x2f08a400, "ushll"
		}
		g.raw("FMOVS %s, F%d", g.memory(o[0]), d)
		g.word(code|uint32(d)<<5|uint32(d), "%s v%d.8h, v%d.8b, #0", text, d, d)
		g.word(code^0x180000|uint32(d)<<5|uint32(d), "%s v%d.4s, v%d.4h, #0", text, d, d)
	case "VCVTPS2PH":
		g.narrowNEON("fcvtn", vectorNumber(o[1]))
		g.raw("FMOVD F%d, %s", vectorNumber(o[1]), g.memory(last))
	case "VPERMILPS": // the halves, or adjacent elements
		n := map[string]int{"$0x4e": 8, "$0xb1": 4}[strings.ToLower(o[0])]
		a, d := vectorNumber(o[1]), vectorNumber(o[2])
		if n == 8 {
			g.raw("VEXT $8, V%d.B16, V%d.B16, V%d.B16", a, a, d)
		} else {
			g.raw("VREV64 V%d.S4, V%d.S4", a, d)
		}
	case "VFMADD231PS", "VFNMADD231PS":
		op := map[bool]string{false: "VFMLA", true: "VFMLS"}[name[2] == 'N']
		g.raw("%s V%d.S4, V%d.S4, V%d.S4", op, g.vector(o[0], tempNEON), vectorNumber(o[1]), vectorNumber(o[2]))
	case "VFMADD213PS":
		g.move(g.vector(o[0], tempNEON), tempNEON)
		g.raw("VFMLA V%d.S4, V%d.S4, V%d.S4", vectorNumber(o[1]), vectorNumber(o[2]), tempNEON)
		g.move(tempNEON, vectorNumber(o[2]))
	case "VMAXPS", "VMINPS":
		second, first := g.vector(o[0], tempNEON), vectorNumber(o[1])
		if name == "VMAXPS" {
			g.three("FCMGT", second, first, maskNEON)
		} else {
			g.three("FCMGT", first, second, maskNEON)
		}
		g.choose(maskNEON, first, second, vectorNumber(o[2]))
	case "VSQRTPS", "VCVTDQ2PS", "VCVTPS2DQ":
		g.two(name, g.vector(o[0], tempNEON), vectorNumber(last))
	case "VROUNDPS":
		g.two(o[0], g.vector(o[1], tempNEON), vectorNumber(last))
	case "VPSRAD":
		n, _ := strconv.Atoi(o[0][1:])
		a, d := vectorNumber(o[1]), vectorNumber(o[2])
		g.word(0x4f000400|uint32(64-n)<<16|uint32(a)<<5|uint32(d), "sshr v%d.4s, v%d.4s, #%d", d, a, n)
	case "VPSRLD":
		g.raw("VUSHR %s, V%d.S4, V%d.S4", o[0], vectorNumber(o[1]), vectorNumber(o[2]))
	case "VPSLLD":
		g.raw("VSHL %s, V%d.S4, V%d.S4", o[0], vectorNumber(o[1]), vectorNumber(o[2]))
	default:
		panic("no translation of " + s)
	}
}

// narrowNEON halves the width of the four elements of a register, in place: xtn keeps the low bits,
// fcvtn rounds to binary16.
func (g *fn) narrowNEON(name string, r int) {
	code := map[string]uint32{"xtn": 0x0e612800, "fcvtn": 0x0e216800}[name]
	g.word(code|uint32(r)<<5|uint32(r), "%s v%d.4h, v%d.4s", name, r, r)
}

// truncateNEON loads floats into register 0 and converts them to integers. NaN and numbers that are
// too large become the smallest integer; fcvtzs itself returns it for numbers that are too small.
func (g *fn) truncateNEON(mem string) {
	g.op("VMOVUPS", mem, 0)
	g.op("VMOVUPS", float64(1<<31), 1)
	g.three("FCMGT", 0, 1, 2)
	g.word(0x4ea1b800, "fcvtzs v0.4s, v0.4s")
	g.op("VMOVUPS", uint32(0x80000000), 1)
	g.choose(2, 0, 1, 0)
}

// compareNEON compares register 0 with the second input and stores four bools.
func (g *fn) compareNEON(pred int) {
	g.op("VMOVUPS", "(DX)", 1)
	switch pred {
	case lt:
		g.three("FCMGT", 0, 1, 0)
	case le:
		g.three("FCMGE", 0, 1, 0)
	case eq:
		g.three("FCMEQ", 0, 1, 0)
	default:
		panic("predicate")
	}
	g.op("VPSRLD", "$31", 0, 0)
	g.narrowNEON("xtn", 0)
	g.word(0x0e212800, "xtn v0.8b, v0.8h")
	g.e("VMOVSS V0, (DI)")
}

// selectNEON selects the first input where the bool is not zero, otherwise the second.
func (g *fn) selectNEON() {
	g.op("VPMOVZXBD", "(BX)", 1)
	g.word(0x4ea18c21, "cmtst v1.4s, v1.4s, v1.4s")
	g.op("VMOVUPS", "(SI)", 0)
	g.op("VMOVUPS", "(DX)", 2)
	g.choose(1, 0, 2, 0)
	g.op("VMOVUPS", 0, "(DI)")
}
