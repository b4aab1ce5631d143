package main

import (
	"fmt"
	"slices"
	"strings"
)

// Go's assembler has no AMX instructions, so they are written as bytes: a VEX prefix of three
// bytes, opcode, ModRM and, for memory operands, SIB and displacement (Intel SDM, volume 2,
// sections 2.3 and 2.4).

// Prefixes of instructions.
const (
	vexNone = iota
	vex66
	vexF3
	vexF2
)

// registersAMD64 lists the general registers in the order of their numbers.
var registersAMD64 = []string{"AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI", "R8", "R9", "R10", "R11",
	"R12", "R13", "R14", "R15"}

// vex returns the prefix of an instruction with 128-bit operands of the opcode map 0F38 and its
// opcode. reg, index and base are numbers of registers, of which the top bits are in the prefix.
func vex(prefix, reg, index, base, other int, opcode byte) []byte {
	return []byte{0xc4, byte(^reg&8<<4 | ^index&8<<3 | ^base&8<<2 | 2), byte(^other&15<<3 | prefix), opcode}
}

// amx emits an instruction of AMX.
func (g *fn) amx(text string, code []byte) {
	var bytes []string // on one line: each line number takes memory in the program's table of lines
	for _, b := range code {
		bytes = append(bytes, fmt.Sprintf("BYTE $0x%02x", b))
	}
	g.raw("/* %s */ %s", text, strings.Join(bytes, "; "))
}

// tileMemory returns the code of an instruction that moves tile t from or to rows that are index
// bytes apart.
func tileMemory(prefix, t, disp int, base, index string) []byte {
	b, x := slices.Index(registersAMD64, base), slices.Index(registersAMD64, index)
	code := append(vex(prefix, t, x, b, 0, 0x4b), byte(0x80|t&7<<3|4), byte(x&7<<3|b&7))
	return append(code, byte(disp), byte(disp>>8), byte(disp>>16), byte(disp>>24))
}

// tileLoad loads tile t from disp(base), with rows that are index bytes apart.
func (g *fn) tileLoad(disp int, base, index string, t int) {
	g.amx(fmt.Sprintf("TILELOADD %d(%s)(%s*1), TMM%d", disp, base, index, t), tileMemory(vexF2, t, disp, base, index))
}

// tileStore stores tile t.
func (g *fn) tileStore(t, disp int, base, index string) {
	g.amx(fmt.Sprintf("TILESTORED TMM%d, %d(%s)(%s*1)", t, disp, base, index), tileMemory(vexF3, t, disp, base, index))
}

// tileZero clears tile t.
func (g *fn) tileZero(t int) {
	g.amx(fmt.Sprintf("TILEZERO TMM%d", t), append(vex(vexF2, t, 0, 0, 0, 0x49), byte(0xc0|t&7<<3)))
}

// tileConfig configures the tiles with the 64 bytes at (base).
func (g *fn) tileConfig(base string) {
	b := slices.Index(registersAMD64, base)
	g.amx(fmt.Sprintf("LDTILECFG (%s)", base), append(vex(vexNone, 0, 0, b, 0, 0x49), byte(0x40|b&7), 0))
}

// tileRelease leaves the tiles without state, so that the operating system need not save them.
func (g *fn) tileRelease() { g.amx("TILERELEASE", append(vex(vexNone, 0, 0, 0, 0, 0x49), 0xc0)) }

// tileDotU8S8 adds to tile c the matrix product of uint8 tile a and int8 tile b.
func (g *fn) tileDotU8S8(b, a, c int) {
	g.amx(fmt.Sprintf("TDPBUSD TMM%d, TMM%d, TMM%d", b, a, c),
		append(vex(vex66, c, 0, a, b, 0x5e), byte(0xc0|c&7<<3|a&7)))
}

