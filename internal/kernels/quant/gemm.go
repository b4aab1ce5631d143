// Package quant multiplies matrices of 8-bit integers, exactly, and converts between them and
// float32.
//
// The sums are int32 and wrap around; all levels give the same bits. The right-hand matrix is
// packed once, for a level.
//
// # AMX
//
// A tile instruction multiplies 16×64 by 64×16 bytes in 16 cycles, eight times the rate of VNNI.
// Its B has the format of the VNNI panels, [K/4][columns][4], so both read the same packed
// weights. See [Tiles].
//
// # arm64
//
// SDOT multiplies int8. Rows of A are copied as int8 (uint8 minus 128), and the zero point moves by
// the same amount. Six rows by sixteen columns take 96 SDOT, six loads of A and eight pairs of
// loads of B for 16 elements of K. With FEAT_I8MM, SMMLA multiplies two rows by two columns over
// eight k: half the instructions. The panels are those of SDOT, and ZIP pairs columns. llvm-mca
// predicts 17.6 cycles on Neoverse V1 and 21.1 on V2, where SDOT takes 24.1. Panels packed for
// SMMLA would need no ZIP, but would be a second format that a GEMV cannot use.
//
// Tiles of block-quantized weights have five rows by sixteen columns. Nibbles stay unsigned, and
// sums begin with -8 times the sum of A. Tiles of three rows or more keep their float32 sums in
// C, which frees registers for rows that share the unpacking of the weights.
//
// Conversions to bytes use FMAXNM, which returns the bound for a NaN, and subtract zero points
// in 16 bits.
package quant

//go:generate go -C ../_asm run . quant

import (
	"encoding/binary"
	"sync"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
)

const (
	// PanelWidth is the number of columns in a panel of a packed matrix.
	PanelWidth = 32
	tileRows   = 14
	// maxSteps limits the steps of four bytes of K in one tile call.
	maxSteps = 4096
	blockM   = 252
	// requantizedPanels is the number of panels whose sums are converted together, from a buffer
	// that stays in the caches.
	requantizedPanels = 8
)

// Byte is an 8-bit integer type of ONNX.
type Byte interface{ int8 | uint8 }

// Packed is a K×N matrix of 8-bit integers in panels of 32 columns. For VNNI and SDOT, and for AVX2
// if few pairs of elements are large, a panel is [K/4][32][4]. Otherwise it is [K/2][32][2], which
// kernels widen to 16 bits. K is padded with zeros. Elements of uint8 are stored minus 128.
type Packed struct {
	K, N   int
	dot    bool       // in groups of four
	pairs  bool       // for VPMADDUBSW
	excess [][]excess // per panel: what has been taken from elements for VPMADDUBSW; nil: nothing
	shift  int32      // was subtracted from the elements
	steps  int        // groups of K
	each   int        // of which AMX takes so many at a time; 0 without AMX
	bytes  []int8
	colSum []int32 // sums of the stored columns
}

// Pack packs b, K rows of N columns at stride ldb (if trans is set N rows of K), for a level, in
// panels that par distributes.
func Pack[T Byte](par gemm.Par, level cpu.Level, b []T, ldb int, trans bool, k, n int) *Packed {
	if level == cpu.AVX2 && fewLargePairs(b, ldb, trans, k, n) {
		p := pack(&Packed{K: k, N: n, dot: true, pairs: true}, par, false, b, ldb, trans)
		p.limitPairs()
		return p
	}
	return PackRows(par, level, b, ldb, trans, k, n)
}

// PackRows is [Pack] in the format that [AddRows] reads.
func PackRows[T Byte](par gemm.Par, level cpu.Level, b []T, ldb int, trans bool, k, n int) *Packed {
	return pack(&Packed{K: k, N: n, dot: dotProduct(level)}, par, cpu.AMX(level), b, ldb, trans)
}

// dotProduct reports whether a level multiplies bytes.
func dotProduct(l cpu.Level) bool { return cpu.VNNI(l) || cpu.DotProduct(l) }

