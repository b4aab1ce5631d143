package gemm

import (
	"math"
	"runtime"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// GEMM with operands rounded to bfloat16.
//
// The left operand is rounded once for all threads, in the order in which tiles are loaded.
// VDPBF16PS reads a pair of A as a broadcast operand and applies the epilogue to the sums of 8
// rows in registers. AMX stores the sums of four panels in a buffer, because rows of C that are
// multiples of 4 KiB apart conflict in the caches; the float32 kernels then apply the epilogue.
// Each chunk prefetches lines of the next panel of weights (6 to 19 % more GFLOPS on Intel
// Sapphire Rapids).
//
// BFMMLA reads rows in pairs and columns of four k, as they are packed. llvm-mca predicts 128
// BFMMLA in 32 cycles on Neoverse V1 and 40 on V2, four times the rate of float32. In the
// generic code, TwoSum gives the error of a float64 sum, which makes the sum odd first;
// truncation to 24 bits is then exact.
//
// Products of two numbers are exact, and sums are float32. The generic code adds in the order of
// the processor's instructions: all levels give the same bits, except the payloads of NaNs.
// Subnormal operands and results are treated as zero. Intel's SDM, volume 2, and Arm's DDI 0487
// define the orders:
//
//   - TDPBF16PS of AMX: for each [chunkK] terms the sum of those with even indices, from zero on,
//     and that of the odd ones, with one rounding per term; then the sum of both, which is added to
//     the previous sum.
//   - VDPBF16PS: the terms of each pair, the odd one first, are added to the previous sum, with one
//     rounding per term.
//   - BFMMLA of arm64 (BFDotAdd without FEAT_EBF16, or with FPCR.EBF zero): both terms of a pair
//     are added, and their sum to the previous one. Both sums are rounded to odd: an inexact one
//     becomes the neighbour with the odd significand, which is within one unit in the last place.

const (
	// chunkK is the number of terms that a tile instruction sums.
	chunkK = 32
	// unitRows is the number of rows of one tile of A.
	unitRows = 16
	// blockChunks is the number of chunks of B that stay in the first-level cache for all rows of a
	// block of AMX tiles: 16 KiB.
	blockChunks = 8
	// sumPanels is the number of panels of sums before the epilogue.
	sumPanels = 4
)

// order is an order of the additions, and of the operands in memory.
type order uint8

const (
	inChunks order = iota // TDPBF16PS
	inPairs               // VDPBF16PS
	inFours               // BFMMLA, which multiplies two rows and two columns over four k
)

// bf16Order returns the order of the processor's instructions.
func bf16Order() order {
	switch cpu.OrderBF16() {
	case cpu.BF16Fours:
		return inFours
	case cpu.BF16Pairs:
		return inPairs
	}
	return inChunks
}

// fours reports whether o is the order of BFMMLA. Other architectures have no code for it.
func (o order) fours() bool { return runtime.GOARCH == "arm64" && o == inFours }

// group returns the number of k whose elements of a column are adjacent.
func (o order) group() int {
	if o.fours() {
		return 4
	}
	return 2
}

// MaxBF16K is the largest K of a GEMM with a matrix of [PackBF16], so that calls stay short.
const MaxBF16K = 16384

// chunks returns the number of chunks of k terms.
func chunks(k int) int { return (k + chunkK - 1) / chunkK }

// BF16Len returns the number of elements of a K×N matrix that [PackBF16] writes.
func BF16Len(k, n int) int { return Panels(n) * chunks(k) * chunkK * PanelWidth }

// PackBF16 rounds packed panels of K×N to bfloat16, as panels [N/32][K/2][32][2], or
// [N/32][K/4][32][4] for BFMMLA. K is padded with zeros to a multiple of 32.
func PackBF16(level cpu.Level, dst []uint16, packed []float32, k, n int) {
	const fours = 4 * PanelWidth
	size := chunks(k) * chunkK * PanelWidth
	for p := range Panels(n) {
		d, x := dst[p*size:][:size], packed[p*k*PanelWidth:][:k*PanelWidth]
		whole := k / 4 * fours
		foursBF16(level, d, x, k/4)
		clear(d[whole:])
		if k%4 != 0 {
			var last [fours]float32
			copy(last[:], x[whole:])
			foursBF16(level, d[whole:], last[:], 1)
		}
	}
}

// foursGeneric interleaves and rounds n times four rows of a panel.
func foursGeneric(dst []uint16, x []float32, n int) {
	size := bf16Order().group()
	for i := range 4 * n / size {
		for j := range PanelWidth {
			for h := range size {
				dst[(i*PanelWidth+j)*size+h] = vec.RoundBF16(x[(i*size+h)*PanelWidth+j])
			}
		}
	}
}

// RoundPairs interleaves and rounds pairs of rows of a panel: rows [K][32] become [K/2][32][2]. K
// is a multiple of 4.
func RoundPairs(level cpu.Level, dst []uint16, rows []float32) {
	if bf16Order().group() == 2 {
		foursBF16(level, dst, rows, len(rows)/(4*PanelWidth))
		return
	}
	for i := range dst {
		dst[i] = vec.RoundBF16(rows[(i/(2*PanelWidth)*2+i%2)*PanelWidth+i/2%PanelWidth])
	}
}

// RoundedLen returns the number of elements that [Args.RoundRows] writes for rows of K.
func RoundedLen(rows, k int) int {
	return (rows + unitRows - 1) / unitRows * unitRows * chunks(k) * chunkK
}

// RoundRows rounds rows [row0, row1) of A to bfloat16, as [rows/16][K/32][16][32], or
// [rows/16][K/32][8][8][2][4] for BFMMLA, for [Args.Rounded]. row0 is a multiple of 16 and dst is
// for all rows. It allocates no memory unless TransA is set.
func (a *Args[T]) RoundRows(level cpu.Level, dst []uint16, row0, row1 int) {
	f := any(a).(*Args[float32])
	n, whole := chunks(a.K), a.K/chunkK
	var row []float32
	if a.TransA {
		row = make([]float32, a.K)
	}
	count := 1
	for r := row0; r < row1; r += count {
		at := (r/unitRows*n*unitRows + r%unitRows) * chunkK
		if bf16Order().fours() {
			at = (r/unitRows*n*unitRows+r%unitRows&^1)*chunkK + r%2*4
		}
		d, x := dst[at:], row
		if a.TransA {
			for k := range row {
				row[k] = f.A[k*a.LdA+r]
			}
		} else {
			x = f.A[r*a.LdA:]
			if !bf16Order().fours() {
				count = min(row1-r, unitRows-r%unitRows)
			}
		}
		if whole > 0 {
			rowsBF16(level, d, x, a.LdA, count, whole)
		}
		for i := 0; i < count && whole < n; i++ {
			var last [chunkK]float32
			copy(last[:], x[i*a.LdA:][whole*chunkK:a.K])
			rowsBF16(level, d[(whole*unitRows+i)*chunkK:], last[:], 0, 1, 1)
		}
	}
}

// rowsBF16Generic rounds n chunks of rows of one unit.
func rowsBF16Generic(dst []uint16, x []float32, ldx, rows, n int) {
	for i := range rows {
		rowGeneric(dst[i*chunkK:], x[i*ldx:], n)
	}
}

// rowGeneric rounds n chunks of a row. Subnormal numbers become zeros, as VCVTNE2PS2BF16 makes
// them, except for BFMMLA, which takes them as zeros.
func rowGeneric(dst []uint16, x []float32, n int) {
	fours := bf16Order().fours()
	for i := range n {
		for j, v := range x[i*chunkK:][:chunkK] {
			at := i*unitRows*chunkK + j
			if fours {
				at += j &^ 3
			} else if b := math.Float32bits(v); b&0x7f800000 == 0 {
				v = math.Float32frombits(b & 0x80000000)
			}
			dst[at] = vec.RoundBF16(v)
		}
	}
}

// bf16Rows returns the number of rows of a block: A fills at most half of the second-level cache.
func bf16Rows(k int) int {
	const pair = 2 * unitRows
	return min(max(machine().second/4/(chunks(k)*chunkK)/pair, 2)*pair, 512)
}

// scratchBF16 returns the number of scratch elements of a call for rows rows: rounded rows unless
// they are given, and the sums of some panels.
func scratchBF16(rows, k int, rounded bool) int {
	rows, n := min(rows, bf16Rows(k)), 0
	if !rounded {
		n = RoundedLen(rows, k) / 2
	}
	return n + sumPanels*rows*PanelWidth
}

// runBF16 computes a block of which B is rounded. scratch has as many elements as scratchLen
// returns.
func runBF16(a *Args[float32], level cpu.Level, blk Block, scratch []float32) {
	for r := blk.Row0; r < blk.Row1; {
		n := min(blk.Row1-r, bf16Rows(a.K))
		rows, free := a.Rounded, scratch
		if rows == nil {
			size := RoundedLen(n, a.K) / 2
			rows, free = halves(scratch[:size]), scratch[size:]
			part := *a
			part.A = tail(a.A, r*a.LdA)
			if a.TransA {
				part.A = tail(a.A, r)
			}
			part.RoundRows(level, rows, 0, n)
		} else {
			rows = rows[r*chunks(a.K)*chunkK:]
		}
		a.blockBF16(level, rows, Block{r, r + n, blk.Panel0, blk.Panel1}, free)
		r += n
	}
}

// blockBF16 computes rows that fit into the cache. sums holds up to four panels: in C, rows that
// are multiples of 4 KiB apart would displace each other from the cache for each block of K.
func (a *Args[T]) blockBF16(level cpu.Level, rows []uint16, blk Block, sums []float32) {
	f := any(a).(*Args[float32])
	n := chunks(a.K)
	panel, height := n*chunkK*PanelWidth, blk.Row1-blk.Row0
	size := height * PanelWidth
	runs := cpu.RunsBF16(level)
	tiles, dots := cpu.UsesBF16(level) == cpu.BF16Tiles, runs == cpu.BF16Pairs || runs == cpu.BF16Fours
	direct, done := 0, 0 // panels of which the sums go to C at once, and those with the epilogue
	if !tiles {
		direct = a.N / PanelWidth
	}
	var e *Epilogue[float32]
	if dots && a.BiasRow == nil && a.Act == None {
		e, done = &f.Epilogue, direct
	}
	for p := blk.Panel0; p < blk.Panel1; p += sumPanels {
		end := min(p+sumPanels, blk.Panel1)
		for q := p; q < end; q++ {
			t := bf16Tiles{a: rows, unit: n * unitRows * chunkK, b: f.BF16[q*panel:][:panel],
				c: sums[(q-p)*size:][:size], chunks: n, parts: 1}
			if next := f.BF16[(q+1)*panel:]; len(next) > 0 {
				t.next = uintptr(unsafe.Pointer(&next[0]))
			}
			t.out, t.ld = t.c, PanelWidth
			if q < direct {
				t.out, t.ld = f.C[blk.Row0*a.LdC+q*PanelWidth:], a.LdC
			}
			switch {
			case runs == cpu.BF16Tiles:
				t.amx(height)
			case q < done:
				t.dots(height, e, blk.Row0, q*PanelWidth)
			case dots:
				t.dots(height, nil, 0, 0)
			default:
				t.rows(height)
			}
			if q >= direct {
				f.finish(level, Block{blk.Row0, blk.Row1, q, q + 1}, t.c, PanelWidth)
			}
		}
		first := min(max(p, direct), end)
		const step = 2 * tileRows // rows of C that are touched at a time
		for r := 0; r < height; r += step {
			last := min(r+step, height)
			for i := r; i < last && first < end; i++ {
				f.copySums(blk.Row0+i, first, end, sums[(first-p)*size+i*PanelWidth:], size)
			}
			for q := max(p, done); q < first; q++ {
				row := blk.Row0 + r
				f.finish(level, Block{row, blk.Row0 + last, q, q + 1}, f.C[row*a.LdC+q*PanelWidth:], a.LdC)
			}
			a.then(level, Block{blk.Row0 + r, blk.Row0 + last, p, end})
		}
	}
}

// copySums copies the sums of a row to C: of the panels [first, end), size elements apart.
func (a *Args[T]) copySums(row, first, end int, sums []T, size int) {
	c := a.C[row*a.LdC+first*PanelWidth:][:min(a.N, end*PanelWidth)-first*PanelWidth]
	for ; len(c) >= PanelWidth; c = c[PanelWidth:] { // a call of copy takes longer
		*(*[PanelWidth]T)(c) = *(*[PanelWidth]T)(sums)
		sums = sums[min(size, len(sums)):]
	}
	copy(c, sums)
}

// finish applies the epilogue to the sums of a panel, in c with rows of ldc.
func (a *Args[T]) finish(level cpu.Level, blk Block, c []T, ldc int) {
	if e := &a.Epilogue; (e.Alpha == 0 || e.Alpha == 1) && e.BiasCol == nil && e.BiasRow == nil &&
		e.Add == nil && e.Act == None {
		return
	}
	col := blk.Panel0 * PanelWidth
	t := tile[T]{rows: blk.Row1 - blk.Row0, cols: min(PanelWidth, a.N-col), c: c, ldc: ldc, acc: true, ep: &a.Epilogue,
		row: blk.Row0, col: col}
	if f, ok := any(&t).(*tile[float32]); !ok || !tileAsm(level, f) {
		t.epilogue()
	}
}

// bf16Tiles describes the GEMM of chunks of rounded rows and of a panel b. A chunk of an operand
// has one part, or splitParts.
type bf16Tiles struct {
	a, b   []uint16
	unit   int       // elements of a from one unit of rows to the next
	next   uintptr   // the panel after b, for prefetching; may be 0
	from   []float32 // pairs of rows of the next panel, to split
	to     []uint16  // for their parts
	c      []float32 // rows of 32 sums
	add    bool      // to c
	chunks int
	parts  int

	out []float32 // for the sums, rows ld elements apart: c or a part of the result
	ld  int
}

// rows computes rows in plain code.
func (t *bf16Tiles) rows(n int) {
	for r := range n {
		t.row(r, t.out[r*t.ld:][:PanelWidth], t.b)
	}
}

// row computes one row of one panel.
func (t *bf16Tiles) row(r int, c []float32, b []uint16) {
	if !t.add {
		clear(c)
	}
	pairs := splitPairs[:]
	if t.parts == 1 {
		pairs = pairs[len(pairs)-1:]
	}
	for i := range t.chunks * len(pairs) {
		pair, k := pairs[i%len(pairs)], i/len(pairs)*t.parts
		unit := t.a[r/unitRows*t.unit+(k+pair[0])*unitRows*chunkK:][:unitRows*chunkK]
		w := b[k*chunkK*PanelWidth:][:t.parts*chunkK*PanelWidth]
		switch a := unit[r%unitRows*chunkK:]; {
		case bf16Order().fours():
			rowInFours(c, unit[r%unitRows&^1*chunkK+r%2*4:], w)
		case bf16Order() == inPairs:
			for i := 0; i < chunkK; i += 2 {
				w := w[i*PanelWidth:]
				for j, v := range c {
					c[j] = AddPair(v, a[i], a[i+1], w[2*j], w[2*j+1])
				}
			}
		default:
			var sums [2][PanelWidth]float64
			for i, x := range a[:chunkK] {
				w := w[(i/2*t.parts+pair[1])*2*PanelWidth+i&1:]
				for j, v := range &sums[i&1] {
					sums[i&1][j] = flushed(wide(x)*wide(w[2*j]) + v)
				}
			}
			for j, v := range c {
				c[j] = float32(flushed(float64(v) + flushed(sums[0][j]+sums[1][j])))
			}
		}
	}
}

// rowInFours adds a chunk to the sums of a row: the first four of each eight elements of a.
func rowInFours(c []float32, a, b []uint16) {
	for i := 0; i < chunkK; i += 2 {
		x, w := a[i+i&^3:][:2], b[i&^3*PanelWidth+i&2:]
		for j, v := range c {
			first, second := toOdd(wide(x[0])*wide(w[4*j]), 0), toOdd(wide(x[1])*wide(w[4*j+1]), 0)
			c[j] = float32(sumToOdd(float64(v), sumToOdd(first, second)))
		}
	}
}

// sumToOdd returns the sum of two numbers of 24 bits, rounded to odd as of toOdd.
func sumToOdd(a, b float64) float64 {
	s := a + b
	t := s - a
	return toOdd(s, (a-(s-t))+(b-t)) // the second term is what s lacks (TwoSum of Knuth)
}

// toOdd rounds s + lost to float32, to odd, and to 0 for subnormal results. lost is smaller than a
// unit in the last place of s.
func toOdd(s, lost float64) float64 {
	if s == 0 || s != s || math.IsInf(s, 0) {
		return s
	}
	const low = 1<<29 - 1 // the bits that float32 lacks
	u := math.Float64bits(s)
	if lost != 0 && u&1 == 0 { // s rounded to odd
		if (lost > 0) == (s > 0) {
			u++
		} else {
			u--
		}
	}
	if u&low != 0 {
		u = u&^low | (low + 1)
	}
	switch r := math.Float64frombits(u); {
	case math.Abs(r) < 0x1p-126:
		return math.Copysign(0, r)
	case math.Abs(r) >= 0x1p128:
		return math.Inf(int(math.Copysign(1, r)))
	default:
		return r
	}
}

// AddPair returns sum + x1·w1 + x0·w0 for bfloat16 operands, as VDPBF16PS computes it.
func AddPair(sum float32, x0, x1, w0, w1 uint16) float32 {
	sum = float32(flushed(wide(x1)*wide(w1) + flushed(float64(sum))))
	return float32(flushed(wide(x0)*wide(w0) + float64(sum)))
}

// halves returns the memory of s as pairs of bfloat16 numbers.
func halves(s []float32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(s))), 2*len(s))
}

// wide returns the value of a bfloat16 number, 0 for subnormal ones.
func wide(x uint16) float64 {
	if x&0x7f80 == 0 {
		x &= 0x8000
	}
	return float64(math.Float32frombits(uint32(x) << 16))
}

// flushed rounds x, a sum of two numbers of 24 bits each, to float32, 0 for subnormal results. The
// sum has been rounded to float64 before only if one of them is too small to matter for the second
// rounding.
func flushed(x float64) float64 {
	if math.Abs(x) < 0x1p-126-0x1p-151 { // a tie rounds up to the smallest normal number
		return math.Copysign(0, x)
	}
	return float64(float32(x))
}
