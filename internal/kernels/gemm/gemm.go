// Package gemm multiplies matrices: C = act(Alpha·A·B + bias + Add).
//
// The right-hand matrix is row-major, optionally transposed, or packed into panels of [PanelWidth]
// columns. One call computes a [Block] of rows and panels of the result on one thread; callers
// distribute rows or panels, as [Parallel] does. A call of an assembly tile takes at most about 50
// µs.
//
// float32, float64 and 32-bit integers have assembly tiles for AVX2 and AVX-512. Those of floats
// use fused multiply-add and sum over K in order, in blocks of at most [MaxKC] terms. The generic
// code also rounds the product (unless Go fuses). The error of both is at most (K+3)·2⁻²⁴·Σ|a||b|
// per element before the epilogue.
//
// # Cache misses
//
// A tile of 14 rows on AVX-512 is limited by its multiplications: 116.5 GFLOPS on AMD Zen 4 with
// all operands in the first-level cache. Three kinds of misses took 4 % of a large product:
//
//   - Rows of C. 14 rows of a wide matrix often share cache sets, so they are prefetched into
//     the second-level cache (1 to 2 %).
//   - Rows of A. From 10 rows on there are more streams than the hardware prefetches, so the
//     tile prefetches the next line of each (0.5 to 1 %).
//   - The residual and the partial sums of the K before. The previous tile prefetches them (3 %
//     of 500×512×512 with a residual).
//
// B is read without masks, except in the last steps of K if a vector would exceed its end: a
// masked load replaces a multiplication on Zen 4 (113.5 GFLOPS).
//
// Rows of A that are multiples of 512 to 4096 bytes apart fall into few sets of the first-level
// cache. They are copied at an odd number of lines: 197×3072×768 takes 9 instead of 14.4 ms.
//
// # Strassen
//
// One step of Strassen's algorithm gained 2 to 5 % for 128 to 1500 rows. It is not used: it
// needs 1.75 times the memory, and makes a row of the result depend on other rows.
package gemm

//go:generate go -C ../_asm run . gemm

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"sync"
)

// Number lists the element types of ONNX's MatMul and Gemm that have kernels.
type Number interface {
	float32 | float64 | int32 | int64
}

const (
	// PanelWidth is the number of columns in one panel of a packed matrix.
	PanelWidth = 32
	// MaxKC is the maximum number of terms of K that are summed before the sum is stored in C.
	MaxKC = 4096

	tileRows      = 14   // rows of the largest tile
	blockK        = 1024 // K per block when there are several row tiles: a panel of 128 KiB
	maxVectorRows = 2    // rows that are multiplied without tiles, at most
	blockM        = 252  // rows per block, at most
	packedM       = 504  // the same if panels are packed for each block, which takes as long as a few rows
	maxHalfRows   = 4    // rows for which tiles read binary16 directly, at most; on AVX-512 tileRows
	thenPanels    = 8    // panels after which Then is applied, so that it reads the sums from the second-level cache
	halfK         = 256  // K per block of widened panels, so that they stay in the first-level cache
)

// Activation is the function applied last to an element of the result.
type Activation uint8

const (
	// None is the identity.
	None Activation = iota
	// Relu is max(x, 0). NaN propagates.
	Relu
	// Clip is min(max(x, Lo), Hi). NaN propagates.
	Clip
)

// Epilogue is applied to a sum before it is stored, in the order of the fields.
type Epilogue[T Number] struct {
	Alpha   T   // factor of A·B; 0 means 1
	BiasCol []T // N values, one per column, or nil
	BiasRow []T // M values, one per row, or nil
	// M rows of N at stride LdAdd, or nil; must not overlap C if K exceeds 512 or the level is
	// [cpu.Generic]
	Add    []T
	LdAdd  int
	Act    Activation
	Lo, Hi T // of Clip
}

