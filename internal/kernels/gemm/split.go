package gemm

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
)

// Float32 GEMM by bfloat16 tiles of AMX.
//
// A float32 number is the sum of three bfloat16 numbers: itself, rounded to nearest; the rest,
// rounded; and what is left, which has at most 8 bits. The second is at most 2⁻⁸ and the third 2⁻¹⁷
// of the number. Six of the nine products of parts suffice, since the other three are at most 2⁻²⁴
// of the product together (Henry, Tang, Heinecke, "Leveraging the bfloat16 Artificial Intelligence
// Datatype for Higher-Precision Computations", 2019).
//
// A sum is rounded up to 18 times within a chunk of K and six times for each chunk. The error is at
// most (6·K/32+25)·2⁻²⁴·Σ|a||b|, below that of the other kernels from K = 32 on, plus
// K·2⁻¹²³·(1+max|a|+max|b|), because AMX takes subnormal numbers as zero, thus also small parts.
// Rows for which the second term is not small beside max|a|·max|b|, or of which a sum may overflow,
// are computed by the other kernels. A row's bits do not depend on the others.
//
// B stays in float32 and is split panel by panel: the tiles multiply one panel while the vector
// units split the next one.

const (
	minSplitRows  = 64  // rows from which on a GEMM with split operands is faster
	minSplitShape = 256 // the same for K and N

	splitParts  = 3
	splitPanels = 8   // panels of sums before the epilogue
	splitRowsN  = 224 // rows of a block, for all of which a panel is split once, at most
	splitCost   = 16  // rows that are multiplied in the time in which a panel is split and tiles wait
	splitChunks = 32  // chunks of K for which sums stay in tiles, at most: parts of 192 KiB
	splitA      = 128 // rows of A of which that many chunks stay in the second-level cache
	rowChunks   = 8   // chunks of rows that are split at a time, so that parts stay in the first-level cache

	// limits of the largest magnitude of a row of A, as bfloat16 numbers: 2⁻⁴⁰ and 2⁶⁰
	leastRow, mostRow = (127 - 40) << 7, (127 + 60) << 7
	// limits of the largest magnitude of B
	leastB, mostB = 0x1p-60, 0x1p50
)

// splitPairs lists the parts of A and B that tiles multiply, in their order.
var splitPairs = [...][2]int{{0, 2}, {1, 1}, {0, 1}, {2, 0}, {1, 0}, {0, 0}}

// SplitsB reports whether a matrix B with numbers from low to high can be multiplied by
// [Args.Split].
func SplitsB(low, high float32) bool {
	most := max(-low, high)
	return most >= leastB && most <= mostB // false for NaN
}

// SplitPays reports whether a GEMM is faster with A split. It does not depend on Threads.
func (a *Args[T]) SplitPays(level cpu.Level) bool {
	return a.Splits && cpu.UsesBF16(level) == cpu.BF16Tiles && a.M >= minSplitRows &&
		min(a.K, a.N) >= minSplitShape && a.K <= MaxBF16K && !a.TransA
}

// SplitLen returns the number of elements that [Args.SplitRows] writes for rows of K.
func SplitLen(rows, k int) int { return splitParts*RoundedLen(rows, k) + (rows+1)&^1 }

// SplitRows splits rows [row0, row1) of A for [Args.Split], as [rows/16][K/32][3][16][32], followed
// by the largest magnitude of each row, as a bfloat16 number that is rounded towards zero. row0 is
// a multiple of 16, and dst is for all rows. TransA must not be set.
func (a *Args[T]) SplitRows(level cpu.Level, dst []uint16, row0, row1 int) {
	f := any(a).(*Args[float32])
	n, whole := chunks(a.K), a.K/chunkK
	largest := dst[splitParts*RoundedLen(a.M, a.K):][:a.M]
	clear(largest[row0:row1])
	count := 0
	for r := row0; r < row1; r += count {
		count = min(row1-r, unitRows)
		d, x, most := dst[r*splitParts*n*chunkK:], f.A[r*a.LdA:], largest[r:]
		for k := 0; k < whole; k += rowChunks {
			n := min(rowChunks, whole-k)
			splitRows(level, d[k*splitParts*unitRows*chunkK:], most, x[k*chunkK:], a.LdA, count, n)
		}
		for i := 0; i < count && whole < n; i++ {
			var last [chunkK]float32
			copy(last[:], x[i*a.LdA:][whole*chunkK:a.K])
			splitRows(level, d[(splitParts*whole*unitRows+i)*chunkK:], most[i:], last[:], 0, 1, 1)
		}
	}
}

// splitOff returns x rounded to bfloat16, ties away from zero, and the rest.
func splitOff(x float32) (part, rest float32) {
	part = math.Float32frombits((math.Float32bits(x) + 0x8000) &^ 0xffff)
	return part, x - part
}

// splitRowsGeneric splits n chunks of rows of one unit. most is raised to the largest magnitudes.
func splitRowsGeneric(dst, most []uint16, x []float32, ldx, rows, n int) {
	for i := range rows {
		for j, v := range x[i*ldx:][:n*chunkK] {
			most[i] = max(most[i], uint16(math.Float32bits(v)>>16&0x7fff))
			at := (j/chunkK*splitParts*unitRows+i)*chunkK + j%chunkK
			for p := range splitParts {
				part := v
				if p < splitParts-1 {
					part, v = splitOff(v)
				}
				b := math.Float32bits(part)
				if b&0x7f800000 == 0 { // subnormal
					b &= 0x80000000
				}
				dst[at+p*unitRows*chunkK] = uint16(b >> 16)
			}
		}
	}
}

