package tree

import (
	"math"
	"slices"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
)

//go:generate go -C ../_asm run . tree

const (
	lanes     = 8   // traversals that advance together
	atOnce    = 128 // traversals of a call
	maxSteps  = 64  // levels of the deepest tree for the kernel: a call takes 5 µs, or 50 µs without cache
	grain     = 16  // rows that are not distributed
	maxBlock  = 64  // rows whose keys and sums stay in the cache
	blockKeys = 2048
	heapKeys  = 4096 // with tables
	sums      = 512
)

// Run writes the aggregated values of the rows to dst, rows×targets. x has rows rows of stride ldx,
// with a value for each feature up to the largest of the nodes. par distributes the rows; if it is
// nil, one call computes everything. Sums are float64, and add the trees in order.
func Run[T float32 | float64](e *Ensemble, par gemm.Par, dst []T, x []float32, rows, ldx int) {
	if rows == 0 {
		return
	}
	_, _ = dst[rows*e.targets-1], x[:(rows-1)*ldx+e.features]
	if par == nil {
		run(e, dst, x, ldx, 0, rows)
		return
	}
	par((rows+grain-1)/grain, func(lo, hi int) { run(e, dst, x, ldx, lo*grain, min(rows, hi*grain)) })
}

// run evaluates rows lo to hi in blocks.
func run[T float32 | float64](e *Ensemble, dst []T, x []float32, ldx, lo, hi int) {
	features, level := max(1, e.features), cpu.Active() // leaves read the first feature
	block := min(maxBlock, hi-lo, sums/e.targets)
	tables := e.tables != nil && block >= heapRows && features <= heapKeys/heapLanes
	words := 0
	if tables {
		if block = min(block, heapKeys/features); block > heapLanes {
			block &^= heapLanes - 1
		}
		words = max(block, heapLanes) * features
	} else {
		block = max(1, min(block, blockKeys/features))
		words = block * features
	}
	var keys []uint32
	var v []float64
	if words <= blockKeys/4 && block*e.targets <= sums/8 { // clears less
		var k [blockKeys / 4]uint32
		var s [sums / 8]float64
		keys, v = k[:], s[:]
	} else {
		var k [heapKeys]uint32
		var s [sums]float64
		keys, v = k[:], s[:]
	}
	if words > len(keys) {
		keys = make([]uint32, words)
	}
	if block*e.targets > len(v) {
		v = make([]float64, block*e.targets)
	}
	for r := lo; r < hi; r += block {
		n := min(block, hi-r)
		v := v[:n*e.targets]
		clear(v)
		if e.extreme() {
			for i := range v {
				v[i] = math.Inf(-1)
			}
		}
		special := false // NaN has a side of its own
		if tables {
			for i := 0; i < n; i += heapLanes {
				k := keys[i*features:][:heapLanes*e.features]
				f := memory.FromRaw[float32](memory.AsBytes(k))
				vec.TransposeF32(level, f, heapLanes, x[(r+i)*ldx:], ldx, min(heapLanes, n-i), e.features)
				vec.OrderF32(level, k, f)
			}
			if special = e.missing != nil && slices.Contains(keys[:(n+heapLanes-1)/heapLanes*heapLanes*features],
				vec.OrderNaN); !special {
				for i := 0; i < n; i += heapLanes {
					e.addHeaps(v[i*e.targets:], keys[i*features:], min(heapLanes, n-i))
				}
			}
		}
		if !tables || special {
			for i := range n {
				vec.OrderF32(level, keys[i*features:][:e.features], x[(r+i)*ldx:])
			}
			e.block(v, keys, n, features, e.missing != nil && slices.Contains(keys[:n*features], vec.OrderNaN))
		}
		store(e, dst[r*e.targets:], v)
	}
}

// store rounds aggregated values.
func store[T float32 | float64](e *Ensemble, dst []T, v []float64) {
	dst = dst[:len(v)]
	for i, v := range v {
		switch {
		case e.aggregate == Average:
			v /= float64(len(e.trees))
		case e.extreme() && math.IsInf(v, -1): // no leaf has a weight for the target
			v = 0
		case e.aggregate == Min:
			v = -v
		}
		dst[i] = T(v)
	}
}

