package tree

//go:generate go -C ../_asm run . tree

import (
	"math"
	"unsafe"
)

const (
	heapLanes  = 16  // rows that traverse a heap in registers
	heapTable  = 128 // words of a heap's table: thresholds and features of 64 nodes
	heapLevels = 6   // levels of the deepest heap with a table
	heapChunk  = 64  // trees per call: about 5 µs
)

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

// lookUp adds adjacent trees that have tables to the sums of rows.
func (e *Ensemble) lookUp(s []float64, trees []walk, x []float32, rows, ldx int) {
	var offsets [heapLanes]uint32
	var at [heapChunk * heapLanes]uint32
	for r := 0; r < rows; r += heapLanes {
		n := min(heapLanes, rows-r)
		for k := range offsets { // the last row stands in for missing ones
			offsets[k] = uint32(min(k, n-1) * ldx)
		}
		heaps(at[:], e.tables[trees[0].table*heapTable:], unsafe.Pointer(unsafe.SliceData(x[r*ldx:])), &offsets, len(trees))
		for t := range trees {
			w := &trees[t]
			leaves, first := at[t*heapLanes:][:n], w.leaf-1<<w.depth
			if !w.full {
				slots := e.slots[w.table*heapTable/2:][:heapTable/2]
				for k, i := range leaves {
					leaves[k] = uint32(slots[i%(heapTable/2)])
				}
				first = w.leaf
			}
			e.add(s[r*e.targets:], first, int(w.target), leaves)
		}
	}
}
