package tree

import "github.com/onward-ml/onward/internal/cpu"

const (
	heapLanes  = 16  // rows that traverse a heap in registers
	heapTable  = 128 // words of a heap's table: keys of thresholds and features of 64 nodes
	heapSlots  = 64
	heapLevels = 6  // levels of the deepest heap with a table
	heapChunk  = 64 // trees per call: about 5 µs
	heapRows   = 7  // number of rows from which on heaps are faster than traversals
)

// heapsGeneric finds the leaves that sixteen rows reach in n heaps.
//
//	for t := range n {
//		for r := range 16 {
//			i := 1
//			for range depth {
//				i *= 2
//				if keys[offsets[r]+feature[i/2]] > threshold[i/2] {
//					i++
//				}
//			}
//			out[t*16+r] = i
//		}
//	}
func heapsGeneric(out, tables []uint32, keys []uint32, offsets *[heapLanes]uint32, n int) {
	for t := range n {
		table := tables[t*heapTable:][:heapTable]
		for r, off := range offsets {
			i := uint32(1)
			for range table[heapTable/2] {
				second := keys[off+table[heapTable/2+i]] > table[i]
				i *= 2
				if second {
					i++
				}
			}
			out[t*heapLanes+r] = i
		}
	}
}

// addHeaps adds adjacent trees that have tables to the sums of rows.
func (e *Ensemble) addHeaps(s []float64, trees []walk, keys []uint32, rows, features int) {
	var offsets [heapLanes]uint32
	var at [heapChunk * heapLanes]uint32
	for r := 0; r < rows; r += heapLanes {
		n := min(heapLanes, rows-r)
		for k := range offsets { // the last row stands in for missing ones
			offsets[k] = uint32(min(k, n-1) * features)
		}
		for t := 0; t < len(trees); t += heapChunk {
			trees := trees[t:min(t+heapChunk, len(trees))]
			heaps(at[:], e.tables[trees[0].table*heapTable:], keys[r*features:], &offsets, len(trees))
			for k := range trees {
				w, leaves := &trees[k], at[k*heapLanes:][:n]
				if e.form == one {
					weights, s := (*[heapSlots]float32)(e.slotWeights[w.table*heapSlots:]), s[r*e.targets+int(w.target):]
					for j, i := range leaves {
						s[j*e.targets] += float64(weights[i%heapSlots])
					}
					continue
				}
				slots := (*[heapSlots]uint8)(e.slots[w.table*heapSlots:])
				for j, i := range leaves {
					leaves[j] = uint32(slots[i%heapSlots])
				}
			}
			if e.form != one {
				e.add(s[r*e.targets:], trees, at[:], n, heapLanes)
			}
		}
	}
}

// tabulate makes the table of a tree, if it is shallow and the processor has the kernel.
func (e *Ensemble) tabulate(w *walk, root uint32) {
	w.table = -1
	if cpu.Active() != cpu.AVX512 || w.depth < 1 || w.depth > heapLevels {
		return
	}
	w.table = len(e.tables) / heapTable
	e.tables = append(e.tables, make([]uint32, heapTable)...)
	e.tables[len(e.tables)-heapTable/2] = uint32(w.depth)
	if e.form == one {
		e.slotWeights = append(e.slotWeights, make([]float32, heapSlots)...)
	} else {
		e.slots = append(e.slots, make([]uint8, heapSlots)...)
	}
	e.enter(w, root, 1, 0)
}

// enter writes node i to position p of level d of the table. A leaf above the last level has the places of
// the leaves that a full tree has below it.
func (e *Ensemble) enter(w *walk, i uint32, p, d int) {
	n := e.nodes[i]
	if isLeaf(n) {
		for q := p << (int(w.depth) - d); q < (p+1)<<(int(w.depth)-d); q++ {
			if slot := w.table*heapSlots + q%heapSlots; e.form == one {
				e.slotWeights[slot] = e.weights[w.leaf+int(leafOf(n))]
			} else {
				e.slots[slot] = uint8(leafOf(n))
			}
		}
		return
	}
	t := e.tables[w.table*heapTable:]
	t[p], t[heapTable/2+p] = uint32(n>>32), uint32(n)&(1<<e.bits-1)
	child := i + uint32(n)>>e.bits
	e.enter(w, child, 2*p, d+1)
	e.enter(w, child+1, 2*p+1, d+1)
}
