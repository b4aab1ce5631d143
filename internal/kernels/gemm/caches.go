package gemm

import (
	"sync"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/memory"
)

// cacheSizes are the properties of the caches that block sizes depend on.
type cacheSizes struct {
	span, ways int // bytes and number of the ways of the first level
	second     int // bytes of the second level
	last       int // bytes of the last level
}

const (
	line       = 64 // bytes of a line
	enoughWays = 12 // ways of the first level from which displaced lines of A cost less than a copy
	copyPanels = 3  // panels that reuse a copy of A, at least
	otherLines = 4  // ways of a set that are left to B and C
	// rows of a tile from which on it prefetches A, so that one way is enough for B and C: as in
	// _asm/gemm.go
	manyRows = 10
)

// machine returns the sizes for this machine; those of Zen 4 if the system does not describe its
// caches. Results do not depend on them. Tests replace it.
var machine = sync.OnceValue(func() cacheSizes {
	s := cacheSizes{span: 4 << 10, ways: 8, second: 1 << 20, last: 32 << 20}
	for _, c := range cpu.Caches() { // in the order of their levels
		s.last = int(c.Bytes)
		switch span := c.Span(); {
		case c.Level == 1 && span >= line && span&(span-1) == 0:
			s.span, s.ways = span, c.Ways
		case c.Level == 2:
			s.second = int(c.Bytes)
		}
	}
	return s
})

// blockRows returns the number of rows of A per block of kc columns, so that the block fills at
// most half of the second-level cache. The other half is for panels of B.
func (s cacheSizes) blockRows(kc int) int {
	fit := s.second / 2 / 4 / max(kc, 1)
	return min(max(fit/tileRows, 4)*tileRows, blockM)
}

// conflict reports whether the rows of a tile at a stride of so many bytes displace each other from
// the sets that they fall into. Each line of A is read sixteen times, between lines of B and C; one
// that is displaced in the meantime is read from the second level again. On Sapphire Rapids, where
// 14 rows exceed the 12 ways by little, copies take 3 % of 384×3072×768 and save nothing.
func (s cacheSizes) conflict(stride, rows int) bool {
	// Rows fall into every step-th byte of a way, where step is the largest power of two that
	// divides both the stride and the way.
	step := max(stride&-stride, line)
	sets := max(s.span/step, 1)
	others := otherLines
	if rows >= manyRows {
		others = 1
	}
	return stride > 0 && s.ways < enoughWays && (rows+sets-1)/sets+others > s.ways
}

// copyStride returns the stride of copied rows of k elements: an odd number of lines, so that rows
// fall into different sets.
func copyStride(k int) int { return ((k*4+line-1)/line | 1) * line / 4 }

// CopyStride returns the stride at which rows of A should be copied before calls share them, or 0
// if they should not. A copy pays if rows of a tile would displace each other in the first-level
// cache.
func (a *Args[T]) CopyStride(level cpu.Level) int {
	if level == cpu.Generic || Panels(a.N) < copyPanels || !a.copyA(min(a.M, blockM)) {
		return 0
	}
	return copyStride(a.K)
}

// copyA reports whether rows of A are copied before they are multiplied, because those of a tile
// would displace each other in the first-level cache.
func (a *Args[T]) copyA(rows int) bool {
	if _, ok := any(a).(*Args[float32]); !ok || a.TransA || rows <= maxVectorRows {
		return false
	}
	tiles := (rows + tileRows - 1) / tileRows
	return a.K >= line && machine().conflict(a.LdA*4, (rows+tiles-1)/tiles)
}

// FarBytes is the distance at which GEMMs of few rows prefetch weights from memory.
const FarBytes = 8192

// Ahead returns the distance in bytes at which a kernel should prefetch weights that it reads once.
// It is far if the weights of all models exceed the last-level cache, so that they come from
// memory. Otherwise, it is 0: the hardware prefetches from the last-level cache, and more requests
// slow it down.
func Ahead(far uintptr) uintptr {
	if memory.InUse() > int64(machine().last) {
		return far
	}
	return 0
}