// add adds leaves of trees to the sums of rows. The leaves of tree t begin at leaves[t*stride].
func (e *Ensemble) add(s []float64, trees []walk, leaves []uint32, rows, stride int) {
	n := e.targets
	if e.form == one && rows == 1 && n == 1 {
		sum := s[0] // in a register
		if e.weights64 != nil {
			for t, i := range leaves[:len(trees)] {
				sum += e.weights64[trees[t].leaf+int(i)]
			}
		} else {
			for t, i := range leaves[:len(trees)] {
				sum += float64(e.weights[trees[t].leaf+int(i)])
			}
		}
		s[0] = sum
		return
	}
	for t := range trees {
		w, leaves := &trees[t], leaves[t*stride:][:rows]
		switch {
		case e.form == one && e.weights64 != nil:
			s, weights := s[w.target:], e.weights64[w.leaf:]
			for r, i := range leaves {
				s[r*n] += weights[i]
			}
		case e.form == one:
			s, weights := s[w.target:], e.weights[w.leaf:]
			for r, i := range leaves {
				s[r*n] += float64(weights[i])
			}
		case e.form == sparse:
			extreme := e.extreme()
			for r, i := range leaves {
				k := w.leaf + int(i)
				for _, t := range e.terms[e.starts[k]:e.starts[k+1]] {
					if v := &s[r*n+int(t.Target)]; !extreme {
						*v += t.Weight
					} else if t.Weight > *v {
						*v = t.Weight
					}
				}
			}
		case e.weights64 != nil:
			for r, i := range leaves {
				s := s[r*n:][:n]
				for k, v := range e.weights64[(w.leaf+int(i))*n:][:n] {
					s[k] += v
				}
			}
		default:
			for r, i := range leaves {
				s := s[r*n:][:n]
				for k, v := range e.weights[(w.leaf+int(i))*n:][:n] {
					s[k] += float64(v)
				}
			}
		}
	}
}

// traversals is a set of traversals. The kernel knows its layout.
type traversals struct {
	node [atOnce]uint32 // afterwards the leaf
	row  [atOnce]uint32 // index of the first key
}

// block adds all trees to the sums of rows. The traversals of several trees by few rows advance
// together.
func (e *Ensemble) block(s []float64, keys []uint32, rows, features int, missing bool) {
	var g traversals
	most := min(atOnce/rows, len(e.trees))
	at := 0
	for i := range g.row[:(most*rows+lanes-1)&^(lanes-1)] {
		g.row[i] = uint32(at)
		if at += features; at == rows*features {
			at = 0
		}
	}
	for t := 0; t < len(e.trees); t += most {
		trees := e.trees[t:min(t+most, len(e.trees))]
		depth := int32(0)
		for k := range trees {
			depth = max(depth, trees[k].depth)
		}
		n := len(trees) * rows
		if rows == 1 {
			copy(g.node[:n], e.roots[t:])
		} else {
			for k, root := range e.roots[t:][:len(trees)] {
				node := g.node[k*rows:][:rows]
				for r := range node {
					node[r] = root
				}
			}
		}
		if missing || int(depth) > maxSteps {
			e.walk(&g, keys, n)
		} else {
			groups := (n + lanes - 1) / lanes
			for k := n; k < groups*lanes; k++ {
				g.node[k] = g.node[0]
			}
			walkSteps(&g, e.nodes, keys, e.bits, int(depth), groups)
		}
		e.add(s, trees, g.node[:], rows, rows)
	}
}

// walkGeneric replaces the nodes of groups of eight traversals by the numbers of the leaves below
// them, which are at most steps levels away. A step leads from a node to its first child if the
// feature is at most the threshold, else to the second one.
func walkGeneric(g *traversals, nodes []uint64, keys []uint32, bits uint, steps, groups int) {
	p, k, mask, shift := unsafe.Pointer(unsafe.SliceData(nodes)), unsafe.Pointer(unsafe.SliceData(keys)),
		uint32(1)<<bits-1, bits&31
	for j := range groups * lanes {
		i := g.node[j]
		for range steps {
			node := *(*uint64)(unsafe.Add(p, 8*uintptr(i)))
			b := uint32(0)
			if uint32(node>>32) < *(*uint32)(unsafe.Add(k, 4*uintptr(g.row[j]+uint32(node)&mask))) {
				b = 1
			}
			i += uint32(node)>>shift + b
		}
		g.node[j] = leafOf(nodes[i])
	}
}

// walk is [walkGeneric] for n traversals of trees of any depth, where features may be NaN.
func (e *Ensemble) walk(g *traversals, keys []uint32, n int) {
	for k, i := range g.node[:n] {
		for !isLeaf(e.nodes[i]) {
			node := e.nodes[i]
			v := keys[g.row[k]+uint32(node)&(1<<e.bits-1)]
			second := uint32(node>>32) < v && !(v == vec.OrderNaN && e.missing != nil && e.missing[i/64]>>(i%64)&1 != 0)
			if i += uint32(node) >> e.bits; second {
				i++
			}
		}
		g.node[k] = leafOf(e.nodes[i])
	}
}
