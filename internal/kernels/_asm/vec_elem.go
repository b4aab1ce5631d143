package main

import (
	"fmt"
	"strings"
)

// elem is an elementwise kernel from the slices ins to dst. Vector inputs are in registers 0, 1, 2,
// float32 scalars in 13, 12, …. body leaves the result in register 0 and may use registers 0 to 9.
type elem struct {
	family  string
	name    string
	ins     []string
	scalars []string
	unroll  bool   // cheap: process four vectors per iteration
	inout   bool   // dst is also an input, in register 1
	tables  tables // for AVX-512, in registers from firstTable on
	body    func(g *fn, r [3]int)
}

func scalarReg(i int) int { return 13 - i }

// goParams returns the parameter list of the Go functions.
func (k *elem) goParams() string {
	s := "dst, " + strings.Join(k.ins, ", ") + " []float32"
	if len(k.scalars) > 0 {
		s += ", " + strings.Join(k.scalars, ", ") + " float32"
	}
	return s
}

func (k *elem) goArgs() string {
	return strings.Join(append(append([]string{"dst"}, k.ins...), k.scalars...), ", ")
}

var memRegs = []string{"SI", "DX", "BX"}

func (k *elem) emit(f *file, i isa) {
	args := []arg{{"dst", "*float32"}}
	for _, n := range k.ins {
		args = append(args, arg{n, "*float32"})
	}
	args = append(args, arg{"n", "int"})
	for _, n := range k.scalars {
		args = append(args, arg{n, "float32"})
	}
	g := f.function(k.name+"F32"+i.name, i, args, nil)
	g.arg("dst", "DI")
	for j, n := range k.ins {
		g.arg(n, memRegs[j])
	}
	g.arg("n", "CX")
	for j, n := range k.scalars {
		g.bcast(n, scalarReg(j))
	}
	first := firstTable
	if i.width == 16 {
		first = k.tables.load(g, k.name, first)
	}
	g.hoist(first, 31, func(g *fn) { k.body(g, [3]int{0, 1, 2}) })
	bytes := i.width * 4
	vector := func(off int, r [3]int) {
		j := 0
		for ; j < len(k.ins); j++ {
			g.load(fmt.Sprintf("%d(%s)", off, memRegs[j]), r[j])
		}
		if k.inout {
			g.load(fmt.Sprintf("%d(DI)", off), r[j])
		}
		k.body(g, r)
		g.store(r[0], fmt.Sprintf("%d(DI)", off))
	}
	advance := func(bytes, elements int) {
		for j := range k.ins {
			g.e("ADDQ $%d, %s", bytes, memRegs[j])
		}
		g.e("ADDQ $%d, DI", bytes)
		g.e("SUBQ $%d, CX", elements)
	}
	if k.unroll {
		g.label("loop4")
		g.e("CMPQ CX, $%d", 4*i.width)
		g.e("JLT loop1")
		for u := range 4 {
			if len(k.ins)+len(k.scalars) < 4 {
				vector(u*bytes, [3]int{u % 2 * 3, u%2*3 + 1, u%2*3 + 2})
			}
		}
		advance(4*bytes, 4*i.width)
		g.e("JMP loop4")
	}
	r := [3]int{0, 1, 2}
	g.label("loop1")
	g.e("CMPQ CX, $%d", i.width)
	g.e("JLT tail")
	vector(0, r)
	advance(bytes, i.width)
	g.e("JMP loop1")
	g.label("tail")
	g.e("TESTQ CX, CX")
	g.e("JZ done")
	g.tail(func() { vector(0, r) }, advance)
	g.label("done")
	g.e("VZEROUPPER")
	g.e("RET")
}

// dispatch returns the Go function that selects the level.
func (k *elem) dispatch(isas []isa) string {
	var o strings.Builder
	fmt.Fprintf(&o, "\nfunc %sF32(l cpu.Level, %s) {\n", k.name, k.goParams())
	for _, n := range k.ins {
		fmt.Fprintf(&o, "\t%s = %s[:len(dst)]\n", n, n)
	}
	fmt.Fprintf(&o, "\tif width(l) == 0 {\n\t\t%sF32Generic(%s)\n\t\treturn\n\t}\n\tfor len(dst) > 0 {\n"+
		"\t\tn := min(len(dst), chunk)\n", k.name, k.goArgs())
	loopBody(&o, isas, k.name+"F32", append([]string{"dst"}, k.ins...), k.scalars)
	o.WriteString("}\n")
	return o.String()
}

func (k *elem) neon() bool { return true }

func (k *elem) noasm() string {
	return fmt.Sprintf("\nfunc %sF32(_ cpu.Level, %s) { %sF32Generic(%s) }\n", k.name, k.goParams(), k.name, k.goArgs())
}