// pack packs b as p says.
func pack[T Byte](p *Packed, par gemm.Par, amx bool, b []T, ldb int, trans bool) *Packed {
	k, n := p.K, p.N
	p.colSum = make([]int32, n)
	var z T
	z--
	if z > 0 { // unsigned
		p.shift = 128
	}
	panels := (n + PanelWidth - 1) / PanelWidth
	group := p.group()
	p.steps = (k + group - 1) / group
	if p.dot && amx && k > 0 {
		chunks, each := Chunks(p.steps)
		p.steps, p.each = chunks*each, each
	}
	p.bytes = memory.Slice[int8](panels * p.steps * PanelWidth * group)
	if par == nil {
		par = func(n int, fn func(lo, hi int)) { fn(0, n) }
	}
	bytes, _, _ := bytesOf(b)
	par(panels, func(lo, hi int) {
		lo, hi = lo*PanelWidth, min(hi*PanelWidth, n)
		switch {
		case p.dot && trans:
			p.packColumns(bytes, ldb, lo, hi)
		case p.dot:
			p.packRows(bytes, ldb, lo, hi)
		default:
			packPairs(p, b, ldb, trans, lo, hi)
		}
	})
	return p
}

// group returns the number of elements of a column that are adjacent.
func (p *Packed) group() int {
	if p.dot {
		return 4
	}
	return 2
}

// packPairs packs the columns [lo, hi) in groups of two.
func packPairs[T Byte](p *Packed, b []T, ldb int, trans bool, lo, hi int) {
	const group = 2
	flip := T(p.shift)
	for j0 := lo; j0 < hi; j0 += PanelWidth {
		w := min(PanelWidth, hi-j0)
		sums, dst := p.colSum[j0:][:w], p.bytes[j0*p.steps*group:]
		for i := range p.K {
			d := dst[i/group*PanelWidth*group+i%group:]
			if trans {
				for j := range w {
					v := int8(b[(j0+j)*ldb+i] ^ flip)
					d[j*group] = v
					sums[j] += int32(v)
				}
				continue
			}
			for j, x := range b[i*ldb+j0:][:w] {
				v := int8(x ^ flip)
				d[j*group] = v
				sums[j] += int32(v)
			}
		}
	}
}

// packRows packs the columns [lo, hi) of rows of K as int8, four rows at a time.
func (p *Packed) packRows(b []uint8, ldb, lo, hi int) {
	flip := uint8(p.shift)
	for j0 := lo; j0 < hi; j0 += PanelWidth {
		w := min(PanelWidth, hi-j0)
		sum, dst := p.colSum[j0:][:w], p.bytes[j0*p.steps*4:]
		whole, wide := p.K/4, 0 // steps and columns that are packed together
		if w == PanelWidth && whole > 0 && !p.pairs && packRowsAsm(dst, b[j0:], sum, ldb, whole, flip) > 0 {
			wide = w
		}
		for ; whole > 0 && wide+4 <= w; wide += 4 {
			packFour(dst[wide*4:], b[j0+wide:], sum[wide:], ldb, whole, flip)
		}
		for j := range w {
			first := 0
			if j < wide {
				first = whole
			}
			for k := 4 * first; k < p.K; k++ {
				v := int8(b[k*ldb+j0+j] ^ flip)
				dst[k/4*PanelWidth*4+4*j+k%4] = v
				sum[j] += int32(v)
			}
		}
	}
}