// Args describes C[M,N] = epilogue(A[M,K]·B[K,N]). Strides count elements.
type Args[T Number] struct {
	M, N, K int
	Threads int // that share the result, if it is known; the bits do not depend on it
	A       []T // M rows of K at stride LdA; with TransA K rows of M
	LdA     int
	TransA  bool
	B       []T // K rows of N at stride LdB; with TransB N rows of K; with Packed the panels of Pack
	LdB     int
	TransB  bool
	Packed  bool
	// Half replaces B for float32: panels as from [Pack], with the bits of IEEE binary16 numbers.
	// They are widened when read and need half of the memory bandwidth.
	Half []uint16
	// BF16 replaces B for float32: panels of [PackBF16]. A is rounded to bfloat16 too, the sums are
	// float32. Rounded holds A as from [Args.RoundRows], or is nil; with it, the rows of blocks
	// start at multiples of 32.
	BF16, Rounded []uint16
	// Splits reports whether [SplitsB] is true of B, if that is known.
	Splits bool
	// Split holds A as from [Args.SplitRows], which replaces it but in rows with exceptional
	// numbers; or is nil. The rows of blocks start at multiples of 32.
	Split []uint16
	C     []T // M rows of N at stride LdC, overwritten
	LdC   int
	Epilogue[T]
	// Then computes dst from x, parts of rows of the result, in place and elementwise; or nil. It
	// follows the epilogue while the rows are in the cache.
	Then func(level cpu.Level, dst, x []T)
}

// Block is the part of the result that one call computes: rows [Row0, Row1) of the panels [Panel0,
// Panel1).
type Block struct{ Row0, Row1, Panel0, Panel1 int }

// Panels returns the number of panels of n columns.
func Panels(n int) int { return (n + PanelWidth - 1) / PanelWidth }

// Whole returns the block of the whole result.
func (a *Args[T]) Whole() Block { return Block{0, a.M, 0, Panels(a.N)} }

// PackedLen returns the number of elements of a packed K×N matrix.
func PackedLen(k, n int) int { return Panels(n) * k * PanelWidth }

// Pack writes b, K rows of N columns at stride ldb (if trans is set N rows of K), as panels
// [N/32][K][32] to dst of PackedLen(k, n) elements. The last panel is padded with zeros.
func Pack[T Number](dst, b []T, ldb int, trans bool, k, n int) {
	PackPanels(dst, b, ldb, trans, k, n, 0, Panels(n))
}

// PackInPlace packs b, N rows of K with N a multiple of [PanelWidth], in place: each panel replaces
// its own rows.
func PackInPlace[T Number](b []T, k, n int) {
	rows := make([]T, k*PanelWidth)
	for p := range n / PanelWidth {
		panel := b[p*k*PanelWidth:][:k*PanelWidth]
		copy(rows, panel)
		packPanel(panel, rows, k, true, k, 0, PanelWidth, 0)
	}
}

// PackHalf converts packed panels to IEEE binary16 and reports whether that is exact.
func PackHalf(level cpu.Level, dst []uint16, packed []float32) bool {
	var back [1024]float32
	for i := 0; i < len(packed); i += len(back) {
		p := packed[i:min(len(packed), i+len(back))]
		h := dst[i:][:len(p)]
		vec.F32ToF16(level, h, p)
		vec.F16ToF32(level, back[:len(p)], h)
		for j, v := range p {
			if v != back[j] {
				return false
			}
		}
	}
	return true
}

// kBlock returns the number of terms of K that are summed before the sums are stored in C.
func (a *Args[T]) kBlock(level cpu.Level, rows int) int {
	limit := blockK
	if a.widens(level, rows) && rows <= tileRows {
		limit = halfK
	} else if rows <= tileRows { // one tile of rows: a panel is not reused, so sum over more of K
		limit = MaxKC
	}
	if a.K <= limit {
		return a.K
	}
	n := (a.K + limit - 1) / limit
	return ((a.K+n-1)/n + 3) &^ 3
}

// packB reports whether panels of B are packed during the multiplication: the tiles cannot read a
// transposed matrix, and several tiles of rows for narrower vectors read a compact panel faster.
func (a *Args[T]) packB(level cpu.Level, rows int) bool {
	return a.widens(level, rows) || a.Half == nil && !a.Packed && (a.TransB || level != cpu.AVX512 && rows > 2*tileRows)
}

// widens reports whether binary16 panels are widened to float32 before the multiplication, because
// several tiles of rows read them.
func (a *Args[T]) widens(level cpu.Level, rows int) bool {
	most := maxHalfRows
	if level == cpu.AVX512 {
		most = tileRows
	}
	return a.Half != nil && rows > most
}

// scratchLen returns the number of scratch elements of a call for rows rows: 0 if A and B are used
// in place.
func (a *Args[T]) scratchLen(level cpu.Level, rows int) int {
	if a.BF16 != nil {
		return scratchBF16(rows, a.K, a.Rounded != nil)
	}
	if a.Split != nil {
		return scratchSplit(rows, a.K)
	}
	n, kc := 0, a.kBlock(level, rows)
	if a.TransA {
		n += min(rows, blockM) * kc
	} else if a.copyA(rows) {
		n += min(rows, blockM) * copyStride(kc)
	}
	if a.packB(level, rows) {
		n += PanelWidth * kc
	}
	return n
}

