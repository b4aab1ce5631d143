package kit

import "slices"

// ReducePlan describes the traversal of a tensor that is reduced along some dimensions. The
// innermost dimensions of one kind form a contiguous piece, which is either reduced (Rows) or kept.
type ReducePlan struct {
	OutShape         []int
	inner            int
	rows             bool
	kept, reduced    []int // dimensions outside of the piece, adjacent ones of a kind merged
	keptAt, reduceAt []int // their strides
	N                int   // number of elements that are reduced to one
}

// Plan returns how a tensor of the given shape is reduced along the axes.
func (r *Reduction) Plan(shape, axes []int) (*ReducePlan, error) {
	m, err := r.Mask(axes, len(shape))
	if err != nil {
		return nil, err
	}
	p := &ReducePlan{N: 1, inner: 1, OutShape: make([]int, 0, len(shape))}
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

// addPlanDim adds an outer dimension, or merges it with the last one.
func addPlanDim(dims, at []int, d, stride int, join bool) ([]int, []int) {
	if n := len(dims); join && n > 0 {
		dims[n-1] *= d
		return dims, at
	}
	return append(dims, d), append(at, stride)
}

// planOffset returns the offset of element i of the given dimensions.
func planOffset(i int, dims, at []int) int {
	p := 0
	for k := len(dims) - 1; k >= 0; k-- {
		p += i % dims[k] * at[k]
		i /= dims[k]
	}
	return p
}
