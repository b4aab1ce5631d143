package vec

import "github.com/onward-ml/onward/internal/cpu"

const (
	pairsGroup = 8  // sums of a group
	pairsSpan  = 32 // elements of x from which a group selects
)

// Pairs describes sums of weighted pairs of the elements of a row: sum i is weight[2i]*x[index[2i]]
// + weight[2i+1]*x[index[2i+1]].
type Pairs struct {
	groups  []pairGroup
	n, sums int
}

// pairGroup describes eight adjacent sums. The kernel knows its layout.
type pairGroup struct {
	from, to int // first element of x and of dst
	index    [2 * pairsGroup]uint32
	weight   [2 * pairsGroup]float32
}

// NewPairs prepares sums of a row of n elements. It returns nil if the level has no kernel, or if
// eight adjacent sums read elements too far apart.
func NewPairs(l cpu.Level, n int, index []int, weight []float32) *Pairs {
	p := &Pairs{n: n, sums: len(index) / 2}
	if l != cpu.AVX512 || p.sums < pairsGroup || n < pairsSpan {
		return nil
	}
	p.groups = make([]pairGroup, (p.sums+pairsGroup-1)/pairsGroup)
	for k := range p.groups {
		g := &p.groups[k]
		g.to = min(k*pairsGroup, p.sums-pairsGroup) // the last group overlaps
		pairs := index[2*g.to:][:2*pairsGroup]
		g.from = n - pairsSpan
		for _, i := range pairs {
			g.from = min(g.from, i)
		}
		for j, i := range pairs {
			if i-g.from >= pairsSpan {
				return nil
			}
			at := j%2*pairsGroup + j/2
			g.index[at], g.weight[at] = uint32(i-g.from), weight[2*g.to+j]
		}
	}
	return p
}

// Sum writes the sums of x to dst. Products are rounded before they are added. A call takes at most
// 50 µs for some ten thousands of sums.
func (p *Pairs) Sum(dst, x []float32) {
	_, _ = dst[p.sums-1], x[p.n-1]
	pairSums(dst, x, p.groups)
}
