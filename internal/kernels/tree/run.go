package tree

import (
	"math"
	"unsafe"

	"github.com/onward-ml/onward/internal/kernels/gemm"
)

const (
	lanes    = 8   // traversals that advance together
	fewRows  = 3   // maximum number of rows that are evaluated one by one
	maxBlock = 64  // rows that traverse one tree after the other: their sums and the tree stay in the cache
	sums     = 512 // sums of a block without allocation
)

// Run writes the aggregated values of the rows to dst, rows×targets. x has rows rows of at least
// Features values at stride ldx. par distributes the rows; if it is nil, one call computes
// everything. The sums are float64, and add the trees in order.
func (e *Ensemble) Run(par gemm.Par, dst, x []float32, rows, ldx int) {
	if rows == 0 {
		return
	}
	_, _ = dst[rows*e.targets-1], x[:(rows-1)*ldx+e.features]
	if par == nil {
		e.run(dst, x, ldx, 0, rows)
		return
	}
	par((rows+heapLanes-1)/heapLanes, func(lo, hi int) { e.run(dst, x, ldx, lo*heapLanes, min(rows, hi*heapLanes)) })
}

func (e *Ensemble) run(dst, x []float32, ldx, lo, hi int) {
	if hi-lo <= fewRows {
		var s [16]float64
		v := s[:]
		if e.targets > len(s) {
			v = make([]float64, e.targets)
		}
		v = v[:e.targets]
		for r := lo; r < hi; r++ {
			clear(v)
			e.row(v, x[r*ldx:])
			e.store(dst[r*e.targets:], v)
		}
		return
	}
	var s [sums]float64
	v := s[:]
	block := min(maxBlock, sums/e.targets&^(heapLanes-1))
	if block == 0 {
		block = heapLanes
		v = make([]float64, block*e.targets)
	}
	for r := lo; r < hi; r += block {
		n := min(block, hi-r)
		v := v[:n*e.targets]
		clear(v)
		e.block(v, x[r*ldx:], n, ldx)
		e.store(dst[r*e.targets:], v)
	}
}

// store rounds sums.
func (e *Ensemble) store(dst []float32, v []float64) {
	dst = dst[:len(v)]
	if e.average {
		for i, v := range v {
			dst[i] = float32(v / float64(len(e.trees)))
		}
		return
	}
	for i, v := range v {
		dst[i] = float32(v)
	}
}

// add adds a leaf of a tree to the sums of each row. first is the index of the tree's leaf 0, target that of all leaves
// if the form is one.
func (e *Ensemble) add(s []float64, first, target int, leaves []uint32) {
	n := e.targets
	switch {
	case e.form == one:
		s := s[target:]
		for r, i := range leaves {
			s[r*n] += float64(e.weights[first+int(i)])
		}
	case e.form == sparse:
		for r, i := range leaves {
			k := first + int(i)
			for _, t := range e.terms[e.starts[k]:e.starts[k+1]] {
				s[r*n+int(t.Target)] += t.Weight
			}
		}
	case e.weights64 != nil:
		for r, i := range leaves {
			s := s[r*n:][:n]
			for k, v := range e.weights64[(first+int(i))*n:][:n] {
				s[k] += v
			}
		}
	default:
		for r, i := range leaves {
			s := s[r*n:][:n]
			for k, v := range e.weights[(first+int(i))*n:][:n] {
				s[k] += float64(v)
			}
		}
	}
}

// block adds all trees to the sums of rows. Trees that have tables are looked up for sixteen rows at a time, others for eight.
func (e *Ensemble) block(s []float64, x []float32, rows, ldx int) {
	small := ldx <= math.MaxInt32/4/maxBlock-e.features // offsets of rows fit into 31 bits
	missing := e.missing != nil && e.hasNaN(x, rows, ldx)
	for t := 0; t < len(e.trees); {
		n := 0
		for small && !missing && rows > lanes && n < heapChunk && t+n < len(e.trees) && e.trees[t+n].table >= 0 {
			n++
		}
		if n > 0 {
			e.lookUp(s, e.trees[t:t+n], x, rows, ldx)
			t += n
			continue
		}
		e.tree(s, &e.trees[t], x, rows, ldx, missing)
		t++
	}
}

// hasNaN reports whether a feature of the rows is NaN.
func (e *Ensemble) hasNaN(x []float32, rows, ldx int) bool {
	for r := range rows {
		for _, v := range x[r*ldx:][:e.features] {
			if v != v {
				return true
			}
		}
	}
	return false
}

