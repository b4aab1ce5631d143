package reduce

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// Plan describes the traversal of a tensor that is reduced along some dimensions. The
// innermost dimensions of one kind form a contiguous piece, which is either reduced (Rows) or kept.
type Plan struct {
	OutShape         []int
	inner            int
	rows             bool
	kept, reduced    []int // dimensions outside of the piece, adjacent ones of a kind merged
	keptAt, reduceAt []int // their strides
	N                int   // number of elements that are reduced to one
	group            int   // number of adjacent elements of a kept piece that are reduced to one
	costly           bool  // of the [Reduction]
}

// Plan returns how a tensor of the given shape is reduced along the axes. The plan is valid while
// the operator runs.
func (r *Reduction) Plan(c *ir.Call, shape, axes []int) (*Plan, error) {
	var few [8]bool
	m := few[:min(len(shape), len(few))]
	if len(shape) > len(few) {
		m = make([]bool, len(shape))
	}
	if err := r.mask(m, axes); err != nil {
		return nil, err
	}
	list := func() []int { return c.Ints(len(shape))[:0] }
	p := ir.Kept[Plan](c)
	*p = Plan{N: 1, inner: 1, group: 1, costly: r.Costly, OutShape: list(), kept: list(), reduced: list(),
		keptAt: list(), reduceAt: list()}
	for i, d := range shape {
		switch {
		case !m[i]:
			p.OutShape = append(p.OutShape, d)
		default:
			p.N *= d
			if r.KeepDims {
				p.OutShape = append(p.OutShape, 1)
			}
		}
	}
	stride, first := 1, true
	var lastReduced bool
	for i := len(shape) - 1; i >= 0; i-- {
		d := shape[i]
		if d == 1 {
			continue
		}
		switch {
		case first:
			p.inner, p.rows = d, m[i]
		case m[i] == lastReduced && len(p.kept) == 0 && len(p.reduced) == 0:
			p.inner *= d
		case m[i]:
			p.reduced, p.reduceAt = addPlanDim(p.reduced, p.reduceAt, d, stride, lastReduced)
		default:
			p.kept, p.keptAt = addPlanDim(p.kept, p.keptAt, d, stride, !lastReduced)
		}
		first, lastReduced = false, m[i]
		stride *= d
	}
	slices.Reverse(p.kept)
	slices.Reverse(p.keptAt)
	slices.Reverse(p.reduced)
	slices.Reverse(p.reduceAt)
	return p, nil
}

// regroup treats adjacent short pieces that are reduced as one kept piece, whose results are
// combined in groups at the end. For the sums of N×C×H×W per channel, the images are added as a
// whole, and then the H·W sums of each channel.
func (p *Plan) regroup() {
	k, r := len(p.kept)-1, len(p.reduced)-1
	if !p.rows || k < 0 || r < 0 || p.inner > Block/2 || p.reduced[r] < 4 || p.keptAt[k] != p.inner ||
		p.reduceAt[r] != p.kept[k]*p.inner {
		return
	}
	p.rows, p.group, p.inner = false, p.inner, p.kept[k]*p.inner
	p.kept, p.keptAt = p.kept[:k], p.keptAt[:k]
}

// scattered reports whether the elements that a result combines are in many short pieces, or not
// contiguous.
func (p *Plan) scattered() bool {
	return p.inner < kit.ShortRow && p.group == 1 && (len(p.reduced) > 1 || p.rows && kit.Product(p.reduced) > 1)
}

// regular reports whether the elements of a result are one row, or results are at least
// kit.ShortRow columns of one matrix.
func (p *Plan) regular() bool {
	return p.rows && len(p.reduced) == 0 || !p.rows && len(p.reduced) == 1 && p.inner >= kit.ShortRow
}

// narrow reports whether the elements of a result are one short piece, and there are many results.
func (p *Plan) narrow() bool {
	return p.rows && p.inner > 1 && p.inner <= 4*kit.ShortRow && len(p.reduced) == 0 &&
		kit.Product(p.kept) >= 4*kit.ShortRow
}

// Pieces returns the dimensions of the results and those of the contiguous pieces that are reduced
// to one result, both with their strides, and the length of a piece.
func (p *Plan) Pieces() (kept, keptAt, reduced, reduceAt []int, run int) {
	if p.rows {
		return p.kept, p.keptAt, p.reduced, p.reduceAt, p.inner
	}
	return slices.Concat(p.kept, []int{p.inner}), slices.Concat(p.keptAt, []int{1}), p.reduced, p.reduceAt, 1
}

// gather transposes x and returns the plan for it. The elements of a result become a row or, with
// columns, a column.
func (p *Plan) gather(c *ir.Call, x *tensor.Tensor, columns bool) (*Plan, *tensor.Tensor, error) {
	r, err := kit.ScratchTensor(c, x.DType(), x.Shape())
	if err != nil {
		return nil, nil, err
	}
	src, err := move.In(c, x)
	if err != nil {
		return nil, nil, err
	}
	dst, err := move.Into(c, r)
	if err != nil {
		return nil, nil, err
	}
	kept, keptAt, reduced, reduceAt, run := p.Pieces()
	reduced, reduceAt = slices.Concat(reduced, []int{run}), slices.Concat(reduceAt, []int{1})
	results := x.Len() / p.N
	moved := &Plan{OutShape: p.OutShape, N: p.N, group: 1, rows: !columns, inner: p.N, kept: []int{results},
		keptAt: []int{p.N}}
	shape, from := slices.Concat(kept, reduced), slices.Concat(keptAt, reduceAt)
	if columns {
		moved.inner, moved.kept, moved.keptAt, moved.reduced, moved.reduceAt = results, nil, nil,
			[]int{p.N}, []int{results}
		shape, from = slices.Concat(reduced, kept), slices.Concat(reduceAt, keptAt)
	}
	move.Strided(c, dst, src, shape, kit.Strides(shape), 0, from, 0)
	return moved, r, nil
}

// addPlanDim adds an outer dimension, or merges it with the last one.
func addPlanDim(dims, at []int, d, stride int, join bool) ([]int, []int) {
	if n := len(dims); join && n > 0 {
		dims[n-1] *= d
		return dims, at
	}
	return append(dims, d), append(at, stride)
}

// PlanOffset returns the offset of element i of the given dimensions with their strides. Inlined,
// it takes 11 KB.
//
//go:noinline
func PlanOffset(i int, dims, at []int) int {
	p := 0
	for k := len(dims) - 1; k >= 0; k-- {
		p += i % dims[k] * at[k]
		i /= dims[k]
	}
	return p
}
