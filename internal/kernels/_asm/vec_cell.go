package main

var _ = add("exp", cells{})

// cells are kernels of recurrent operators for rows of units. The ends of rows are masked with K5.
// Additions and multiplications are rounded as those of separate vector kernels.
type cells struct{}

// rows emits body for the vectors of each row. ahead holds registers that body reads 16 elements a
// step further, and the argument with the bytes from the end of the vectors of a row to the next
// one.
func (cells) rows(g *fn, ahead [][2]string, body func()) {
	g.e("MOVQ $-1, AX")
	g.label("row")
	g.arg("n", "CX")
	g.label("loop")
	g.e("MOVL $16, BX")
	g.e("CMPQ CX, BX")
	g.e("CMOVQLT CX, BX")
	g.e("BZHIQ BX, AX, BX")
	g.e("KMOVW BX, K5")
	body()
	for _, r := range ahead {
		g.e("ADDQ $64, %s", r[0])
	}
	g.e("SUBQ $16, CX")
	g.e("JGT loop")
	for _, r := range ahead {
		g.arg(r[1], "BX")
		g.e("ADDQ BX, %s", r[0])
	}
	g.e("DECQ R11")
	g.e("JNZ row")
	g.e("VZEROUPPER")
	g.e("RET")
}

// begin begins a kernel with pointers in registers, and arguments for the units and the gaps.
func (cells) begin(f *file, i isa, name string, pointers [][2]string, gaps ...string) *fn {
	var args []arg
	for _, p := range pointers {
		args = append(args, arg{p[0], "*float32"})
	}
	for _, n := range append([]string{"unit", "n", "rows"}, gaps...) {
		args = append(args, arg{n, "int"})
	}
	g := f.function(name+i.name, i, args, nil)
	for _, p := range append(pointers, [2]string{"unit", "R8"}, [2]string{"rows", "R11"}) {
		g.arg(p[0], p[1])
	}
	g.e("SHLQ $2, R8")
	return g
}

// gate loads the elements of a row.
func (cells) gate(g *fn, mem string, to int) { g.e("VMOVUPS.Z %s, K5, Z%d", mem, to) }

func (c cells) emit(f *file, i isa) {
	if i.width == 16 {
		c.lstm(f, i)
		c.reset(f, i)
		c.state(f, i)
	}
}

// lstm updates the cell state and the hidden state from the gates i, o, f and c.
func (c cells) lstm(f *file, i isa) {
	g := c.begin(f, i, "lstmCellF32", [][2]string{{"next", "DI"}, {"cell", "DX"}, {"y", "R10"}, {"gates", "SI"}},
		"stateGap", "yGap", "gateGap")
	g.e("LEAQ (R8)(R8*2), R9")
	exp := tanhPieces.coefs.load(g, "tanh", firstTable)
	expTable.load(g, "sigmoid", exp)
	c.rows(g, [][2]string{{"SI", "gateGap"}, {"DI", "stateGap"}, {"DX", "stateGap"}, {"R10", "yGap"}}, func() {
		c.gate(g, "(SI)(R9*1)", 0)
		tanhPieces.of(g)
		g.op("VMOVAPS", 0, 9)
		c.gate(g, "(SI)", 0)
		g.sigmoid(exp)
		g.op("VMULPS", 9, 0, 9)
		c.gate(g, "(SI)(R8*2)", 0)
		g.sigmoid(exp)
		g.e("VMOVUPS.Z (DX), K5, Z10")
		g.op("VMULPS", 10, 0, 0)
		g.op("VADDPS", 9, 0, 0)
		g.e("VMOVUPS Z0, K5, (DX)")
		tanhPieces.of(g)
		g.op("VMOVAPS", 0, 9)
		c.gate(g, "(SI)(R8*1)", 0)
		g.sigmoid(exp)
		g.op("VMULPS", 9, 0, 0)
		g.e("VMOVUPS Z0, K5, (DI)")
		g.e("VMOVUPS Z0, K5, (R10)")
	})
}

