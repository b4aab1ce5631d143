package main

import (
	"fmt"
	"strings"
)

// fold is a reduction of integers or float64 by whole vectors to one vector of accumulators. Go
// code does the rest.
type fold struct {
	name, typ string
	body      func(g *fn, acc, x int) // registers 12 to 14 are free
	merge     func(g *fn, acc, x int) // combines accumulators, if not body
}

// lanes returns the number of elements in a vector.
func (k *fold) lanes(i isa) int { return i.width * 4 / typeSize[k.typ] }

func (k *fold) emit(f *file, i isa) {
	const sums, loaded = 0, 4
	bytes := i.width * 4
	g := f.function(k.name+"Fold"+i.name, i, []arg{{"acc", "*" + k.typ}, {"x", "*" + k.typ}, {"n", "int"}}, nil)
	g.arg("acc", "DI")
	g.arg("x", "SI")
	g.arg("n", "CX")
	for u := range 4 {
		if u > 0 && strings.HasPrefix(k.name, "sum") { // maxima may start with equal values
			g.op("VXORPS", sums+u, sums+u, sums+u)
		} else {
			g.op("VMOVUPS", "(DI)", sums+u)
		}
	}
	vectors := func(n int) {
		for u := range n {
			g.op("VMOVUPS", fmt.Sprintf("%d(SI)", u*bytes), loaded+u)
			k.body(g, sums+u, loaded+u)
		}
		g.e("ADDQ $%d, SI", n*bytes)
		g.e("SUBQ $%d, CX", n*k.lanes(i))
	}
	g.label("loop4")
	g.e("CMPQ CX, $%d", 4*k.lanes(i))
	g.e("JLT loop1")
	vectors(4)
	g.e("JMP loop4")
	g.label("loop1")
	g.e("TESTQ CX, CX")
	g.e("JZ done")
	vectors(1)
	g.e("JMP loop1")
	g.label("done")
	merge := k.merge
	if merge == nil {
		merge = k.body
	}
	for u := 1; u < 4; u++ {
		merge(g, sums, sums+u)
	}
	g.op("VMOVUPS", sums, "(DI)")
	g.e("VZEROUPPER")
	g.e("RET")
}

func (k *fold) neon() bool { return false }

func (k *fold) dispatch(isas []isa) string {
	var o strings.Builder
	fmt.Fprintf(&o, "\n// %sFold combines the first elements of x with acc and returns their number.\n"+
		"func %sFold(l cpu.Level, acc *[foldLanes]%s, x []%s) int {\n\tdone := 0\n\tswitch l {\n",
		k.name, k.name, k.typ, k.typ)
	for _, i := range isas {
		fmt.Fprintf(&o, "\tcase cpu.%s:\n\t\tfor len(x)-done >= %d {\n\t\t\tn := min((len(x)-done)&^%d, chunk)\n"+
			"\t\t\t%sFold%s(&acc[0], &x[done], n)\n\t\t\tdone += n\n\t\t}\n", i.level, k.lanes(i),
			k.lanes(i)-1, k.name, i.name)
	}
	o.WriteString("\t}\n\treturn done\n}\n")
	return o.String()
}

func (k *fold) noasm() string {
	return fmt.Sprintf("\nfunc %sFold(cpu.Level, *[foldLanes]%s, []%s) int { return 0 }\n", k.name, k.typ, k.typ)
}

// elementwise returns a kernel of two operands. body combines registers and stores the result in
// acc.
func elementwise(name, typ, twin string, body func(g *fn, acc, x int)) *choice {
	return &choice{name: name, twin: twin, args: [][2]string{{"dst", typ}, {"a", typ}, {"b", typ}}, amd64: true,
		whole: typeSize[typ] == 1, body: func(g *fn) {
			for v := range max(1, typeSize[typ]/4) {
				at := v * g.width * 4
				g.op("VMOVUPS", offset(at, "(SI)"), 0)
				g.op("VMOVUPS", offset(at, "(DX)"), 4)
				body(g, 0, 4)
				g.op("VMOVUPS", 0, offset(at, "(DI)"))
			}
		}}
}

// direct returns the body of an instruction with two operands.
func direct(op string) func(g *fn, acc, x int) {
	return func(g *fn, acc, x int) { g.op(op, x, acc, acc) }
}

var _ = add("numbers", elementwises()...)

