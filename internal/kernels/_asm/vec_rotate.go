package main

// rotate rotates the points (x, y) by angles with the given cosines and sines. It rounds each product,
// as Go code does, so that all levels give the same bits.
func rotate() *choice {
	return &choice{name: "rotateF32", args: [][2]string{{"dst", "float32"}, {"dsty", "float32"}, {"x", "float32"}, {"y", "float32"}, {"cos", "float32"}, {"sin", "float32"}}, amd64: true, body: func(g *fn) {
		const x, y, cos, sin = 0, 1, 2, 3
		g.op("VMOVUPS", "(DX)", x)
		g.op("VMOVUPS", "(BX)", y)
		g.op("VMOVUPS", "(R8)", cos)
		g.op("VMOVUPS", "(R9)", sin)
		g.op("VMULPS", x, cos, 4)
		g.op("VMULPS", y, sin, 5)
		g.op("VSUBPS", 5, 4, 4)
		g.op("VMULPS", x, sin, 6)
		g.op("VMULPS", y, cos, 7)
		g.op("VADDPS", 7, 6, 6)
		g.op("VMOVUPS", 4, "(DI)")
		g.op("VMOVUPS", 6, "(SI)")
	}}
}