// reset replaces the gates z and r of a GRU by their sigmoid and computes the reset state.
func (c cells) reset(f *file, i isa) {
	g := c.begin(f, i, "gruResetF32", [][2]string{{"hidden", "DI"}, {"cell", "DX"}, {"gates", "SI"}},
		"stateGap", "gateGap")
	expTable.load(g, "sigmoid", firstTable)
	c.rows(g, [][2]string{{"SI", "gateGap"}, {"DI", "stateGap"}, {"DX", "stateGap"}}, func() {
		c.gate(g, "(SI)", 0)
		g.sigmoid(firstTable)
		g.e("VMOVUPS Z0, K5, (SI)")
		c.gate(g, "(SI)(R8*1)", 0)
		g.sigmoid(firstTable)
		g.e("VMOVUPS Z0, K5, (SI)(R8*1)")
		g.e("VMULPS.Z (DI), Z0, K5, Z0")
		g.e("VMOVUPS Z0, K5, (DX)")
	})
}

// state updates the hidden state of a GRU from its gate h and from z and r.
func (c cells) state(f *file, i isa) {
	g := c.begin(f, i, "gruStateF32", [][2]string{{"next", "DI"}, {"hidden", "DX"}, {"y", "R10"}, {"gates", "SI"},
		{"zr", "R9"}, {"recurrence", "R12"}},
		"stateGap", "yGap", "gateGap", "recurrenceGap")
	tanhPieces.coefs.load(g, "tanh", firstTable)
	c.rows(g, [][2]string{{"SI", "gateGap"}, {"R9", "gateGap"}, {"R12", "recurrenceGap"}, {"DI", "stateGap"},
		{"DX", "stateGap"}, {"R10", "yGap"}}, func() {
		c.gate(g, "(SI)", 0)
		g.arg("recurrence", "BX")
		g.e("TESTQ BX, BX")
		g.e("JZ tanh")
		c.gate(g, "(R9)(R8*1)", 1)
		g.e("VMULPS.Z (R12), Z1, K5, Z1")
		g.op("VADDPS", 1, 0, 0)
		g.label("tanh")
		tanhPieces.of(g)
		c.gate(g, "(R9)", 1)
		g.op("VXORPS", 2, 2, 2)
		g.op("VSUBPS", 1, 2, 2)
		g.op("VADDPS", 1.0, 2, 2)
		g.op("VMULPS", 2, 0, 0)
		g.e("VMULPS.Z (DX), Z1, K5, Z1")
		g.op("VADDPS", 1, 0, 0)
		g.e("VMOVUPS Z0, K5, (DI)")
		g.e("VMOVUPS Z0, K5, (R10)")
	})
}

func (cells) neon() bool { return false }

func (cells) dispatch([]isa) string {
	return `
func lstmCellF32(l cpu.Level, c *Cells) bool {
	if l != cpu.AVX512 {
		return false
	}
	y, yStep := c.y()
	wide, most := c.calls()
	for at := 0; at < c.Rows; at += most {
		lstmCellF32AVX512(&c.Next[at*c.Step], &c.Second[at*c.Step], &y[at*yStep], &c.Gates[at*c.GateStep],
			c.Unit, c.N, min(most, c.Rows-at), (c.Step-wide)*4, (yStep-wide)*4, (c.GateStep-wide)*4)
	}
	return true
}

func gruResetF32(l cpu.Level, c *Cells) bool {
	if l != cpu.AVX512 {
		return false
	}
	wide, most := c.calls()
	for at := 0; at < c.Rows; at += most {
		gruResetF32AVX512(&c.Hidden[at*c.Step], &c.Second[at*c.Step], &c.Gates[at*c.GateStep],
			c.Unit, c.N, min(most, c.Rows-at), (c.Step-wide)*4, (c.GateStep-wide)*4)
	}
	return true
}

func gruStateF32(l cpu.Level, c *Cells, zr, recurrence []float32, step int) bool {
	if l != cpu.AVX512 {
		return false
	}
	y, yStep := c.y()
	wide, most := c.calls()
	for at := 0; at < c.Rows; at += most {
		var r *float32
		if len(recurrence) > 0 {
			r = &recurrence[at*step]
		}
		gruStateF32AVX512(&c.Next[at*c.Step], &c.Hidden[at*c.Step], &y[at*yStep], &c.Gates[at*c.GateStep],
			&zr[at*c.GateStep], r, c.Unit, c.N, min(most, c.Rows-at),
			(c.Step-wide)*4, (yStep-wide)*4, (c.GateStep-wide)*4, (step-wide)*4)
	}
	return true
}
`
}

func (cells) noasm() string {
	return `
func lstmCellF32(cpu.Level, *Cells) bool                            { return false }
func gruResetF32(cpu.Level, *Cells) bool                            { return false }
func gruStateF32(cpu.Level, *Cells, []float32, []float32, int) bool { return false }
`
}
