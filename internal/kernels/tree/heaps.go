package tree

import (
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
)

// Ensembles whose trees have at most heapLevels levels are evaluated for sixteen rows at once
// (AVX-512).
//
// A gather of sixteen keys takes 37 cycles on AMD Zen 4; comparing sixteen rows with a node
// takes 2. So all 15 nodes of the first four levels are compared, and the results are looked up in
// a register. Keys are gathered for the last two levels only. 100 trees of depth 6 for 10 rows take
// 5.0 instead of 6.9 µs. Comparing six levels takes as long as gathering six. If a tree is deeper,
// the ensemble is traversed node by node.
const (
	heapLanes  = 16  // rows that traverse a heap in registers
	heapTable  = 128 // words of a heap's table: keys of thresholds and features of 64 nodes
	heapSlots  = 64
	heapLevels = 6  // levels of the deepest heap with a table
	heapChunk  = 64 // trees per call: about 3 µs
	heapSums   = 32 // most targets for which the kernel adds the weights
	heapRows   = 5  // number of rows from which on heaps are faster than traversals
)

// heapsGeneric finds the leaves that sixteen rows reach in n heaps.
//
//	for t := range n {
//		for r := range 16 {
//			i := 1
//			for range depth {
//				i *= 2
//				if keys[feature[i/2]*16+r] > threshold[i/2] {
//					i++
//				}
//			}
//			if weights != nil {
//				sums[target*16+r] += weights[t*64+i%64]
//			} else {
//				out[t*16+r] = i
//			}
//		}
//	}
//
// The table has 16 times the features. The depth is the threshold of node 0, and 16 times the
// target its feature.
func heapsGeneric(out []uint32, sums []float64, weights []float32, tables, keys []uint32, n int) {
	for t := range n {
		table := tables[t*heapTable:][:heapTable]
		for r := range uint32(heapLanes) {
			i := uint32(1)
			for range table[0] {
				second := keys[table[heapTable/2+i]+r] > table[i]
				i *= 2
				if second {
					i++
				}
			}
			if weights != nil {
				sums[table[heapTable/2]+r] += float64(weights[t*heapSlots+int(i%heapSlots)])
			} else {
				out[t*heapLanes+int(r)] = i
			}
		}
	}
}

// addHeaps writes the sums of at most sixteen rows. The keys are those of the rows by feature.
func (e *Ensemble) addHeaps(s []float64, keys []uint32, rows int) {
	if e.slotWeights != nil {
		var sums [heapSums * heapLanes]float64
		for t := 0; t < len(e.trees); t += heapChunk {
			heaps(nil, sums[:], e.slotWeights[t*heapSlots:], e.tables[t*heapTable:], keys,
				min(heapChunk, len(e.trees)-t))
		}
		for k := range e.targets {
			for r := range rows {
				s[r*e.targets+k] = sums[k*heapLanes+r]
			}
		}
		return
	}
	var at [heapChunk * heapLanes]uint32
	for t := 0; t < len(e.trees); t += heapChunk {
		trees := e.trees[t:min(t+heapChunk, len(e.trees))]
		heaps(at[:], nil, nil, e.tables[t*heapTable:], keys, len(trees))
		for k := range trees {
			slots, leaves := (*[heapSlots]uint8)(e.slots[(t+k)*heapSlots:]), at[k*heapLanes:][:rows]
			for j, i := range leaves {
				leaves[j] = uint32(slots[i%heapSlots])
			}
		}
		e.add(s, trees, at[:], rows, heapLanes)
	}
}

// tabulate makes the tables of the trees, if all are shallow and the processor has the kernel.
func (e *Ensemble) tabulate() {
	n := len(e.trees)
	if cpu.Active() != cpu.AVX512 || slices.ContainsFunc(e.trees, func(w walk) bool { return w.depth > heapLevels }) {
		return
	}
	e.tables = make([]uint32, n*heapTable)
	if e.form == one && e.weights64 == nil && e.targets <= heapSums {
		e.slotWeights = make([]float32, n*heapSlots)
	} else {
		e.slots = make([]uint8, n*heapSlots)
	}
	for t, w := range e.trees {
		w.depth = max(w.depth, 1)
		e.tables[t*heapTable], e.tables[t*heapTable+heapTable/2] = uint32(w.depth), uint32(w.target)*heapLanes
		e.enter(t, w, e.roots[t], 1, 0)
	}
}

// enter writes node i to position p of level d of table t. A leaf above the last level fills the
// positions of all leaves that a full tree has below it.
func (e *Ensemble) enter(t int, w walk, i uint32, p, d int) {
	n := e.nodes[i]
	if isLeaf(n) {
		for q := p << (int(w.depth) - d); q < (p+1)<<(int(w.depth)-d); q++ {
			if slot := t*heapSlots + q%heapSlots; e.slotWeights != nil {
				e.slotWeights[slot] = e.weights[w.leaf+int(leafOf(n))]
			} else {
				e.slots[slot] = uint8(leafOf(n))
			}
		}
		return
	}
	table := e.tables[t*heapTable:]
	table[p], table[heapTable/2+p] = uint32(n>>32), uint32(n)&(1<<e.bits-1)*heapLanes
	child := i + uint32(n)>>e.bits
	e.enter(t, w, child, 2*p, d+1)
	e.enter(t, w, child+1, 2*p+1, d+1)
}
