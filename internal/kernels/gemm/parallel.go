package gemm

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
)

// Par calls fn for disjoint ranges that cover [0, n), possibly concurrently.
type Par func(n int, fn func(lo, hi int))

// Parallel computes the whole result. par distributes panels, tiles of rows if there are more of
// them, or both for large results; if it is nil, one call computes everything.
func Parallel[T Number](par Par, level cpu.Level, a *Args[T]) {
	f, ok := any(a).(*Args[float32])
	if ok && hasVector(level) && f.column() {
		f = f.asRow()
		a = any(f).(*Args[T])
	}
	switch {
	case !ok:
		Split(par, a.M, a.N, a.K, 4<<20, func(b Block) { a.run(level, b) })
	case par == nil:
		F32(level, f, a.Whole())
	case a.BF16 != nil || a.Split != nil:
		a.divide(par, func(b Block) { F32(level, f, b) })
	default:
		Split(par, a.M, a.N, a.K, min(64<<20, a.share()), func(b Block) { F32(level, f, b) })
	}
}

// ByPanels reports whether [Parallel] distributes panels of all rows, which are those of one tile.
func (a *Args[T]) ByPanels() bool {
	return a.M <= tileRows && a.BF16 == nil && a.Split == nil && a.N > 1
}

// divide calls fn for blocks of panels and rows, with which threads end at about the same time.
func (a *Args[T]) divide(par Par, fn func(Block)) {
	threads, panels := max(1, a.Threads), Panels(a.N)
	height := blockRows(a.M, panels, threads)
	items := (a.M + height - 1) / height * panels
	n := items
	if most := (n + threads - 1) / threads; most <= 4 && threads*most*9 <= n*10 {
		n = min(n, threads) // adjacent panels of a call share the rows
	}
	par(n, func(lo, hi int) {
		for lo, hi := items*lo/n, items*hi/n; lo < hi; {
			r, p := lo/panels*height, lo%panels
			end := min(panels, p+hi-lo)
			fn(Block{r, min(a.M, r+height), p, end})
			lo += end - p
		}
	})
}

// blockRows returns the number of rows, a multiple of 16, of the blocks with which threads compute
// m rows of some panels in the least time.
func blockRows(m, panels, threads int) int {
	height, least := 0, math.MaxInt
	for h := splitRowsN; h >= splitRowsN/4; h -= unitRows {
		items := (m + h - 1) / h * panels
		// A tile of 16 rows takes longer than half of one of 32.
		each := min(h, m) + h%(2*unitRows)/2 + splitCost
		if t := (items + threads - 1) / threads * each; t <= least {
			height, least = h, t
		}
	}
	return height
}

// share returns the multiplications of blocks with which each of many threads gets three panels of
// a block of rows. Blocks keep more than one tile of rows, since sums over K of one tile are
// divided differently.
func (a *Args[T]) share() int {
	panels := max(Panels(a.N), 1)
	blocks := max(1, min((3*a.Threads+panels-1)/panels, a.M/(2*tileRows)))
	if a.Threads <= 2 || blocks == 1 {
		return math.MaxInt
	}
	return (a.M + blocks - 1) / blocks * PanelWidth * max(a.K, 1)
}

// LeastDot is the K from which on a GEMM with one column is computed as dot products of the rows of
// A.
const LeastDot = 16

// column reports whether C is one column, of which asRow makes a row.
func (a *Args[T]) column() bool {
	return a.N == 1 && a.K >= LeastDot && !a.TransA && !a.Packed && a.Half == nil && a.BF16 == nil && a.LdC == 1 &&
		(a.TransB || a.LdB == 1) && (a.Add == nil || a.LdAdd == 1)
}

// asRow returns the GEMM with one column as that of the row Bᵀ and Aᵀ. A panel of a single column
// would compute 32.
func (a *Args[T]) asRow() *Args[T] {
	r := *a
	r.M, r.N = 1, a.M
	r.A, r.LdA, r.B, r.LdB, r.TransB = a.B, a.K, a.A, a.LdA, true
	r.LdC, r.LdAdd = a.M, a.M
	r.BiasCol, r.BiasRow = a.BiasRow, a.BiasCol
	return &r
}

// Split calls fn for blocks that cover an m×n result with sums of k terms. par distributes blocks
// of at most about work multiplications, so that a run can stop between them, but of no less than
// one tile.
func Split(par Par, m, n, k, work int, fn func(Block)) {
	panels, tiles := Panels(n), (m+tileRows-1)/tileRows
	most := min(blockM, max(tileRows, work/PanelWidth/max(k, 1)))
	switch {
	case par == nil:
		fn(Block{0, m, 0, panels})
	case m > most:
		// Items are panels of blocks of rows, so that neighbours read the same rows of A.
		blocks := (m + most - 1) / most
		par(blocks*panels, func(lo, hi int) {
			for lo < hi {
				b, p := lo/panels, lo%panels
				if n := (hi - lo) / panels; p == 0 && n > 0 {
					fn(Block{m * b / blocks, m * (b + n) / blocks, 0, panels})
					lo += n * panels
					continue
				}
				n := min(hi-lo, panels-p)
				fn(Block{m * b / blocks, m * (b + 1) / blocks, p, p + n})
				lo += n
			}
		})
	case panels >= tiles:
		par(panels, func(lo, hi int) { fn(Block{0, m, lo, hi}) })
	default:
		par(tiles, func(lo, hi int) { fn(Block{m * lo / tiles, m * hi / tiles, 0, panels}) })
	}
}
