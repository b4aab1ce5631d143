package main

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
)

// frame is the frame size of every kernel. From 128 bytes on, the assembler inserts the stack check
// in the prologue, which lets the garbage collector stop a goroutine between kernels.
const frame = 136

// isa is a target instruction set.
type isa struct {
	name  string // suffix of the functions
	level string // constant of package cpu
	reg   string // register prefix
	width int    // float32 lanes
}

var (
	avx2   = isa{"AVX2", "AVX2", "Y", 8}
	avx512 = isa{"AVX512", "AVX512", "Z", 16}
	isas   = []isa{avx512, avx2}
)

// file collects the functions and constants of one assembly file.
type file struct {
	body    strings.Builder
	stubs   strings.Builder
	consts  map[uint32]bool
	order   []uint32        // constants by first use
	tables  []string        // DATA lines
	doubles map[uint64]bool // constants of 64 bits
	mask    bool
	name    string
	origins []origin
	kernel  int // index of the kernel under construction in origins
	arm64   bool
}

func newFile(name string) *file { return &file{name: name, consts: map[uint32]bool{}} }

// text returns the assembly file.
func (f *file) text() string {
	var o strings.Builder
	o.WriteString(f.header() + "//go:build !purego\n\n#include \"textflag.h\"\n\n")
	var cs []uint32
	for c := range f.consts {
		cs = append(cs, c)
	}
	sort.Slice(cs, func(i, j int) bool { return cs[i] < cs[j] })
	if f.arm64 {
		cs = nil
	}
	for _, c := range cs { // fill a whole register, so that both widths can use it as a memory operand
		n := constName(c)
		for i := 0; i < 64; i += 8 {
			fmt.Fprintf(&o, "DATA %s<>+%d(SB)/8, $0x%08x%08x\n", n, i, c, c)
		}
		fmt.Fprintf(&o, "GLOBL %s<>(SB), RODATA|NOPTR, $64\n", n)
	}
	for _, t := range f.tables {
		o.WriteString(t)
	}
	if f.mask { // a table of ones followed by zeros: the mask of n lanes starts at 4*(8-n)
		for i := 0; i < 64; i += 8 {
			v := uint64(math.MaxUint64)
			if i >= 32 {
				v = 0
			}
			fmt.Fprintf(&o, "DATA masks<>+%d(SB)/8, $0x%016x\n", i, v)
		}
		o.WriteString("GLOBL masks<>(SB), RODATA|NOPTR, $64\n")
	}
	o.WriteString(f.body.String())
	return o.String()
}

func constName(c uint32) string { return fmt.Sprintf("c%08x", c) }

// c64 returns the memory operand of 64 bits in every lane.
func (f *file) c64(bits uint64) string {
	name := fmt.Sprintf("d%016x", bits)
	if f.doubles == nil {
		f.doubles = map[uint64]bool{}
	}
	if !f.doubles[bits] {
		f.doubles[bits] = true
		var o strings.Builder
		for i := 0; i < 64; i += 8 {
			fmt.Fprintf(&o, "DATA %s<>+%d(SB)/8, $0x%016x\n", name, i, bits)
		}
		fmt.Fprintf(&o, "GLOBL %s<>(SB), RODATA|NOPTR, $64\n", name)
		f.tables = append(f.tables, o.String())
	}
	return name + "<>(SB)"
}

// table adds 16 float32 values to the file and returns their memory operand.
func (f *file) table(name string, v []float64) string {
	var o strings.Builder
	for i := 0; i < 16; i += 2 {
		fmt.Fprintf(&o, "DATA %s<>+%d(SB)/8, $0x%08x%08x\n", name, 4*i, math.Float32bits(float32(v[i+1])),
			math.Float32bits(float32(v[i])))
	}
	fmt.Fprintf(&o, "GLOBL %s<>(SB), RODATA|NOPTR, $64\n", name)
	if t := o.String(); !slices.Contains(f.tables, t) {
		f.tables = append(f.tables, t)
	}
	return name + "<>(SB)"
}

type arg struct {
	name, typ string
}

func (a arg) size() int {
	switch a.typ {
	case "float32", "int32", "uint32":
		return 4
	}
	return 8
}

// fn is one assembly function under construction.
type fn struct {
	*file
	isa
	off    map[string]int
	masked bool // loads and stores use the tail mask, or with NEON one element
	labels int  // number of labels of unique
	// hoisted maps constants to registers. A body with many constants is otherwise limited by its
	// loads.
	hoisted map[uint32]int
}

// hoist loads the constants of body into registers first to last, if the instruction set has them.
func (g *fn) hoist(first, last int, body func(g *fn)) {
	if g.width == 8 {
		return
	}
	if g.neon() {
		first, last = 14, topNEON-1
	}
	dry := newFile("dry").function("dry", g.isa, nil, nil)
	body(dry)
	g.hoisted = map[uint32]int{}
	for _, c := range dry.order {
		if first > last {
			break
		}
		g.op("VMOVUPS", g.ci(c), first)
		g.hoisted[c] = first
		first++
	}
}

// function begins an assembly function and writes its stub.
func (f *file) function(name string, i isa, args []arg, ret *arg) *fn {
	f.arm64 = i.neon()
	f.begin(strings.TrimSuffix(name, i.name))
	g := &fn{file: f, isa: i, off: map[string]int{}}
	o := 0
	var params []string
	for _, a := range args {
		o = (o + a.size() - 1) / a.size() * a.size()
		g.off[a.name] = o
		o += a.size()
		params = append(params, a.name+" "+a.typ)
	}
	sig := "(" + strings.Join(params, ", ") + ")"
	if ret != nil {
		o = (o + 7) / 8 * 8
		g.off[ret.name] = o
		o += ret.size()
		sig += fmt.Sprintf(" (%s %s)", ret.name, ret.typ)
	}
	fmt.Fprintf(&f.body, "\n// func %s%s\nTEXT ·%s(SB), 0, $%d-%d\n", name, sig, name, frame, o)
	fmt.Fprintf(&f.stubs, "\n//go:noescape\nfunc %s%s\n", name, sig)
	return g
}

