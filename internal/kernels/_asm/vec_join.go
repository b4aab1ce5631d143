package main

import "fmt"

var _ = add("doubles", joinGroups{})

// joinGroups writes n pixels of 16 channels, four from each of four pointers, which advance by a
// distance per pixel.
type joinGroups struct{}

func (joinGroups) emit(f *file, i isa) {
	if i != avx2 {
		return
	}
	from, step := []string{"SI", "DX", "R8", "R9"}, []string{"R10", "R11", "R12", "R13"}
	args := []arg{{"dst", "*float32"}}
	for k := range from {
		args = append(args, arg{fmt.Sprintf("part%d", k), "*float32"}, arg{fmt.Sprintf("step%d", k), "int"})
	}
	g := f.function("joinGroupsF32"+i.name, i, append(args, arg{"n", "int"}), nil)
	g.arg("dst", "DI")
	for k := range from {
		g.arg(fmt.Sprintf("part%d", k), from[k])
		g.arg(fmt.Sprintf("step%d", k), step[k])
	}
	g.arg("n", "CX")
	g.label("pixel")
	for k := range from {
		g.e("VMOVUPS (%s), X%d", from[k], k)
		g.e("ADDQ %s, %s", step[k], from[k])
	}
	for k := range from {
		g.e("VMOVUPS X%d, %d(DI)", k, 16*k)
	}
	g.e("ADDQ $64, DI")
	g.e("DECQ CX")
	g.e("JNZ pixel")
	g.e("RET")
}

func (joinGroups) dispatch([]isa) string {
	return `
func joinGroupsF32(dst, a *float32, as int, b *float32, bs int, c *float32, cs int, d *float32, ds int, n int) {
	joinGroupsF32AVX2(dst, a, as, b, bs, c, cs, d, ds, n)
}
`
}

func (joinGroups) neon() bool { return false }

func (joinGroups) noasm() string {
	return "\nfunc joinGroupsF32(_, _ *float32, _ int, _ *float32, _ int, _ *float32, _ int, _ *float32, _, _ int) {}\n"
}
