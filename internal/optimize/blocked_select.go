package optimize

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// mirrored plans a Pad that repeats rows and columns, if an operator reads it that may run blocked.
func (b *blocker) mirrored(n *ir.Node, op *ops.Pad, out image) *blockPlan {
	im, ok := b.imageOf(n.In[0])
	pads, axes := constTensor(b.g, n, 1), constTensor(b.g, n, 3)
	given := len(n.In) > 3 && n.In[3] != ir.None
	if !ok || !b.made[n.In[0]] || op.Mode == "constant" || pads == nil || given && axes == nil || im.rank < 3 ||
		!b.readBlocked(n.Out[:1]) {
		return nil
	}
	const most = 1 << 20 // rows or columns: their indices are kept
	if out.h > most || out.w > most {
		return nil
	}
	before, behind, err := ops.PadCounts(kit.Ints(pads), kit.Ints(axes), given, im.rank, 0)
	if err != nil || before[0] != 0 || behind[0] != 0 || before[1] != 0 || behind[1] != 0 {
		return nil
	}
	last := im.rank - 1
	rows, columns := between(0, im.h), op.Indices(im.w, before[last], behind[last])
	if im.rank == 4 {
		rows = op.Indices(im.h, before[2], behind[2])
	}
	if rows == nil || columns == nil {
		return nil
	}
	return selects(n.In[0], rows, columns)
}

// circular plans a Concat of images with Slices of them along the height or the width, as
// convolutions with circular padding are exported, if an operator reads it that may run blocked.
func (b *blocker) circular(n *ir.Node, op *ops.Concat, out image) *blockPlan {
	axis := op.Axis
	if axis < 0 {
		axis += out.rank
	}
	if axis < 2 || !b.readBlocked(n.Out[:1]) {
		return nil
	}
	var list []int
	var slices []*ir.Node
	from, s := ir.None, slicer{g: b.g}
	for _, id := range n.In {
		x, lo, hi := id, 0, -1
		if id != ir.None && b.producer[id] >= 0 {
			r := b.g.Nodes[b.producer[id]]
			if _, ok := r.Op.(*ops.Slice); ok {
				if a, first, end, ok := s.bounds(r); ok && a == axis {
					x, lo, hi = r.In[0], first, end
					if b.uses[id] == 1 {
						slices = append(slices, r)
					}
				}
			}
		}
		if x == ir.None || from != ir.None && x != from {
			return nil
		}
		from = x
		if im, ok := b.imageOf(x); !ok || !b.made[x] {
			return nil
		} else if hi < 0 {
			hi = im.w
			if axis < im.rank-1 {
				hi = im.h
			}
		}
		list = append(list, between(lo, hi)...)
	}
	for _, r := range slices {
		b.absorbed[r] = true
	}
	if axis < out.rank-1 {
		return selects(from, list, between(0, out.w))
	}
	return selects(from, between(0, out.h), list)
}

// sliced plans a Slice of blocked channels, as PyTorch exports chunk over free dimensions, if an
// operator reads it that may run blocked. The channels are groups of four, except at the end.
func (b *blocker) sliced(n *ir.Node) *blockPlan {
	s := slicer{g: b.g}
	axis, lo, hi, ok := s.bounds(n)
	im, known := b.imageOf(n.In[0])
	if !ok || !known || axis != 1 || !b.made[n.In[0]] || lo%4 != 0 || hi < im.c && (hi-lo)%4 != 0 ||
		!b.readBlocked(n.Out[:1]) {
		return nil
	}
	return &blockPlan{in: n.In[:1:1], make: func(in []blocked.Layout, out blocked.Layout) (ir.Operator, error) {
		return &blocked.Concat{In: in, Out: out, From: lo}, nil
	}}
}

// selects plans a node that reads rows and columns of x.
func selects(x ir.ValueID, rows, columns []int) *blockPlan {
	return &blockPlan{in: []ir.ValueID{x}, make: func(in []blocked.Layout, out blocked.Layout) (ir.Operator, error) {
		return &blocked.Select{In: in[0], Out: out, Rows: rows, Columns: columns}, nil
	}}
}

// between returns the integers from lo up to but excluding hi.
func between(lo, hi int) []int {
	r := make([]int, 0, max(hi-lo, 0))
	for i := lo; i < hi; i++ {
		r = append(r, i)
	}
	return r
}