// packFour packs 4·steps rows of four columns and adds their elements to sums.
func packFour(dst []int8, b []uint8, sums []int32, ldb, steps int, flip uint8) {
	flips := uint32(flip) * 0x01010101
	sums = sums[:4]
	s0, s1, s2, s3 := sums[0], sums[1], sums[2], sums[3]
	for s := range steps {
		x := b[4*s*ldb:]
		d := memory.AsBytes(dst[s*PanelWidth*4:][:16])
		c0, c1, c2, c3 := transpose4(binary.LittleEndian.Uint32(x)^flips, binary.LittleEndian.Uint32(x[ldb:])^flips,
			binary.LittleEndian.Uint32(x[2*ldb:])^flips, binary.LittleEndian.Uint32(x[3*ldb:])^flips)
		binary.LittleEndian.PutUint64(d, uint64(c0)|uint64(c1)<<32)
		binary.LittleEndian.PutUint64(d[8:], uint64(c2)|uint64(c3)<<32)
		s0, s1, s2, s3 = s0+sum4(c0), s1+sum4(c1), s2+sum4(c2), s3+sum4(c3)
	}
	sums[0], sums[1], sums[2], sums[3] = s0, s1, s2, s3
}

// packColumns packs the columns [lo, hi), which are rows of the transposed matrix, as int8.
func (p *Packed) packColumns(b []uint8, ldb, lo, hi int) {
	flip := uint8(p.shift)
	for j := lo; p.K > 0 && j < hi; j++ {
		col := b[j*ldb:][:p.K]
		d := p.bytes[(j/PanelWidth*p.steps*PanelWidth+j%PanelWidth)*4:]
		var sum int32
		for len(col) >= 4 {
			q := d[:4]
			q[0], q[1], q[2], q[3] = int8(col[0]^flip), int8(col[1]^flip), int8(col[2]^flip), int8(col[3]^flip)
			sum += int32(q[0]) + int32(q[1]) + int32(q[2]) + int32(q[3])
			if col = col[4:]; len(col) > 0 {
				d = d[PanelWidth*4:]
			}
		}
		for i, v := range col {
			d[i] = int8(v ^ flip)
			sum += int32(d[i])
		}
		p.colSum[j] = sum
	}
}

// Args describes C[M,N] = Σ (A-AZero)·(B-BZero), in int32.
type Args struct {
	M      int
	A      []byte // M rows of K at stride LdA, of int8 if Signed and uint8 otherwise
	LdA    int
	Signed bool
	AZero  []int32 // zero points: empty, one, or one per row
	B      *Packed
	BZero  []int32 // zero points of the unpacked values: empty, one, or one per column
	Bias   []int32 // N values added to the rows, or nil
	C      []int32 // M rows of N at stride LdC
	LdC    int
	Out    *Requantized // where the sums go as bytes, instead of C; or nil
	Real   *Real        // where they go as float32, instead of C; or nil
}

// Requantized is the destination of sums that become bytes, as by [Requantize].
type Requantized struct {
	Y      []byte // M rows of N, of int8 if Signed and uint8 otherwise
	Signed bool
	Scale  []float32 // one value, or one per column
	Zero   int32
}

// bounds returns the smallest and the largest byte.
func (r *Requantized) bounds() (lo, hi float32) {
	if r.Signed {
		return -128, 127
	}
	return 0, 255
}

// single returns the first of zero points that are all equal, or all of them. Quantizers write a
// zero point per column even if the type is symmetric and all are 0.
func single(z []int32) []int32 {
	for _, v := range z {
		if v != z[0] {
			return z
		}
	}
	return z[:min(1, len(z))]
}

func zeroAt(z []int32, i int) int32 {
	switch len(z) {
	case 0:
		return 0
	case 1:
		return z[0]
	}
	return z[i]
}

// tileI32 holds the arguments of a tile function; the generator knows the field offsets, which are
// those of package gemm. Strides are in bytes.
type tileI32 struct {
	a, b, c       unsafe.Pointer
	lda, ldb, ldc uintptr
	k             int // in groups of B
	bias, rowBias unsafe.Pointer
	_             unsafe.Pointer
	_             uintptr
	acc           uint64
	_             uint64
	_             [3]float32
	mask          uint32
	_             uint64
	prefetch      uintptr
	_             uintptr // increment of prefetch in package gemm, not used here
	far           uintptr // distance of b to prefetch for few rows
}

