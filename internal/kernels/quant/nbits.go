package quant

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
)

// NBits is a K×N matrix of 4- or 8-bit integers with a scale and a zero point per block of K, as in
// ONNX Runtime's MatMulNBits. It is packed in panels of 32 columns: 4-bit integers as [K/8][32]
// words of eight nibbles, 8-bit integers as [K/4][32] words of four int8. K is padded to whole
// blocks.
type NBits struct {
	K, N, Bits, Block int
	blocks            int
	data              []uint8
	scale             []float32 // [panel][block][32]
	shift             []float32 // [panel][block][32]: (standard - zero)·scale; nil if all zero points are standard
	zero              []int8    // [panel][block][32]: zero - standard, instead of shift
	splits            bool      // [gemm.SplitsB] of the elements
}

// standard returns the default zero point: 8 or 128.
func (p *NBits) standard() float32 { return float32(int(1) << (p.Bits - 1)) }

// wordK returns the number of values of k in a word of one column.
func (p *NBits) wordK() int { return 32 / p.Bits }

// panelBytes returns the size of a panel.
func (p *NBits) panelBytes() int { return p.blocks * p.Block / p.wordK() * PanelWidth * 4 }

// PackNBits packs b of shape (N, blocks, block·bits/8), with the low nibble first, scales (N,
// blocks) and zeros (N, blocks). If zeros is nil, the zero points are 8 or 128.
func PackNBits(b []uint8, scales, zeros []float32, k, n, bits, block int) (*NBits, error) {
	if bits != 4 && bits != 8 {
		return nil, fail.Errorf("got %d bits per integer, want 4 or 8", bits)
	}
	if block < 16 || block&(block-1) != 0 {
		return nil, fail.Errorf("block size %d, want a power of two of at least 16", block)
	}
	p := &NBits{K: k, N: n, Bits: bits, Block: block, blocks: tiles(k, block)}
	rowBytes := p.blocks * block * bits / 8
	if len(b) < n*rowBytes || len(scales) < n*p.blocks || zeros != nil && len(zeros) < n*p.blocks {
		return nil,
			fail.Errorf("%d bytes, %d scales and %d zero points for a %d×%d matrix in blocks of %d, want %d, %d and "+
				"as many or none", len(b), len(scales), len(zeros), k, n, block, n*rowBytes, n*p.blocks)
	}
	panels := tiles(n, PanelWidth)
	p.data = memory.Slice[uint8](panels * p.panelBytes())
	p.scale = memory.Slice[float32](panels * p.blocks * PanelWidth)
	switch n := panels * p.blocks * PanelWidth; {
	case zeros == nil:
	case p.byteZeros(zeros[:p.N*p.blocks]):
		p.zero = memory.Slice[int8](n)
	default:
		p.shift = memory.Slice[float32](n)
	}
	least, most := float32(math.Inf(1)), float32(0) // magnitudes of factors of integers
	for j := range n {
		row := b[j*rowBytes:][:rowBytes]
		at := j/PanelWidth*p.panelBytes() + j%PanelWidth*4
		for w := 0; w*4 < rowBytes; w++ {
			d := p.data[at+w*PanelWidth*4:][:4]
			s := row[w*4:][:4]
			if bits == 8 {
				for i, v := range s { // as int8, minus the standard zero point
					d[i] = v ^ 0x80
				}
				continue
			}
			// Store k = 0 to 7 in nibbles 0, 2, 4, 6, 1, 3, 5, 7, the order of the tiles.
			for i := range 4 {
				lo := s[i/2] >> (4 * (i % 2)) & 15
				hi := s[2+i/2] >> (4 * (i % 2)) & 15
				d[i] = lo | hi<<4
			}
		}
		for i := range p.blocks {
			q := (j/PanelWidth*p.blocks+i)*PanelWidth + j%PanelWidth
			p.scale[q] = scales[j*p.blocks+i]
			if factor := max(p.scale[q], -p.scale[q]); factor != 0 {
				least, most = min(least, factor), max(most, factor)
			}
			if zeros != nil {
				shift := (p.standard() - zeros[j*p.blocks+i]) * p.scale[q]
				most = max(most, shift/p.standard(), -shift/p.standard())
				if p.zero != nil {
					p.zero[q] = int8(zeros[j*p.blocks+i] - p.standard())
				} else {
					p.shift[q] = shift
				}
			}
		}
	}
	// An integer minus its zero point is at most twice the standard one, and 0 or at least 2⁻³⁰.
	p.splits = gemm.SplitsB(0, least*0x1p-30) && gemm.SplitsB(0, 2*p.standard()*most)
	return p, nil
}