// tree adds one tree to the sums of rows.
func (e *Ensemble) tree(s []float64, w *walk, x []float32, rows, ldx int, missing bool) {
	var g group
	for k := range lanes {
		g.root[k], g.row[k] = unsafe.Pointer(&e.nodes[2*w.at]), uint32(k*ldx)
	}
	for r := 0; r < rows; r += lanes {
		n := min(lanes, rows-r)
		for k := n; k < lanes; k++ { // the last row stands in for missing ones
			g.row[k] = uint32((n - 1) * ldx)
		}
		g.node = [lanes]uint32{}
		e.walk(&g, x[r*ldx:], int(w.depth), missing)
		e.add(s[r*e.targets:], w.leaf, int(w.target), g.node[:n])
	}
}

// row adds all trees to the sums of one row, eight trees at a time.
func (e *Ensemble) row(s []float64, x []float32) {
	missing := e.missing != nil && e.hasNaN(x, 1, 0)
	var g group
	for t := 0; t < len(e.trees); t += lanes {
		trees := e.trees[t:min(t+lanes, len(e.trees))]
		depth := int32(0)
		for k := range lanes { // the last tree stands in for missing ones
			w := &trees[min(k, len(trees)-1)]
			g.root[k], depth = unsafe.Pointer(&e.nodes[2*w.at]), max(depth, w.depth)
		}
		g.node = [lanes]uint32{}
		e.walk(&g, x, int(depth), missing)
		for k := range trees {
			if w := &trees[k]; e.form == one {
				s[w.target] += float64(e.weights[w.leaf+int(g.node[k])])
			} else {
				e.add(s, w.leaf, int(w.target), g.node[k:k+1])
			}
		}
	}
}

// group is a set of traversals. The kernel knows its layout.
type group struct {
	root [lanes]unsafe.Pointer
	row  [lanes]uint32 // index of the row's first feature
	node [lanes]uint32
}

// walk replaces the nodes of a group by the leaves below them, which are at most depth levels away. If missing is set,
// features may be NaN, and nodes may send it to their first child.
func (e *Ensemble) walk(g *group, x []float32, depth int, missing bool) {
	if missing {
		e.walkMissing(g, x)
	} else {
		const steps = 8 // after which all traversals may have ended
		for ; depth > 0; depth -= steps {
			walkSteps(g, x, e.bits, min(depth, steps))
			if depth > steps && g.ended() {
				break
			}
		}
	}
	for k, i := range g.node {
		g.node[k] = *(*uint32)(unsafe.Add(g.root[k], 8*uintptr(i))) - leafNaN
	}
}

func (g *group) ended() bool {
	for k, i := range g.node {
		if !isLeaf(*(*uint32)(unsafe.Add(g.root[k], 8*uintptr(i)))) {
			return false
		}
	}
	return true
}

// walkGeneric takes steps of eight traversals: from a node to its first child if the feature is at most the threshold, else
// to the second one.
func walkGeneric(g *group, x []float32, bits uint, steps int) {
	p, mask, shift := unsafe.Pointer(unsafe.SliceData(x)), uint32(1)<<bits-1, bits&31
	for k := range lanes {
		root, row, i := g.root[k], unsafe.Add(p, 4*uintptr(g.row[k])), uintptr(g.node[k])
		for range steps {
			n := unsafe.Add(root, 8*i)
			word := *(*uint32)(unsafe.Add(n, 4))
			v := *(*float32)(unsafe.Add(row, 4*uintptr(word&mask)))
			b := uint32(0)
			if !(v <= *(*float32)(n)) {
				b = 1
			}
			i = uintptr(word>>shift + b)
		}
		g.node[k] = uint32(i)
	}
}

// walkMissing walks to the leaves where features may be NaN.
func (e *Ensemble) walkMissing(g *group, x []float32) {
	for k := range lanes {
		at := int(uintptr(g.root[k])-uintptr(unsafe.Pointer(unsafe.SliceData(e.nodes)))) / 8
		i := at + int(g.node[k])
		for !isLeaf(e.nodes[2*i]) {
			word := e.nodes[2*i+1]
			v := x[g.row[k]+word&(1<<e.bits-1)]
			first := v <= math.Float32frombits(e.nodes[2*i]) || v != v && e.missing[i/64]>>(i%64)&1 != 0
			if i = at + int(word>>e.bits); !first {
				i++
			}
		}
		g.node[k] = uint32(i - at)
	}
}