// buffers holds the rows of A in the form for the tiles, and small sums.
type buffers struct {
	a       []byte
	rowSum  []int32
	rowBias []int32
	colBias []int32
	sums    []int32
	scale   [PanelWidth]float32
	tiles   *Tiles
	factors [128]int32 // of subtract
	less    [128]int32
}

var pool = sync.Pool{New: func() any { return new(buffers) }}

func grow[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = memory.Slice[T](n)
	}
	return (*s)[:n]
}

// subtract subtracts x·v from dst. They wrap around.
func (b *buffers) subtract(level cpu.Level, dst, x []int32, v int32) {
	if v == 0 {
		return
	}
	for j := range b.factors[:min(len(b.factors), len(dst))] {
		b.factors[j] = v
	}
	for len(dst) > 0 {
		n := min(len(b.less), len(dst))
		vec.MulI32(level, b.less[:n], x, b.factors[:])
		vec.SubI32(level, dst[:n], dst, b.less[:])
		dst, x = dst[n:], x[n:]
	}
}

// Compute computes the rows and panels of blk. Level must be the level that B was packed for.
//
//	for i := range rows {
//		for j := range columns {
//			s := bias[j]
//			for p := range k {
//				s += (a[i*lda+p]-azero[i]) * (b[p*ldb+j]-bzero[j])
//			}
//			c[i*ldc+j] = s
//			// or out.y[i*n+j] = saturate(roundToEven(float32(s)*out.scale[j]) + out.zero)
//			// or as Real has it
//		}
//	}
func Compute(level cpu.Level, g *Args, blk gemm.Block) {
	if blk.Panel0 >= blk.Panel1 || g.B.N == 0 {
		return
	}
	b := pool.Get().(*buffers)
	one := *g // one zero point for all rows or columns needs no pass over the sums
	one.AZero, one.BZero = single(g.AZero), single(g.BZero)
	for r := blk.Row0; r < blk.Row1; r += blockM {
		computeRows(level, &one, b, r, min(blk.Row1, r+blockM), blk.Panel0, blk.Panel1)
	}
	pool.Put(b)
}