// Offsets of the fields of quant's Tiles.
const (
	tsA, tsB, tsC     = 64, 72, 80 // the configuration comes first
	tsAt, tsCount     = 88, 96
	tsOffsets, tsTaps = 104, 112
	tsChunks          = 120
	tsStepA, tsStepB  = 128, 136
	tsPixel, tsLdC    = 144, 152
	tsBias, tsScale   = 160, 168
	tsRow             = 176
	tsSums            = 184
	tsHi              = 200
	tsMask, tsStore   = 204, 208
	tsWord, tsFlip    = 216, 220
	tsPrefetch        = 224
	tsPrefetchStep    = 232
	tsRows            = 48  // in the configuration: the rows of tile 0
	tileAt            = 32  // size of TileAt
	tileStride        = 128 // distance of the rows of packed weights and of sums
)

// tileProducts writes the GEMM of a chunk: of 16 rows at AX and, if there are two halves, 16 rows
// at SI, R8 bytes apart, with two tiles of columns at DI, R9 bytes apart. The sums are in the tiles
// 0 to 3, rows of A in 4, columns of B in 6 and 7. Tile 5 stays free: a loop that uses all eight
// tiles takes three to four times as long, since loads do not overlap multiplications then
// (measured on Sapphire Rapids).
func (g *fn) tileProducts(halves int, dot func(b, a, c int)) {
	g.tileLoad(0, "DI", "R9", 6)
	g.tileLoad(64, "DI", "R9", 7)
	for h := range halves {
		g.tileLoad(0, []string{"AX", "SI"}[h], "R8", 4)
		dot(6, 4, 2*h)
		dot(7, 4, 2*h+1)
	}
}

