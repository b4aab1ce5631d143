package quant

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

// Rows describes the product of a few rows of uint8 and a matrix with one zero point, added to
// float32.
type Rows struct {
	M      int
	X      []uint8 // M rows of K at stride LdX, followed by [Packed.RowLen] elements that are arbitrary
	LdX    int
	XZero  int32
	B      *Packed
	BZero  int32     // of the unpacked values
	Less   []int32   // [Packed.Less] of BZero
	Scale  []float32 // one value per column
	Factor float32
	Bias   []float32 // one value per column
	Y      []float32 // M rows of N at stride LdY
	LdY    int
	Store  bool // the products replace Y
}

// rowsTile holds the arguments of a kernel; the generator knows the field offsets. Strides are in
// bytes.
type rowsTile struct {
	y, x, b, less, scale, bias unsafe.Pointer
	ldy, ldx                   uintptr
	panels, steps              int
	more                       unsafe.Pointer // one value per row, subtracted from its sums
	zero                       int32
	factor                     float32
	config                     *[64]byte      // the rest is for AMX: of its tiles
	sums                       unsafe.Pointer // of a panel
	rows                       int
	chunks                     int
	stepX, stepB               int    // bytes of a chunk
	add                        uint16 // a mask: Y is added
}

// RowLen returns the number of bytes of a row of A that kernels read.
func (p *Packed) RowLen() int {
	if !p.dot {
		return p.K
	}
	return max(p.K, 4*p.steps)
}

// Less returns the sums of the columns of the unpacked matrix minus a zero point.
func (p *Packed) Less(zero int32) []int32 {
	less := make([]int32, p.N)
	for j, v := range p.colSum {
		less[j] = v - int32(p.K)*(zero-p.shift)
	}
	return less
}

// AddRows computes panels [p0, p1) of the following. It returns false, with nothing done, if the
// level has no kernel, or if the columns of B do not fill its panels. Each operation rounds.
//
//	for i := range M {
//		for j := range B.N {
//			s := int32(0)
//			for k := range B.K {
//				s += (X[i*LdX+k]-XZero)*(B[k][j]-BZero)
//			}
//			Y[i*LdY+j] = Y[i*LdY+j] + float32(s)*(Scale[j]*Factor) + Bias[j] // Y is 0 if Store is set
//		}
//	}
func AddRows(l cpu.Level, g *Rows, p0, p1 int) bool {
	p := g.B
	if p.K == 0 || p.N == 0 || p.N%PanelWidth != 0 {
		return false
	}
	if g.M > 0 && p0 < p1 {
		last := g.M - 1
		_, _, _ = g.X[last*g.LdX+p.RowLen()-1], g.Y[last*g.LdY+p.N-1], g.Less[p.N-1]
		_, _, _ = g.Scale[p.N-1], g.Bias[p.N-1], p.bytes[p1*p.steps*PanelWidth*p.group()-1]
	}
	return addRows(l, g, p0, p1)
}

// ManyRows reports whether [AddRows] is as fast as [Compute] for any number of rows.
func (p *Packed) ManyRows(l cpu.Level) bool { return p.amx(l, amxRows) && cpu.AMXTiles(l) }