func computeRows(level cpu.Level, g *Args, buf *buffers, r0, r1, p0, p1 int) {
	p, rows := g.B, r1-r0
	// The elements of A become unsigned, or signed for SDOT: A' = A + shiftA and B' = B - p.shift,
	// so the zero points move by the same amounts.
	signed := p.dot && cpu.DotProduct(level)
	shiftA := int32(0)
	switch {
	case g.Signed && !signed:
		shiftA = 128
	case !g.Signed && signed:
		shiftA = -128
	}
	plain := p.dot && shiftA == 0 && p.K == 4*p.steps && p.K > 0
	a, lda := unsafe.Pointer(nil), 0
	if plain {
		a, lda = unsafe.Pointer(&g.A[r0*g.LdA]), g.LdA
	} else {
		lda = p.steps * 4
		d := grow(&buf.a, rows*lda)
		for i := range rows {
			row := g.A[(r0+i)*g.LdA:][:p.K]
			if p.dot {
				copyBytes(d[i*lda:][:lda], row, shiftA != 0)
			} else {
				copyWords(level, d[i*lda:][:lda], row, g.Signed, shiftA)
			}
		}
		a = unsafe.Pointer(unsafe.SliceData(d))
	}
	// Σ(A'-za)(B'-zb) = ΣA'B' - za·ΣB' - zb·Σ(A'-za)
	za := func(i int) int32 { return zeroAt(g.AZero, i) + shiftA }
	perRow, perColumn := len(g.AZero) > 1, len(g.BZero) > 1
	zb := -p.shift // without zero points per column
	if !perColumn {
		zb += zeroAt(g.BZero, 0)
	}
	var rowSum, rowBias []int32 // Σ(A'-za) and what sums of a row begin with
	if perColumn || zb != 0 {
		rowSum, rowBias = grow(&buf.rowSum, rows), grow(&buf.rowBias, rows)
		for i := range rows {
			var s int32
			row := g.A[(r0+i)*g.LdA:][:p.K]
			switch {
			case p.dot && !signed: // the padding is zero
				s = int32(sumU8(level, unsafe.Slice((*uint8)(unsafe.Add(a, i*lda)), min(lda, p.steps*4))))
			case g.Signed:
				for _, v := range row {
					s += int32(int8(v))
				}
				s += shiftA * int32(p.K)
			default:
				s = int32(SumU8(level, row)) + shiftA*int32(p.K)
			}
			rowSum[i] = s - int32(p.K)*za(r0+i)
			rowBias[i] = -zb * rowSum[i]
		}
	}
	j0, j1 := p0*PanelWidth, min(p.N, p1*PanelWidth)
	cols := j1 - j0
	colBias := grow(&buf.colBias, cols+PanelWidth)[:cols]
	if g.Bias != nil {
		copy(colBias, g.Bias[j0:j1])
	} else {
		clear(colBias)
	}
	if !perRow {
		buf.subtract(level, colBias, p.colSum[j0:j1], za(0))
	}
	passes := perRow || perColumn
	if perColumn && !perRow && rows == 1 {
		buf.subtract(level, colBias, g.BZero[j0:j1], rowSum[0])
		passes = false
	}
	var t tileI32
	t.lda, t.ldb = uintptr(lda), uintptr(PanelWidth*p.group())
	each := p1 - p0
	converted := g.Out != nil || g.Real != nil
	if converted {
		each = requantizedPanels
	}
	direct := g.Out != nil && rowSum == nil && !perRow && p.amx(level, rows) && p.steps <= maxSteps
	for q0 := p0; q0 < p1; q0 += each {
		q1 := min(p1, q0+each)
		jq := q0 * PanelWidth
		c, ldc := []int32(nil), g.LdC
		switch {
		case direct:
		case !converted:
			c = g.C[r0*ldc+jq:]
		default:
			ldc = min(p.N-jq, each*PanelWidth)
			c = grow(&buf.sums, rows*ldc)
		}
		t.ldc = uintptr(ldc) * 4
		for pi := q0; pi < q1; pi++ {
			j := pi * PanelWidth
			t.bias = unsafe.Pointer(&colBias[j-j0])
			if direct {
				t.a, t.k, t.acc, t.mask = a, p.steps, 0, uint32(1<<min(PanelWidth, p.N-j)-1)
				t.b = unsafe.Pointer(&p.bytes[pi*p.steps*PanelWidth*4])
				buf.amxPanel(level, &t, rows, p.each, g.Out, r0*p.N+j, p.N)
				continue
			}
			panel(level, p, buf, &t, a, pi, rows, min(PanelWidth, p.N-j), c[j-jq:], ldc, rowBias)
		}
		w := min(p.N, q1*PanelWidth) - jq
		for i := 0; i < rows && passes; i++ {
			if perColumn {
				buf.subtract(level, c[i*ldc:][:w], g.BZero[jq:], rowSum[i])
			}
			if perRow {
				buf.subtract(level, c[i*ldc:][:w], p.colSum[jq:], za(r0+i))
			}
		}
		if g.Real != nil {
			g.Real.store(level, c, ldc, r0, rows, jq, w, p.N)
		}
		if g.Out == nil || direct {
			continue
		}
		o := g.Out
		lo, hi := o.bounds()
		scale, lines, n := o.Scale, rows, w
		switch {
		case len(scale) > 1:
			scale = scale[jq:][:w]
		case w == p.N: // the rows are adjacent
			lines, n = 1, rows*w
		}
		for i := range lines {
			requantizeI32(level, o.Y[(r0+i)*p.N+jq:][:n], c[i*ldc:][:n], scale, float32(o.Zero), lo, hi)
		}
	}
}

