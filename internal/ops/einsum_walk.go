package ops

import "github.com/onward-ml/onward/internal/ops/kit"

// einsumWalk enumerates the terms of the sums of a product of operands.
type einsumWalk struct {
	outSize, sumSize []int
	outStep, sumStep [][]int // per operand
	terms            int64   // per sum, at most 1<<40
	index, inner     []int
	at               []int // per operand: the element of the term
}

// walk returns the terms of sums whose dimensions have the labels out. steps returns the
// distances of the elements of operand i for labels.
func (p *einsumPlan) walk(operands [][]int, steps func(i int, labels []int) []int, out []int) *einsumWalk {
	var sum []int // labels that are summed over
	for _, labels := range operands {
		for _, l := range labels {
			if !einsumHas(out, l) && !einsumHas(sum, l) {
				sum = append(sum, l)
			}
		}
	}
	t := &einsumWalk{outSize: p.sizes(out), sumSize: p.sizes(sum), terms: 1}
	for i := range operands {
		t.outStep, t.sumStep = append(t.outStep, steps(i, out)), append(t.sumStep, steps(i, sum))
	}
	for _, d := range t.sumSize {
		if d == 0 {
			t.terms = 0
		}
		t.terms = min(t.terms*int64(min(d, 1<<20)), 1<<40)
	}
	return t
}

// start returns a copy for one goroutine.
func (t *einsumWalk) start() *einsumWalk {
	r := *t
	r.index, r.inner, r.at = make([]int, len(t.outSize)), make([]int, len(t.sumSize)), make([]int, len(t.outStep))
	return &r
}

// first moves to the first term of sum i. It returns false if the sum has no terms.
func (t *einsumWalk) first(i int) bool {
	for d, k := len(t.outSize)-1, i; d >= 0; d-- {
		t.index[d], k = k%t.outSize[d], k/t.outSize[d]
	}
	clear(t.inner)
	return t.terms > 0 && t.locate()
}

// next moves to the next term. It returns false after the last one.
func (t *einsumWalk) next() bool { return kit.NextIndex(t.inner, t.sumSize) && t.locate() }

func (t *einsumWalk) locate() bool {
	for o := range t.at {
		at := 0
		for d, k := range t.index {
			at += k * t.outStep[o][d]
		}
		for d, k := range t.inner {
			at += k * t.sumStep[o][d]
		}
		t.at[o] = at
	}
	return true
}