// byteZeros reports whether the kernels read zero points as bytes: all are values of the elements,
// and products of blocks with elements of int8 are below 2³¹.
func (p *NBits) byteZeros(zeros []float32) bool {
	if !readsByteZeros || p.Block > 1<<16 {
		return false
	}
	for _, z := range zeros {
		if !(z >= 0 && z < 2*p.standard() && z == float32(int(z))) {
			return false
		}
	}
	return true
}

// shifts returns the shifts of panel pi, in buf if they must be computed, or nil if there are none.
func (p *NBits) shifts(level cpu.Level, buf *[]float32, pi int) []float32 {
	n := p.blocks * PanelWidth
	switch {
	case p.shift != nil:
		return p.shift[pi*n:][:n]
	case p.zero == nil:
		return nil
	}
	s := grow(buf, n)
	vec.I8ToF32(level, s, p.zero[pi*n:][:n])
	vec.MulF32(level, s, s, p.scale[pi*n:][:n])
	vec.NegF32(level, s, s)
	return s
}

func tiles(n, most int) int { return (n + most - 1) / most }

// value returns element k of column j of a panel.
func (p *NBits) value(panel []uint8, k, j int) uint8 {
	w := p.wordK()
	word := panel[(k/w*PanelWidth+j)*4:][:4]
	k %= w
	if p.Bits == 8 {
		return word[k] ^ 0x80
	}
	return word[k%4] >> (k / 4 * 4) & 15
}

// Dequantize writes panel pi as float32, [blocks·Block][32]:
//
//	dst[k*32+j] = (b[k][j]-standard)*scale[k/block][j] + shift[k/block][j]
func (p *NBits) Dequantize(level cpu.Level, dst []float32, pi int) {
	buf := shiftsPool.Get().(*[]float32)
	defer shiftsPool.Put(buf)
	shifts := p.shifts(level, buf, pi)
	data := p.data[pi*p.panelBytes():][:p.panelBytes()]
	var zero [PanelWidth]float32
	for b := range p.blocks {
		q := (pi*p.blocks + b) * PanelWidth
		scale, shift := p.scale[q:][:PanelWidth], zero[:]
		if shifts != nil {
			shift = shifts[b*PanelWidth:][:PanelWidth]
		}
		d := dst[b*p.Block*PanelWidth:][:p.Block*PanelWidth]
		w := data[b*p.Block/p.wordK()*PanelWidth*4:]
		if dequantizeAsm(level, p, d, w, scale, shift) {
			continue
		}
		for k := range p.Block {
			for j := range PanelWidth {
				d[k*PanelWidth+j] = (float32(p.value(w, k, j))-p.standard())*scale[j] + shift[j]
			}
		}
	}
}

// NBitsArgs describes C[M,N] = A·B + bias. Kernels may round an element of A by 2⁻²⁴ of the largest
// magnitude in its block of K.
type NBitsArgs struct {
	M    int
	A    []float32 // M rows of K at stride LdA
	LdA  int
	B    *NBits
	Bias []float32 // N values, or nil
	C    []float32 // M rows of N at stride LdC
	LdC  int
	// Int8 allows rounding the rows of A to 8 bits per block of K, as accuracy_level 4 of
	// MatMulNBits does. It is used if it is faster. The error is at most 2⁻⁷ of the block's largest
	// element of A per term.
	Int8 bool
	// Split allows bfloat16 tiles, as accurate as float32; see [gemm.Args.Split].
	Split bool
}

// splitPays reports whether products of A and of converted panels are faster by bfloat16 tiles.
func (g *NBitsArgs) splitPays(level cpu.Level) bool {
	a := gemm.Args[float32]{M: g.M, N: g.B.N, K: g.B.K, Splits: g.B.splits}
	return g.Split && !g.Int8 && a.SplitPays(level)
}

// nbitsArgs holds the arguments of the assembly; the generator knows the field offsets. Distances
// are in bytes.
type nbitsArgs struct {
	a               unsafe.Pointer // int8, or float32
	aScale, aSum    unsafe.Pointer // per block: scale as float32, and -sumFactor·Σ as int32 or Σ as float32
	lda, lds        uintptr
	b, scale, shift unsafe.Pointer
	blocks, steps   int // steps: words of a column per block
	c               unsafe.Pointer
	ldc             uintptr
	acc             uint64
	mask            uint32
	far             uintptr // distance of b to prefetch
	zero            unsafe.Pointer
	standard        int32
}

// nbitsForm is the form of A that the kernels multiply.
type nbitsForm uint8

const (
	nbitsPanels nbitsForm = iota // A by panels that are converted to float32
	nbitsFloats                  // few rows of A, in blocks
	nbitsBytes                   // rows of A rounded to bytes
	nbitsDigits                  // rows of A as digits
)