// scratchPools hold the scratch memory of calls that have ended, by the type of its elements.
var scratchPools [4]sync.Pool

func scratchPool[T Number]() *sync.Pool {
	switch any(T(0)).(type) {
	case float32:
		return &scratchPools[0]
	case float64:
		return &scratchPools[1]
	case int32:
		return &scratchPools[2]
	}
	return &scratchPools[3]
}

// takeScratch returns n elements, which the caller gives back to the pool.
func takeScratch[T Number](pool *sync.Pool, n int) *[]T {
	s, _ := pool.Get().(*[]T)
	if s == nil {
		s = new([]T)
	}
	if cap(*s) < n {
		*s = make([]T, n)
	}
	*s = (*s)[:n]
	return s
}

// Generic computes a block in plain Go.
func Generic[T Number](a *Args[T], blk Block) { a.run(cpu.Generic, blk) }

// F32 computes a block at the given level.
func F32(level cpu.Level, a *Args[float32], blk Block) { a.run(level, blk) }

// tile describes one call of the innermost kernel: rows×cols of C, at most blockM rows of one
// panel.
type tile[T Number] struct {
	rows, cols, k int
	a, b, c       []T
	lda, ldb, ldc int
	acc           bool // add to C
	ep            *Epilogue[T]
	half          []uint16 // replaces b; on AVX-512, the first of several tiles of rows widens it to b for the others
	row, col      int      // coordinates of the tile in the result; the epilogue's slices start at 0
	// probable b of the next call, or the matrix that will be packed into it, for prefetching; or
	// nil
	next   []T
	ldnext int // elements between the rows of next
}

// withoutTiles computes GEMMs with operands rounded to bfloat16, and those of few rows. It reports
// whether it did.
func withoutTiles(a *Args[float32], level cpu.Level, blk Block, copyA bool) bool {
	rows := blk.Row1 - blk.Row0
	if a.BF16 != nil || a.Split != nil {
		pool := scratchPool[float32]()
		s := takeScratch[float32](pool, a.scratchLen(level, rows))
		if a.Split != nil {
			runSplit(a, level, blk, *s)
		} else {
			runBF16(a, level, blk, *s)
		}
		pool.Put(s)
		return true
	}
	if rows <= maxVectorRows && vectorAsm(level, a, blk) || !copyA && fewRows(level, a, blk) {
		a.then(level, blk)
		return true
	}
	return false
}

// setHalf sets B of a tile to panel p of float16 numbers, from row k0 on. sb, if not nil, is for
// the panel in float32.
func setHalf(a *Args[float32], level cpu.Level, t *tile[float32], sb []float32, blk Block, p, k0 int) {
	half := a.Half[(p*a.K+k0)*PanelWidth:]
	half = half[:t.k*PanelWidth]
	t.ldb = PanelWidth
	if sb == nil {
		t.half = half
		return
	}
	t.b = sb
	if level == cpu.AVX512 {
		t.half = half
	} else {
		widen(level, sb[:len(half)], half)
	}
	if p+1 < blk.Panel1 { // rows of half the length
		next := a.Half[((p+1)*a.K+k0)*PanelWidth:]
		t.next, t.ldnext = memory.FromRaw[float32](memory.AsBytes(next[:len(half)])), PanelWidth/2
	}
}

