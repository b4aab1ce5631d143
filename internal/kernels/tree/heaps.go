package tree

//go:generate go -C ../_asm run . tree

import (
	"math"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

const (
	heapLanes  = 16  // rows that traverse a heap in registers
	heapTable  = 128 // words of a heap's table: thresholds and features of 64 nodes
	heapLevels = 6   // levels of the deepest heap with a table
	heapChunk  = 64  // trees per call: about 5 µs
	fewRows    = 9   // minimum number of rows for the kernel
)

// tabulate builds the tables for [heapsGeneric] if the level has a kernel and all trees qualify:
// shallow heaps of float32, whose sums are plain additions, without special treatment of NaN.
func (e *Ensemble[T]) tabulate(level cpu.Level) {
	steps, ok := any(e.steps).([]step[float32])
	if !ok || level != cpu.AVX512 || e.missing || !e.single || e.agg > Average || len(e.pointers) > 0 {
		return
	}
	for _, w := range e.heaps {
		if w.depth < 1 || w.depth > heapLevels {
			return
		}
	}
	e.tables = make([]uint32, len(e.heaps)*heapTable)
	for i, w := range e.heaps {
		t := e.tables[i*heapTable:][:heapTable]
		for k := 1; k < 1<<w.depth; k++ {
			t[k], t[heapTable/2+k] = math.Float32bits(steps[w.first+k].value), steps[w.first+k].feature
		}
		t[heapTable/2] = uint32(w.depth)
	}
}

// heapsGeneric finds the leaves that sixteen rows reach in n heaps.
//
//	for t := range n {
//		for r := range 16 {
//			i := 1
//			for range depth {
//				i *= 2
//				if !(x[offsets[r]+feature[i/2]] <= value[i/2]) {
//					i++
//				}
//			}
//			out[t*16+r] = i
//		}
//	}
func heapsGeneric(out, tables []uint32, x unsafe.Pointer, offsets *[heapLanes]uint32, n int) {
	for t := range n {
		table := tables[t*heapTable:][:heapTable]
		for r, off := range offsets {
			i := uint32(1)
			for range table[heapTable/2] {
				v := *(*float32)(unsafe.Add(x, 4*(uintptr(off)+uintptr(table[heapTable/2+i]))))
				value := math.Float32frombits(table[i])
				i *= 2
				if !(v <= value) {
					i++
				}
			}
			out[t*heapLanes+r] = i
		}
	}
}

// heapRows16 writes the sums of the rows in groups of sixteen, except for a small last group, and
// returns the number of rows written.
func (e *Ensemble[T]) heapRows16(dst, x []T, ldx, lo, hi int) int {
	if e.tables == nil || ldx > math.MaxInt32/4/heapLanes-e.features {
		return 0
	}
	var offsets [heapLanes]uint32
	var at [heapChunk * heapLanes]uint32
	n := lo
	for n+fewRows <= hi {
		rows := min(heapLanes, hi-n)
		for r := range offsets { // repeat the last row for missing ones
			offsets[r] = uint32(min(r, rows-1) * ldx)
		}
		var sum [heapLanes]float64
		p := unsafe.Pointer(unsafe.SliceData(x[n*ldx:]))
		for t := 0; t < len(e.heaps); t += heapChunk {
			count := min(heapChunk, len(e.heaps)-t)
			heaps(at[:], e.tables[t*heapTable:], p, &offsets, count)
			for k := range e.heaps[t : t+count] {
				w := &e.heaps[t+k]
				leaf, m := e.value[w.leaf:][:1<<w.depth], uint32(1)<<w.depth
				for r, i := range (*[heapLanes]uint32)(at[k*heapLanes:]) {
					sum[r] += leaf[i-m]
				}
			}
		}
		for r, v := range sum[:rows] {
			if e.agg == Average {
				v /= float64(e.trees)
			}
			dst[n+r] = T(v)
		}
		n += rows
	}
	return n - lo
}