// e emits one instruction.
func (g *fn) e(format string, a ...any) {
	if g.neon() {
		g.translate(fmt.Sprintf(format, a...))
		return
	}
	g.raw(format, a...)
}

// unique returns a label that no other code of the function has.
func (g *fn) unique(name string) string {
	g.labels++
	return fmt.Sprintf("%s%d", name, g.labels)
}

// label writes a label.
func (g *fn) label(s string) { fmt.Fprintf(&g.body, "%s:\n", s) }

// arg loads an argument into a register.
func (g *fn) arg(name, reg string) {
	op := "MOVQ"
	g.e("%s %s+%d(FP), %s", op, name, g.off[name], reg)
}

// bcast broadcasts a float32 argument into vector register r.
func (g *fn) bcast(name string, r int) {
	g.e("VBROADCASTSS %s+%d(FP), %s", name, g.off[name], g.r(r))
}

func (g *fn) r(i int) string { return fmt.Sprintf("%s%d", g.reg, i) }

// c returns the memory operand of a float32 constant in every lane.
func (g *fn) c(v float64) string { return g.ci(math.Float32bits(float32(v))) }

func (g *fn) ci(v uint32) string {
	if r, ok := g.hoisted[v]; ok {
		return g.r(r)
	}
	if !g.consts[v] {
		g.consts[v] = true
		g.order = append(g.order, v)
	}
	if g.neon() {
		return fmt.Sprintf("#%08x", v)
	}
	return constName(v) + "<>(SB)"
}

// op emits an instruction. Operands are vector registers (int), constants (float64) or literal text
// (string).
func (g *fn) op(name string, operands ...any) {
	var s []string
	for _, o := range operands {
		switch o := o.(type) {
		case int:
			s = append(s, g.r(o))
		case float64:
			s = append(s, g.c(o))
		case uint32:
			s = append(s, g.ci(o))
		case string:
			s = append(s, o)
		default:
			panic(fmt.Sprintf("operand %v", o))
		}
	}
	g.e("%s %s", name, strings.Join(s, ", "))
}

const (
	maskReg = 15 // tail mask of AVX2
	tempReg = 14 // comparison result of AVX2
)

// load loads a vector, or in the tail its first lanes; store is its counterpart.
func (g *fn) load(mem string, r int) {
	switch {
	case !g.masked:
		g.op("VMOVUPS", mem, r)
	case g.neon():
		g.op("VMOVSS", mem, r)
	case g.width == 16:
		g.op("VMOVUPS.Z", mem, "K1", r)
	default:
		g.op("VMASKMOVPS", mem, maskReg, r)
	}
}

func (g *fn) store(r int, mem string) {
	switch {
	case !g.masked:
		g.op("VMOVUPS", r, mem)
	case g.neon():
		g.op("VMOVSS", r, mem)
	case g.width == 16:
		g.op("VMOVUPS", r, "K1", mem)
	default:
		g.op("VMASKMOVPS", r, maskReg, mem)
	}
}

// tail processes the last CX elements, fewer than a vector: with a mask at once, or with NEON one
// by one, where advance moves to the next element.
func (g *fn) tail(vector func(), advance func(bytes, elements int)) {
	if g.neon() {
		g.label("element")
	} else {
		g.tailMask()
	}
	g.masked = true
	vector()
	g.masked = false
	if g.neon() {
		advance(4, 1)
		g.e("JNZ element")
	}
}

// tailMask sets the mask of the first CX lanes. It changes AX and, for AVX2, CX.
func (g *fn) tailMask() {
	if g.width == 16 {
		g.e("MOVL $1, AX")
		g.e("SHLL CX, AX")
		g.e("DECL AX")
		g.e("KMOVW AX, K1")
		return
	}
	g.file.mask = true
	g.e("LEAQ masks<>(SB), AX")
	g.e("NEGQ CX")
	g.e("VMOVUPS 32(AX)(CX*4), Y%d", maskReg)
}

// Predicates of VCMPPS.
const (
	eq  = 0
	lt  = 1
	le  = 2
	uno = 3
	nlt = 5
	gt  = 14
	ge  = 13
)

// sel sets d to t in lanes where a pred b holds, otherwise to f. b may be a constant, and with AVX2
// and AVX-512 also t.
func (g *fn) sel(pred int, a int, b any, t any, f int, d int) {
	if g.neon() {
		g.selNEON(pred, a, b, t, f, d)
		return
	}
	p := fmt.Sprintf("$%d", pred)
	if g.width == 16 {
		g.op("VCMPPS", p, b, a, "K2")
		g.op("VBLENDMPS", t, f, "K2", d)
		return
	}
	g.op("VCMPPS", p, b, a, tempReg)
	g.op("VBLENDVPS", tempReg, t, f, d)
}

// round rounds to an integer. Mode 0 rounds to nearest, ties to even, 1 down, 2 up, 3 toward zero.
func (g *fn) round(mode int, s any, d int) {
	if g.width == 16 {
		g.op("VRNDSCALEPS", fmt.Sprintf("$%d", 8+mode), s, d)
	} else {
		g.op("VROUNDPS", fmt.Sprintf("$%d", 8+mode), s, d)
	}
}