// panel computes the tiles of one panel. It splits K so that calls stay short.
func panel(level cpu.Level, p *Packed, buf *buffers, t *tileI32, a unsafe.Pointer, pi, rows, cols int, c []int32,
	ldc int, rowBias []int32) {
	most := tileHeight(level, p.dot)
	bias := t.bias
	t.mask = uint32(1<<cols - 1)
	base := unsafe.Pointer(unsafe.SliceData(p.bytes))
	amx := p.amx(level, rows)
	deep := maxSteps
	if amx {
		deep = maxSteps / p.each * p.each
	}
	count := (rows + most - 1) / most
	for k0 := 0; k0 == 0 || k0 < p.steps; k0 += deep {
		t.k = min(deep, p.steps-k0)
		if t.k > 0 {
			t.b = unsafe.Add(base, (pi*p.steps+k0)*int(t.ldb))
		}
		t.acc, t.bias = 0, nil
		if k0 > 0 {
			t.acc = 1
		}
		last := k0+t.k >= p.steps
		if last {
			t.bias = bias
		}
		if amx {
			t.a, t.c, t.rowBias = unsafe.Add(a, k0*4), unsafe.Pointer(&c[0]), nil
			if last && rowBias != nil {
				t.rowBias = unsafe.Pointer(&rowBias[0])
			}
			buf.amxPanel(level, t, rows, p.each, nil, 0, 0)
			continue
		}
		for i := range count {
			r, e := rows*i/count, rows*(i+1)/count
			t.a = unsafe.Add(a, r*int(t.lda)+k0*4)
			t.c = unsafe.Pointer(&c[r*ldc])
			t.rowBias = nil
			if last && rowBias != nil {
				t.rowBias = unsafe.Pointer(&rowBias[r])
			}
			t.prefetch, t.far = uintptr(t.b), gemm.Ahead(gemm.FarBytes)
			runTile(level, p.dot, e-r, cols, t)
		}
	}
	if p.excess != nil {
		addExcess(p.excess[pi], a, int(t.lda), rows, c, ldc)
	}
}

// tileGeneric computes a tile of A with uint8 or int16. dot selects the format of B.
func tileGeneric(dot bool, rows, cols int, t *tileI32) {
	for r := range rows {
		c := unsafe.Slice((*int32)(unsafe.Add(t.c, r*int(t.ldc))), cols)
		var sum [PanelWidth]int32
		if t.acc != 0 {
			copy(sum[:], c)
		}
		for k := range t.k {
			a := unsafe.Add(t.a, r*int(t.lda)+k*4)
			b := unsafe.Add(t.b, k*int(t.ldb))
			if dot {
				x, w := (*[4]uint8)(a), (*[PanelWidth][4]int8)(b)
				x0, x1, x2, x3 := int32(x[0]), int32(x[1]), int32(x[2]), int32(x[3])
				for j := range w {
					sum[j] += x0*int32(w[j][0]) + x1*int32(w[j][1]) + x2*int32(w[j][2]) + x3*int32(w[j][3])
				}
				continue
			}
			x, w := (*[2]int16)(a), (*[PanelWidth][2]int8)(b)
			x0, x1 := int32(x[0]), int32(x[1])
			for j := range w {
				sum[j] += x0*int32(w[j][0]) + x1*int32(w[j][1])
			}
		}
		if t.bias != nil {
			for j, v := range unsafe.Slice((*int32)(t.bias), cols) {
				sum[j] += v
			}
		}
		if t.rowBias != nil {
			v := *(*int32)(unsafe.Add(t.rowBias, r*4))
			for j := range sum {
				sum[j] += v
			}
		}
		copy(c, sum[:])
	}
}

// Parallel computes the whole result. par distributes panels or rows; if it is nil, one call
// computes everything.
func Parallel(par gemm.Par, level cpu.Level, g *Args) {
	gemm.Split(par, g.M, g.B.N, g.B.K, 16<<20, func(b gemm.Block) { Compute(level, g, b) })
}