func (a *Args[T]) run(level cpu.Level, blk Block) {
	rows := blk.Row1 - blk.Row0
	if rows <= 0 || blk.Panel1 <= blk.Panel0 {
		return
	}
	copyA := level != cpu.Generic && blk.Panel1-blk.Panel0 >= copyPanels && a.copyA(rows)
	if f, ok := any(a).(*Args[float32]); ok && withoutTiles(f, level, blk, copyA) {
		return
	}
	kc := a.kBlock(level, rows)
	var scratch []T
	if n := a.scratchLen(level, rows); n > 0 {
		pool := scratchPool[T]()
		s := takeScratch[T](pool, n)
		defer pool.Put(s)
		scratch = *s
	}
	most := machine().blockRows(kc)
	var sa, sb []T
	if a.TransA || copyA {
		n := min(rows, blockM) * kc
		if copyA {
			n = min(rows, blockM) * copyStride(kc)
		}
		sa, scratch = scratch[:n], scratch[n:]
	}
	packB := a.packB(level, rows)
	if packB {
		sb = scratch[:PanelWidth*kc]
		if sa == nil {
			most = packedM
		}
	}
	blocks := (rows + most - 1) / most
	var t tile[T]
	for k0 := 0; k0 == 0 || k0 < a.K; k0 += kc {
		t.k = min(kc, a.K-k0)
		t.acc = k0 > 0
		t.ep = nil
		if k0+t.k >= a.K {
			t.ep = &a.Epilogue
		}
		for b := range blocks {
			m0 := blk.Row0 + rows*b/blocks
			t.row, t.rows = m0, blk.Row0+rows*(b+1)/blocks-m0
			switch {
			case a.TransA:
				packRows(sa, a.A, a.LdA, k0, t.k, m0, t.rows)
				t.a, t.lda = sa, t.k
			case copyA:
				t.a, t.lda = sa, copyStride(t.k)
				for i := range t.rows {
					copy(sa[i*t.lda:], a.A[(m0+i)*a.LdA+k0:][:t.k])
				}
			default:
				t.a, t.lda = tail(a.A, m0*a.LdA+k0), a.LdA
			}
			for p := blk.Panel0; p < blk.Panel1; p++ {
				t.col = p * PanelWidth
				t.cols = min(PanelWidth, a.N-t.col)
				t.next = nil
				switch {
				case a.Half != nil:
					setHalf(any(a).(*Args[float32]), level, any(&t).(*tile[float32]), any(sb).([]float32), blk, p, k0)
				case a.Packed:
					t.b, t.ldb = tail(a.B, (p*a.K+k0)*PanelWidth), PanelWidth
					if p+1 < blk.Panel1 {
						t.next, t.ldnext = a.B[((p+1)*a.K+k0)*PanelWidth:][:t.k*PanelWidth], PanelWidth
					}
				case packB:
					packPanel(sb, a.B, a.LdB, a.TransB, t.k, t.col, t.cols, k0)
					t.b, t.ldb = sb, PanelWidth
					if next := t.col + PanelWidth; !a.TransB && p+1 < blk.Panel1 && next+PanelWidth <= a.N {
						t.next, t.ldnext = tail(a.B, k0*a.LdB+next), a.LdB
					}
				default:
					t.b, t.ldb = tail(a.B, k0*a.LdB+t.col), a.LdB
				}
				t.c, t.ldc = a.C[m0*a.LdC+t.col:], a.LdC
				if f, ok := any(&t).(*tile[float32]); !(ok && tileAsm(level, f) || !ok && wideTile(level, &t)) {
					tileGeneric(t.widened(level))
				}
				if first := p - (p-blk.Panel0)%thenPanels; t.ep != nil &&
					(p+1-first == thenPanels || p+1 == blk.Panel1) {
					a.then(level, Block{m0, m0 + t.rows, first, p + 1})
				}
			}
		}
		if a.K == 0 {
			break
		}
	}
}

// then applies Then to a block of the result.
func (a *Args[T]) then(level cpu.Level, blk Block) {
	if a.Then == nil {
		return
	}
	from, to := blk.Panel0*PanelWidth, min(a.N, blk.Panel1*PanelWidth)
	for r := blk.Row0; r < blk.Row1; r++ {
		row := a.C[r*a.LdC+from : r*a.LdC+to]
		a.Then(level, row, row)
	}
}

// widened returns t with B converted to T.
func (t *tile[T]) widened(level cpu.Level) *tile[T] {
	if t.half == nil {
		return t
	}
	w := *t
	w.half, w.b = nil, make([]T, len(t.half))
	widen(level, w.b, t.half)
	return &w
}

// widen writes the float32 values of halves to dst, which is a []float32.
func widen[T Number](level cpu.Level, dst []T, half []uint16) {
	vec.F16ToF32(level, any(dst).([]float32), half)
}

// tail returns s[i:], or an empty slice if i is beyond the end, as for a matrix without elements.
func tail[T any](s []T, i int) []T { return s[min(i, len(s)):] }

