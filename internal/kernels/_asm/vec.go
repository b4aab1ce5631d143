package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// kernel is an entry of a package's table.
type kernel interface {
	emit(f *file, i isa)
	dispatch(isas []isa) string
	noasm() string
	neon() bool // whether emit supports NEON
}

// writeFamily writes the three Go files of a family of kernels.
func writeFamily(dir, family string, ks []kernel) {
	f, arm := newFile(family), newFile(family)
	var dis, disARM, no strings.Builder
	onARM := false
	for _, k := range ks {
		for _, i := range isas {
			k.emit(f, i)
		}
		dis.WriteString(k.dispatch(isas))
		no.WriteString(k.noasm())
		if k.neon() {
			onARM = true
			k.emit(arm, neon)
			disARM.WriteString(k.dispatch([]isa{neon}))
		} else {
			disARM.WriteString(k.noasm())
		}
	}
	f.write(dir, "vec", dis.String())
	without := "!amd64 || purego"
	if onARM {
		without = "(!amd64 && !arm64) || purego"
		arm.write(dir, "vec", disARM.String())
	}
	write(fmt.Sprintf("%s/z_%s_noasm.go", dir, family), goSource(f.header(), without, "vec", no.String()))
}

// families maps the generated files of package vec to their kernels.
var families = map[string][]kernel{}

// add adds kernels to a generated file of package vec.
func add[K kernel](family string, kernels ...K) bool {
	for _, k := range kernels {
		families[family] = append(families[family], k)
	}
	return true
}

var _ = register("vec", writeVec)

func writeVec(dir string) {
	for _, f := range slices.Sorted(maps.Keys(families)) {
		writeFamily(dir, f, families[f])
	}
}

// loopBody writes the rest of a loop: the call of the kernel for the level with n elements of
// slices, and their rests. A loop for each level would take twice the code.
func loopBody(o *strings.Builder, isas []isa, name string, slices, scalars []string) {
	var first, rests []string
	for _, s := range slices {
		first, rests = append(first, "&"+s+"[0]"), append(rests, s+"[n:]")
	}
	call := strings.Join(append(append(first, "n"), scalars...), ", ")
	if len(isas) == 1 {
		fmt.Fprintf(o, "\t\t%s%s(%s)\n", name, isas[0].name, call)
	} else {
		fmt.Fprintf(o, "\t\tif l == cpu.%s {\n\t\t\t%s%s(%s)\n\t\t} else {\n\t\t\t%s%s(%s)\n\t\t}\n", isas[0].level,
			name, isas[0].name, call, name, isas[1].name, call)
	}
	fmt.Fprintf(o, "\t\t%s = %s\n\t}\n", strings.Join(slices, ", "), strings.Join(rests, ", "))
}

// loopOfWhole writes a loop over whole vectors of slices, the first of which is dst. It leaves the
// rest.
func loopOfWhole(o *strings.Builder, all []isa, only string, vectors int, name string, slices []string) {
	isas, width := all, "width(l)"
	if only != "" {
		for _, i := range all {
			if i.name == only {
				isas, width = []isa{i}, "width(l) &^ 15"
			}
		}
	}
	if vectors > 1 {
		width += fmt.Sprintf(" * %d", vectors)
	}
	fmt.Fprintf(o, "\tfor w := %s; w > 0 && len(dst) >= w; {\n\t\tn := min(len(dst)&^(w-1), chunk)\n", width)
	loopBody(o, isas, name, slices, nil)
}
