package main

import (
	"fmt"
	"strings"
)

// choice is a kernel from or to bools. It processes whole vectors; a Go loop processes the tail.
type choice struct {
	name  string
	args  [][2]string // Go names and types of the arguments, the output first
	body  func(g *fn)
	amd64 bool   // not supported with NEON
	only  string // name of the AVX-512 kernel, if only AVX-512 has the instructions
	twin  string // Go function, if not the name with Generic
	whole bool   // an iteration processes a vector of bytes, not as many bytes as there are numbers of 32 bits
}

var choiceRegs = []string{"DI", "SI", "DX", "BX", "R8", "R9"}

func (k *choice) emit(f *file, i isa) {
	if k.only != "" && k.only != i.name {
		return
	}
	var args []arg
	for _, a := range k.args {
		args = append(args, arg{a[0], "*" + a[1]})
	}
	g := f.function(k.name+i.name, i, append(args, arg{"n", "int"}), nil)
	for j, a := range k.args {
		g.arg(a[0], choiceRegs[j])
	}
	g.arg("n", "CX")
	g.label("loop")
	k.body(g)
	for j, a := range k.args {
		g.e("ADDQ $%d, %s", typeSize[a[1]]*k.step(i), choiceRegs[j])
	}
	g.e("SUBQ $%d, CX", k.step(i))
	g.e("JNZ loop")
	g.e("VZEROUPPER")
	g.e("RET")
}

// step returns the number of elements of an iteration.
func (k *choice) step(i isa) int {
	if k.whole {
		return 4 * i.width
	}
	return i.width
}

func (k *choice) signature(level string) string {
	var p []string
	for _, a := range k.args {
		p = append(p, a[0]+" []"+a[1])
	}
	return fmt.Sprintf("\nfunc %s(%s cpu.Level, %s)", k.name, level, strings.Join(p, ", "))
}

func (k *choice) list(format string) string {
	var p []string
	for _, a := range k.args {
		p = append(p, fmt.Sprintf(format, a[0]))
	}
	return strings.Join(p, ", ")
}

func (k *choice) dispatch(isas []isa) string {
	var o strings.Builder
	o.WriteString(k.signature("l") + " {\n")
	for _, a := range k.args[1:] {
		fmt.Fprintf(&o, "\t%s = %s[:len(dst)]\n", a[0], a[0])
	}
	var slices []string
	for _, a := range k.args {
		slices = append(slices, a[0])
	}
	loopOfWhole(&o, isas, k.only, k.step(isa{width: 1}), k.name, slices)
	fmt.Fprintf(&o, "\t%s(%s)\n}\n", k.goName(), k.list("%s"))
	return o.String()
}

func (k *choice) neon() bool { return !k.amd64 }

func (k *choice) noasm() string {
	return fmt.Sprintf("%s { %s(%s) }\n", k.signature("_"), k.goName(), k.list("%s"))
}

func (k *choice) goName() string {
	if k.twin != "" {
		return k.twin
	}
	return k.name + "Generic"
}

var _ = add("compare", choices()...)

func choices() []*choice {
	compare := func(name string, pred int) *choice {
		return &choice{name: name, args: [][2]string{{"dst", "bool"}, {"a", "float32"}, {"b", "float32"}},
			body: func(g *fn) {
				g.op("VMOVUPS", "(SI)", 0)
				if g.neon() {
					g.compareNEON(pred)
					return
				}
				ones := g.ci(0x01010101)
				if g.width == 16 {
					g.e("VCMPPS $%d, (DX), Z0, K1", pred)
					g.e("VMOVDQU %s, X1", ones)
					g.e("VMOVDQU8.Z X1, K1, X1")
					g.e("VMOVDQU X1, (DI)")
					return
				}
				g.e("VCMPPS $%d, (DX), Y0, Y0", pred)
				g.e("VEXTRACTF128 $1, Y0, X1")
				g.e("VPACKSSDW X1, X0, X0")
				g.e("VPACKSSWB X0, X0, X0")
				g.e("VPAND %s, X0, X0", ones)
				g.e("VMOVQ X0, (DI)")
			}}
	}
	return append(append(numberComparisons(), byteComparisons()...),
		[]*choice{compare("lessF32", lt), compare("lessOrEqualF32", le), compare("equalF32", eq),
			selectKernel(1, ""), selectKernel(2, "selectLoop"), selectKernel(4, "selectLoop"),
			selectKernel(8, "selectLoop")}...)
}

// selectKernel returns the kernel that takes elements of x where which is true, and of y elsewhere.
func selectKernel(size int, twin string) *choice {
	typ := fmt.Sprintf("uint%d", 8*size)
	return &choice{name: fmt.Sprintf("selectU%d", 8*size), args: [][2]string{{"dst", typ}, {"x", typ}, {"y", typ},
		{"which", "bool"}}, amd64: size != 4, twin: twin, body: func(g *fn) {
		if g.neon() {
			g.selectNEON()
			return
		}
		letter := map[int]string{1: "B", 2: "W", 4: "D", 8: "Q"}[size]
		bytes := size * g.width
		parts := max(1, bytes/(4*g.width)) // vectors, of reg
		reg := "X"
		if bytes/parts > 16 {
			reg = map[int]string{32: "Y", 64: "Z"}[bytes/parts]
		}
		if g.width == 16 {
			g.e("VMOVDQU (BX), X1")
			g.e("VPTESTMB X1, X1, K1")
			for p := range parts {
				if p > 0 {
					g.e("KSHIFTRW $8, K1, K1")
				}
				move := "VMOVDQU" + fmt.Sprint(8*size)
				g.e("%s %s, %s0", move, offset(64*p, "(DX)"), reg)
				g.e("%s %s, K1, %s0", move, offset(64*p, "(SI)"), reg)
				g.e("%s %s0, %s", move, reg, offset(64*p, "(DI)"))
			}
			return
		}
		move := "VMOVDQU"
		if bytes == 8 {
			move = "VMOVQ"
		}
		g.e("VPXOR Y2, Y2, Y2")
		for p := range parts {
			if size == 1 {
				g.e("VMOVQ (BX), X1")
			} else {
				g.e("VPMOVZXB%s %s, %s1", letter, offset(4*p, "(BX)"), reg)
			}
			g.e("VPCMPEQ%s %s2, %s1, %s1", letter, reg, reg, reg)
			g.e("%s %s, %s0", move, offset(32*p, "(SI)"), reg)
			g.e("%s %s, %s3", move, offset(32*p, "(DX)"), reg)
			g.e("VPBLENDVB %s1, %s3, %s0, %s0", reg, reg, reg, reg)
			g.e("%s %s0, %s", move, reg, offset(32*p, "(DI)"))
		}
	}}
}