// elementwises lists kernels of two operands of integers or float64.
func elementwises() []*choice {
	var list []*choice
	for _, k := range folds() {
		if op, ok := strings.CutPrefix(k.name, "sum"); ok && k.merge == nil {
			list = append(list, elementwise("add"+op, k.typ, "addLoop", k.body))
		} else if k.merge == nil {
			list = append(list, elementwise(k.name, k.typ, k.name[:3]+"Loop", k.body))
		}
	}
	for _, name := range []string{"max", "min"} {
		letter := "VP" + strings.ToUpper(name)
		wide := elementwise(name+"U64", "uint64", name+"Loop", direct(letter+"UQ"))
		wide.only = "AVX512"
		list = append(list, elementwise(name+"U8", "uint8", name+"Loop", direct(letter+"UB")),
			elementwise(name+"I8", "int8", name+"Loop", direct(letter+"SB")),
			elementwise(name+"U32", "uint32", name+"Loop", direct(letter+"UD")), wide)
	}
	products := elementwise("mulI64", "int64", "mulLoop", direct("VPMULLQ"))
	products.only = "AVX512"
	// Each word holds the product of its low bytes, and that of its high bytes computed without the
	// low ones.
	bytes := elementwise("mulU8", "uint8", "mulLoop", func(g *fn, acc, x int) {
		g.op("VPSRLW", "$8", acc, 5)
		g.op("VPSRLW", "$8", x, 6)
		g.op("VPMULLW", x, acc, acc)
		g.op("VPMULLW", 6, 5, 5)
		g.op("VPSLLW", "$8", 5, 5)
		g.op("VPSLLW", "$8", acc, acc)
		g.op("VPSRLW", "$8", acc, acc)
		g.op("VPADDB", 5, acc, acc)
	})
	return append(list, elementwise("addU8", "uint8", "addBytes", direct("VPADDB")),
		elementwise("subU8", "uint8", "subBytes", direct("VPSUBB")), bytes,
		elementwise("subI32", "int32", "subLoop", direct("VPSUBD")),
		elementwise("mulI32", "int32", "mulLoop", direct("VPMULLD")),
		elementwise("subI64", "int64", "subLoop", direct("VPSUBQ")), products,
		elementwise("subF64", "float64", "subLoop", direct("VSUBPD")),
		elementwise("mulF64", "float64", "mulLoop", direct("VMULPD")),
		elementwise("divF64", "float64", "divLoop", direct("VDIVPD")))
}

var _ = add("fold", folds()...)

func folds() []*fold {
	// AVX2 has no 64-bit maxima.
	pick := func(op string, most bool) func(g *fn, acc, x int) {
		return func(g *fn, acc, x int) {
			switch {
			case g.width == 16:
				g.op(op, x, acc, acc)
				return
			case most:
				g.op("VPCMPGTQ", x, acc, 12)
			default:
				g.op("VPCMPGTQ", acc, x, 12)
			}
			g.op("VBLENDVPD", 12, acc, x, acc)
		}
	}
	// The instruction returns NaN of the second source; NaN of the first one is selected.
	float := func(op string) func(g *fn, acc, x int) {
		return func(g *fn, acc, x int) {
			g.op(op, acc, x, acc)
			if g.width == 16 {
				g.op("VCMPPD", "$3", x, x, "K2")
				g.op("VMOVUPD", x, "K2", acc)
			} else {
				g.op("VCMPPD", "$3", x, x, 12)
				g.op("VBLENDVPD", 12, x, acc, acc)
			}
		}
	}
	return []*fold{
		{"sumI32", "int32", direct("VPADDD"), nil}, {"maxI32", "int32", direct("VPMAXSD"), nil},
		{"minI32", "int32", direct("VPMINSD"), nil},
		{"sumI64", "int64", direct("VPADDQ"), nil}, {"maxI64", "int64", pick("VPMAXSQ", true), nil},
		{"minI64", "int64", pick("VPMINSQ", false), nil},
		{"sumF64", "float64", direct("VADDPD"), nil}, {"maxF64", "float64", float("VMAXPD"), nil},
		{"minF64", "float64", float("VMINPD"), nil},
		{"sumSquaresF64", "float64", func(g *fn, acc, x int) { g.op("VFMADD231PD", x, x, acc) }, direct("VADDPD")},
	}
}