// blockRows holds the rows of A in whole blocks as the kernels of a form read them, and sums per
// row and block. Its parallel sections are methods: functions of a call would be allocated.
type blockRows struct {
	g        *NBitsArgs
	level    cpu.Level
	form     nbitsForm
	infinite atomic.Bool // a row has no digits

	convert, compute func(lo, hi int) // methods convertRows and panels

	a     []float32
	bytes []int8
	scale []float32
	sum   []int32
	fsum  []float32
	parts []uint16 // [gemm.Args.Split], empty if unused
}

var (
	blockRowsPool = sync.Pool{New: func() any {
		r := new(blockRows)
		r.convert, r.compute = r.convertRows, r.panels
		return r
	}}
	nbitsPanelPool = sync.Pool{New: func() any { return new([]float32) }}
	shiftsPool     = sync.Pool{New: func() any { return new([]float32) }}
)

// ParallelNBits computes the whole result. par distributes the rows of A that must be converted,
// and then the panels; if it is nil, one call computes everything.
func ParallelNBits(par gemm.Par, level cpu.Level, g *NBitsArgs) {
	if par == nil {
		par = func(n int, fn func(lo, hi int)) { fn(0, n) }
	}
	if g.M == 0 {
		return
	}
	rows := blockRowsPool.Get().(*blockRows)
	defer blockRowsPool.Put(rows)
	rows.g, rows.level = g, level
	if rows.parts = rows.parts[:0]; g.splitPays(level) {
		rows.splitTiles(par)
	} else {
		rows.prepare(par)
	}
	par(tiles(g.B.N, PanelWidth), rows.compute)
	rows.g = nil
}

// splitTiles splits the rows of A for bfloat16 tiles.
func (r *blockRows) splitTiles(par gemm.Par) {
	const unit = 16 // rows of a tile
	g, level := r.g, r.level
	a := gemm.Args[float32]{M: g.M, K: g.B.K, A: g.A, LdA: g.LdA}
	n := gemm.SplitLen(g.M, g.B.K)
	r.form, r.parts = nbitsPanels, slices.Grow(r.parts, n)[:n]
	par(tiles(g.M, unit), func(lo, hi int) { a.SplitRows(level, r.parts, lo*unit, min(g.M, hi*unit)) })
}

// panels computes the panels [p0, p1) of all rows.
func (r *blockRows) panels(p0, p1 int) {
	g, level := r.g, r.level
	if p0 >= p1 {
		return
	}
	buf := nbitsPanelPool.Get().(*[]float32)
	defer nbitsPanelPool.Put(buf)
	if r.form != nbitsPanels {
		r.panelsAsm(buf, p0, p1)
	} else {
		p := g.B
		size, group := p.blocks*p.Block*PanelWidth, 1
		if p.blocks*p.Block == p.K { // panels without padding have gemm's layout
			group = min(p1-p0, PanelGroup)
		}
		panels := grow(buf, group*size)
		for pi := p0; pi < p1; pi += group {
			group = min(group, p1-pi)
			for i := range group {
				p.Dequantize(level, panels[i*size:][:size], pi+i)
			}
			j := pi * PanelWidth
			a := gemm.Args[float32]{M: g.M, N: min(group*PanelWidth, p.N-j), K: p.K, A: g.A, LdA: g.LdA, B: panels,
				Packed: true, C: g.C[j:], LdC: g.LdC}
			if len(r.parts) > 0 {
				a.Split = r.parts
			}
			gemm.F32(level, &a, a.Whole())
		}
	}
	if g.Bias != nil {
		j0, j1 := p0*PanelWidth, min(g.B.N, p1*PanelWidth)
		for i := range g.M {
			c := g.C[i*g.LdC+j0:][:j1-j0]
			vec.AddF32(level, c, c, g.Bias[j0:j1])
		}
	}
}

// PanelGroup is the number of panels that are converted to float32 at a time: their GEMM copies
// rows of A once.
const PanelGroup = 4

// quantizeBlock quantizes a block to int8 and returns the scale and the sum of the int8 values.
func quantizeBlock(level cpu.Level, dst []int8, x []float32) (scale float32, sum int32) {
	hi, lo := vec.ReduceMaxF32(level, x), vec.ReduceMinF32(level, x)
	top := max(hi, -lo)
	if top == 0 {
		clear(dst)
		return 0, 0
	}
	scale = top / 127
	return scale, quantizeBytes(level, dst, x, 127/top)
}

func quantizeBytesGeneric(dst []int8, x []float32, factor float32) (sum int32) {
	for i, v := range x {
		q := int32(math.RoundToEven(float64(v * factor)))
		dst[i] = int8(min(max(q, -128), 127))
		sum += q
	}
	return sum
}