// tiles writes the int8 GEMM of one or two tiles of rows and two tiles of columns. The sums pass
// through memory to vector registers one tile later, so that their epilogue overlaps the
// multiplications. They are stored after those of the previous tile have been loaded, so that one
// buffer suffices.
func tiles(f *file, halves int) {
	g := f.function(fmt.Sprintf("tiles%dAMX", halves), avx512, []arg{{"t", "*Tiles"}}, nil)
	g.arg("t", "DX")
	g.tileConfig("DX")
	for _, p := range []struct {
		off int
		reg string
	}{{tsPixel, "R8"}, {tsStepB, "R14"}, {tsAt, "R13"}, {tsScale, "SI"}} {
		g.e("MOVQ %d(DX), %s", p.off, p.reg)
	}
	g.e("MOVQ $%d, R9", tileStride)
	g.e("KMOVW %d(DX), K1", tsMask)
	g.e("KMOVW %d(DX), K2", tsMask+2)
	g.e("KMOVD %d(DX), K3", tsMask)
	const scale, hi, word = 4, 6, 7
	for j := range 2 {
		g.op("VMOVUPS", fmt.Sprintf("%d(SI)", j*64), scale+j)
	}
	g.e("VBROADCASTSS %d(DX), Z%d", tsHi, hi)
	g.e("VPBROADCASTW %d(DX), Z%d", tsWord, word)
	g.e("MOVQ %d(DX), R15", tsSums)
	g.label("tile")
	g.e("DECQ %d(DX)", tsCount)
	g.e("JLT store")
	g.e("MOVQ %d(DX), AX", tsBias)
	g.e("XORL CX, CX") // every row is the bias
	for i := range 2 * halves {
		g.tileLoad(i%2*64, "AX", "CX", i)
	}
	g.e("MOVQ %d(DX), DI", tsB)
	g.e("MOVQ %d(DX), R11", tsOffsets)
	g.e("MOVQ %d(DX), R12", tsTaps)
	g.label("tap")
	g.e("MOVQ (R11), AX")
	g.e("ADDQ $8, R11")
	g.e("ADDQ %d(DX), AX", tsA)
	if halves == 2 {
		g.e("MOVQ AX, SI")
		g.e("ADDQ 8(R13), SI")
	}
	g.e("ADDQ (R13), AX")
	g.e("MOVQ %d(DX), CX", tsChunks)
	g.label("chunk")
	g.tileProducts(halves, g.tileDotU8S8)
	g.e("MOVQ %d(DX), BX; MOVQ %d(DX), R10; ADDQ BX, R10", tsPrefetch, tsPrefetchStep)
	g.e("JMP ahead")
	g.label("prefetch")
	g.e("PREFETCHT1 (BX); PREFETCHT1 64(BX); ADDQ $128, BX")
	g.label("ahead")
	g.e("CMPQ BX, R10")
	g.e("JB prefetch")
	g.e("MOVQ BX, %d(DX)", tsPrefetch)
	if halves == 2 {
		g.e("ADDQ %d(DX), SI", tsStepA)
	}
	g.e("ADDQ %d(DX), AX; ADDQ R14, DI", tsStepA)
	g.e("DECQ CX")
	g.e("JNZ chunk")
	g.e("DECQ R12")
	g.e("JNZ tap")
	g.e("CMPQ R13, %d(DX)", tsAt)
	g.e("JEQ keep") // the first tile
	g.label("store")
	for h := range halves {
		label := func(s string) string { return fmt.Sprintf("%s%d", s, h) }
		g.e("MOVQ %d(R13), DI", 16+8*h-tileAt)
		g.e("ADDQ %d(DX), DI", tsC)
		g.e("LEAQ %d(R15), SI", h*16*tileStride)
		g.e("MOVBQZX %d(DX), CX", tsRows)
		g.e("MOVQ %d(DX), R12", tsRow)
		g.e("MOVQ %d(DX), BX", tsLdC)
		g.e("CMPQ %d(DX), $0", tsStore)
		g.e("JNE %s", label("sums"))
		g.label(label("requantize"))
		var sums [4]any
		for i := range sums {
			sums[i] = fmt.Sprintf("%d(SI)", i*64)
		}
		g.narrow4(f, sums, [4]int{0, 1, 2, 3}, [4]int{scale, scale + 1, scale, scale + 1}, hi, word, tsFlip, 1)
		g.e("VMOVDQU8 Y0, K3, (DI)")
		g.e("CMPQ CX, $1")
		g.e("JE %s", label("done"))
		g.e("VEXTRACTI64X4 $1, Z0, Y0")
		g.e("VMOVDQU8 Y0, K3, (DI)(BX*1)")
		g.e("ADDQ $%d, SI", 2*tileStride)
		g.e("LEAQ (DI)(BX*2), DI")
		g.e("SUBQ $2, CX")
		g.e("JNZ %s", label("requantize"))
		g.e("JMP %s", label("done"))
		g.label(label("sums"))
		for j := range 2 {
			g.op("VMOVDQU32", fmt.Sprintf("%d(SI)", j*64), j)
		}
		g.e("TESTQ R12, R12")
		g.e("JZ %s", label("acc"))
		g.e("VPBROADCASTD (R12), Z10")
		g.e("ADDQ $4, R12")
		for j := range 2 {
			g.op("VPADDD", 10, j, j)
		}
		g.label(label("acc"))
		g.e("CMPQ %d(DX), $1", tsStore)
		g.e("JEQ %s", label("store"))
		for j := range 2 {
			g.e("VMOVDQU32.Z %d(DI), K%d, Z10", j*64, j+1)
			g.op("VPADDD", 10, j, j)
		}
		g.label(label("store"))
		for j := range 2 {
			g.e("VMOVDQU32 Z%d, K%d, %d(DI)", j, j+1, j*64)
		}
		g.e("ADDQ R9, SI")
		g.e("ADDQ BX, DI")
		g.e("DECQ CX")
		g.e("JNZ %s", label("sums"))
		g.e("MOVQ R12, %d(DX)", tsRow)
		g.label(label("done"))
	}
	g.e("CMPQ %d(DX), $0", tsCount)
	g.e("JLT end")
	g.label("keep")
	for i := range 2 * halves {
		g.tileStore(i, i/2*16*tileStride+i%2*64, "R15", "R9")
	}
	g.e("ADDQ $%d, R13", tileAt)
	g.e("JMP tile")
	g.label("end")
	g.tileRelease()
	g.e("VZEROUPPER")
	g.e("RET")
}

var _ = register("quant", writeAMX)

func writeAMX(dir string) {
	f := newFile("amx")
	for halves := 1; halves <= 2; halves++ {
		tiles(f, halves)
	}
	f.write(dir, "quant", "")
}