// splitPanelGeneric splits pairs of rows of a panel: [16][3][32][2] for each chunk.
func splitPanelGeneric(dst []uint16, rows []float32) {
	for i, v := range rows {
		row, col := i/PanelWidth, i%PanelWidth
		for p := range splitParts {
			part := v
			if p < splitParts-1 {
				part, v = splitOff(v)
			}
			dst[((row/2*splitParts+p)*PanelWidth+col)*2+row%2] = uint16(math.Float32bits(part) >> 16)
		}
	}
}

// scratchSplit returns the number of scratch elements of a call for rows rows.
func scratchSplit(rows, k int) int {
	return min(rows, splitRowsN)*splitPanels*PanelWidth + min(chunks(k), splitChunks)*chunkPanel*(1+splitParts)
}

// runSplit computes a block of which A is split. scratch has as many elements as scratchLen
// returns.
func runSplit(a *Args[float32], level cpu.Level, blk Block, scratch []float32) {
	height := blockRows(blk.Row1-blk.Row0, 1, 1)
	for r := blk.Row0; r < blk.Row1; r += height {
		for p := blk.Panel0; p < blk.Panel1; p += splitPanels {
			a.blockSplit(level, Block{r, min(r+height, blk.Row1), p, min(p+splitPanels, blk.Panel1)}, scratch)
		}
	}
}

// blockSplit computes some rows of some panels. While a panel is multiplied, the next one is split.
// Sums over large K are added up in parts of which A stays in the second-level cache.
func (a *Args[T]) blockSplit(level cpu.Level, blk Block, scratch []float32) {
	f := any(a).(*Args[float32])
	n, height := chunks(a.K), blk.Row1-blk.Row0
	size := height * PanelWidth
	step := min(n, splitChunks, splitChunks*splitA/height)
	part := step * chunkPanel
	rows, parts, sums := scratch[:part], halves(scratch[part:][:part*splitParts]), scratch[part*(1+splitParts):]
	t := bf16Tiles{unit: splitParts * n * unitRows * chunkK, parts: splitParts, ld: PanelWidth}
	t.b, t.to = parts[:len(parts)/2], parts[len(parts)/2:]
	splitRest(level, t.b, f.rowsB(level, rows, blk.Panel0, 0, step), 0)
	for k := 0; k < n; k += step {
		t.chunks, t.add = min(step, n-k), k > 0
		t.a = a.Split[blk.Row0*splitParts*n*chunkK+k*splitParts*unitRows*chunkK:]
		for p := blk.Panel0; p < blk.Panel1; p++ {
			t.c = sums[(p-blk.Panel0)*size:][:size]
			t.out = t.c
			var next []float32
			if p+1 < blk.Panel1 {
				next = f.rowsB(level, rows, p+1, k, t.chunks)
			} else if k+step < n {
				next = f.rowsB(level, rows, blk.Panel0, k+step, min(step, n-k-step))
			}
			if cpu.RunsBF16(level) == cpu.BF16Tiles {
				t.from = next[:len(next)/chunkPanel*chunkPanel]
				t.amx(height)
			} else {
				t.rows(height)
			}
			splitRest(level, t.to, next, len(t.from))
			t.b, t.to = t.to, t.b
		}
	}
	for p := blk.Panel0; p < blk.Panel1; p++ {
		f.finish(level, Block{blk.Row0, blk.Row1, p, p + 1}, sums[(p-blk.Panel0)*size:][:size], PanelWidth)
	}
	largest := a.Split[splitParts*RoundedLen(a.M, a.K):][:a.M]
	for r := blk.Row0; r < blk.Row1; r++ {
		row := Block{r, r + 1, blk.Panel0, blk.Panel1}
		if most := largest[r]; most != 0 && (most < leastRow || most >= mostRow) {
			alone := *f
			alone.Split = nil
			alone.run(level, row)
			continue
		}
		f.copySums(r, blk.Panel0, blk.Panel1, sums[(r-blk.Row0)*PanelWidth:], size)
		a.then(level, row)
	}
}

// rowsB returns the rows of n chunks of panel p of B, from chunk k on. They are in buf unless B is
// packed.
func (a *Args[T]) rowsB(level cpu.Level, buf []float32, p, k, n int) []float32 {
	f := any(a).(*Args[float32])
	k *= chunkK
	rows := min(n*chunkK, a.K-k)
	switch {
	case a.Half != nil:
		widen(level, buf[:rows*PanelWidth], a.Half[(p*a.K+k)*PanelWidth:][:rows*PanelWidth])
	case a.Packed:
		return f.B[(p*a.K+k)*PanelWidth:][:rows*PanelWidth]
	default:
		packPanel(buf, f.B, a.LdB, a.TransB, rows, p*PanelWidth, min(PanelWidth, a.N-p*PanelWidth), k)
	}
	return buf[:rows*PanelWidth]
}

// chunkPanel is the number of elements of a chunk of a panel.
const chunkPanel = chunkK * PanelWidth

// splitRest splits the rows of a panel from element done on, padded to whole chunks.
func splitRest(level cpu.Level, dst []uint16, rows []float32, done int) {
	whole := len(rows) / chunkPanel * chunkPanel
	splitPanel(level, dst[done*splitParts:], rows[done:whole])
	if whole < len(rows) {
		var last [chunkPanel]float32
		copy(last[:], rows[whole:])
		splitPanel(level, dst[whole*splitParts:], last[:])
	}
}