// tileGeneric computes one tile in pieces of four rows by four columns.
//
//	for i := range t.rows {
//		for j := range t.cols {
//			var s T
//			if acc {
//				s = c[i*ldc+j]
//			}
//			for p := range t.k {
//				s += a[i*lda+p] * b[p*ldb+j]
//			}
//			c[i*ldc+j] = epilogue(s)
//		}
//	}
func tileGeneric[T Number](t *tile[T]) {
	i := 0
	for ; i+4 <= t.rows; i += 4 {
		j := 0
		for ; j+4 <= t.cols; j += 4 {
			micro4x4(t.c[i*t.ldc+j:], t.ldc, tail(t.a, i*t.lda), t.lda, tail(t.b, j), t.ldb, t.k, t.acc)
		}
		if j < t.cols {
			for r := i; r < i+4; r++ {
				microRow(t.c[r*t.ldc+j:][:t.cols-j], tail(t.a, r*t.lda), tail(t.b, j), t.ldb, t.k, t.acc)
			}
		}
	}
	for ; i < t.rows; i++ {
		microRow(t.c[i*t.ldc:][:t.cols], tail(t.a, i*t.lda), t.b, t.ldb, t.k, t.acc)
	}
	t.epilogue()
}

func (t *tile[T]) epilogue() {
	if t.ep != nil {
		for i := range t.rows {
			t.ep.apply(t.c[i*t.ldc:][:t.cols], t.row+i, t.col)
		}
	}
}

// micro4x4 computes four columns times four rows, with the sums in sixteen registers.
func micro4x4[T Number](c []T, ldc int, a []T, lda int, b []T, ldb, k int, acc bool) {
	var s00, s01, s02, s03, s10, s11, s12, s13, s20, s21, s22, s23, s30, s31, s32, s33 T
	c0, c1, c2, c3 := c[:4], c[ldc:][:4], c[2*ldc:][:4], c[3*ldc:][:4]
	if acc { // a sum that is split within K equals the unsplit one
		s00, s01, s02, s03 = c0[0], c0[1], c0[2], c0[3]
		s10, s11, s12, s13 = c1[0], c1[1], c1[2], c1[3]
		s20, s21, s22, s23 = c2[0], c2[1], c2[2], c2[3]
		s30, s31, s32, s33 = c3[0], c3[1], c3[2], c3[3]
	}
	if k > 0 {
		a0, a1, a2, a3 := a[:k], a[lda:][:k], a[2*lda:][:k], a[3*lda:][:k]
		for p, x0 := range a0 {
			w := b[p*ldb:]
			w = w[:4:4]
			b0, b1, b2, b3 := w[0], w[1], w[2], w[3]
			x1, x2, x3 := a1[p], a2[p], a3[p]
			s00 += x0 * b0
			s01 += x0 * b1
			s02 += x0 * b2
			s03 += x0 * b3
			s10 += x1 * b0
			s11 += x1 * b1
			s12 += x1 * b2
			s13 += x1 * b3
			s20 += x2 * b0
			s21 += x2 * b1
			s22 += x2 * b2
			s23 += x2 * b3
			s30 += x3 * b0
			s31 += x3 * b1
			s32 += x3 * b2
			s33 += x3 * b3
		}
	}
	c0[0], c0[1], c0[2], c0[3] = s00, s01, s02, s03
	c1[0], c1[1], c1[2], c1[3] = s10, s11, s12, s13
	c2[0], c2[1], c2[2], c2[3] = s20, s21, s22, s23
	c3[0], c3[1], c3[2], c3[3] = s30, s31, s32, s33
}

// microRow computes one row of at most 32 columns and reads b row by row.
func microRow[T Number](c, a, b []T, ldb, k int, acc bool) {
	var sum [PanelWidth]T
	s := sum[:len(c)]
	if acc {
		copy(s, c)
	}
	for p := range k {
		x := a[p]
		for j, w := range b[p*ldb:][:len(s)] {
			s[j] += x * w
		}
	}
	copy(c, s)
}

// apply applies the epilogue to a row segment that starts at (row, col).
func (e *Epilogue[T]) apply(c []T, row, col int) {
	if e.Alpha != 0 && e.Alpha != 1 {
		for j := range c {
			c[j] *= e.Alpha
		}
	}
	if e.BiasCol != nil {
		for j, v := range e.BiasCol[col:][:len(c)] {
			c[j] += v
		}
	}
	if e.BiasRow != nil {
		v := e.BiasRow[row]
		for j := range c {
			c[j] += v
		}
	}
	if e.Add != nil {
		for j, v := range e.Add[row*e.LdAdd+col:][:len(c)] {
			c[j] += v
		}
	}
	switch e.Act {
	case Relu:
		for j, v := range c {
			c[j] = max(v, 0)
		}
	case Clip:
		for j, v := range c {
			c[j] = min(max(v, e.Lo), e.Hi)
		}
	}
}
