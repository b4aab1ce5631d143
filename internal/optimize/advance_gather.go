package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// advanceGather moves a Gather with constant indices in front of operators that compute each index
// of its axis by itself. They then compute only what it selects: a classifier that reads the first
// token needs no other token of the last layer's queries, feed-forward network and normalizations.
//
//	Gather(Linear(X), 7) → Gather(Linear(Gather(X, [7])), 0)
//
// An operator whose result has other readers stays in front of the Gather.
func advanceGather(o *Options, g *ir.Graph) (int, error) {
	if !has[*ops.Gather](g) {
		return 0, nil
	}
	a := &gatherAdvance{matcher: newMatcher(g), demands: map[ir.ValueID][]demand{}, added: map[int][]*ir.Node{}}
	for i, n := range slices.Backward(g.Nodes) {
		if err := o.err(); err != nil {
			return 0, err
		}
		if len(n.Out) == 0 || n.Out[0] == ir.None {
			continue
		}
		if d := a.demands[n.Out[0]]; len(d) > 0 && !a.advance(i, d) {
			a.gather(i, n.Out[0])
		}
		if op, ok := n.Op.(*ops.Gather); ok {
			a.start(i, op)
		}
	}
	if a.edits == 0 {
		return 0, nil
	}
	for id := range ir.ValueID(len(a.producer)) {
		if a.producer[id] < 0 {
			a.gather(-1, id)
		}
	}
	nodes := a.added[-1]
	for i, n := range g.Nodes {
		nodes = append(append(nodes, n), a.added[i]...)
	}
	g.Nodes = nodes
	return a.edits, nil
}

type gatherAdvance struct {
	*matcher
	demands map[ir.ValueID][]demand
	added   map[int][]*ir.Node // nodes to insert, by the index of the node before them
	edits   int
}

// demand is an input that needs some indices of a value only.
type demand struct {
	axis    int
	name    string         // of the first Gather
	indices *tensor.Tensor // its constant
	user    int            // index of the node
	input   int
	first   bool // the user is the first Gather itself
}

func (d demand) same(e demand) bool {
	return d.axis == e.axis && d.indices.DType() == e.indices.DType() &&
		slices.Equal(d.indices.Bytes(), e.indices.Bytes())
}

func (a *gatherAdvance) shape(id ir.ValueID) []ir.Dim { return a.g.Values[id].Type.Shape }

// start adds the demand of a Gather that selects at most half of the indices of its axis, and that
// can pass a product.
func (a *gatherAdvance) start(i int, op *ops.Gather) {
	n := a.g.Nodes[i]
	indices, s := constTensor(a.g, n, 1), a.shape(n.In[0])
	axis, err := kit.NormalAxis(op.Axis, len(s))
	if indices == nil || err != nil {
		return
	}
	if size, known := s[axis].Value(); indices.Len() == 0 || known && indices.Len() > size/2 || !known &&
		indices.Len() > 1 {
		return
	}
	if a.uses[n.In[0]] == 1 && a.pays(n.In[0], axis) {
		a.demands[n.In[0]] = append(a.demands[n.In[0]], demand{axis, n.Name, indices, i, 0, true})
	}
}

// pays reports whether a Gather can be moved in front of the product that computes id, perhaps with
// operators between.
func (a *gatherAdvance) pays(id ir.ValueID, axis int) bool {
	type place struct {
		id   ir.ValueID
		axis int
	}
	// A list instead of recursion: the file determines how many operators are between.
	for todo := []place{{id, axis}}; len(todo) > 0; {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		n := a.maker(p.id)
		if n == nil {
			continue
		}
		axes := a.axes(n, p.axis)
		switch n.Op.(type) {
		case *blocked.Linear, *blocked.Attention:
			if axes != nil {
				return true
			}
			continue
		}
		for k, axis := range axes {
			if axis >= 0 && a.uses[n.In[k]] == 1 {
				todo = append(todo, place{n.In[k], axis})
			}
		}
	}
	return false
}

// axes returns, for each input of a node, the axis of which the indices of its result along an axis
// need the same indices; −1 for an input that they need whole. It is nil if there are no such axes.
func (a *gatherAdvance) axes(n *ir.Node, axis int) []int {
	s := a.shape(n.Out[0])
	if len(n.In) == 0 || n.In[0] == ir.None || s == nil || slices.ContainsFunc(n.Out[1:], func(id ir.ValueID) bool {
		return id != ir.None && a.uses[id] > 0
	}) {
		return nil
	}
	axes := slices.Repeat([]int{-1}, len(n.In))
	x := a.shape(n.In[0])
	normalized := func(first int) []int {
		first, err := kit.NormalAxis(first, len(s))
		if err != nil || axis >= first || len(x) != len(s) {
			return nil
		}
		for _, id := range n.In[1:] {
			if id != ir.None && (a.shape(id) == nil || len(a.shape(id)) > len(s)-first) {
				return nil
			}
		}
		axes[0] = axis
		return axes
	}
	switch op := n.Op.(type) {
	case *blocked.Linear:
		if axis == len(s)-1 || len(x) != len(s) {
			return nil
		}
		axes[0] = axis
		if op.HasAdd {
			axes[len(axes)-1] = axis
		}
		return axes
	case *ops.LayerNormalization:
		return normalized(op.Axis)
	case *ops.RMSNormalization:
		return normalized(op.Axis)
	case *blocked.Attention:
		rows := len(s) - 2 // the axis of queries in scores
		if op.PermY[axis] != rows {
			return nil
		}
		axes[0] = op.PermQ[rows]
		if len(n.In) > 3 && n.In[3] != ir.None {
			return a.broadcast(axes, n.In, 3, len(s), rows, s[axis])
		}
		return axes
	case *ops.Transpose:
		axes[0] = len(s) - 1 - axis
		if op.Perm != nil {
			axes[0] = op.Perm[axis]
		}
		return axes
	case *ops.Reshape:
		if len(x) <= axis || !sameDims(x[:axis+1], s[:axis+1], axis+1) || shapeBehind(s, axis) == nil {
			return nil
		}
		axes[0] = axis
		return axes
	}
	if d := definition(n); d != nil && d.Elementwise && (n.Domain != "" || n.Opset >= 7) {
		return a.broadcast(axes, n.In, 0, len(s), axis, s[axis])
	}
	return nil
}

// broadcast sets the axes of inputs from the index first on, which broadcast to a shape of a rank
// that has a dimension at axis.
func (a *gatherAdvance) broadcast(axes []int, in []ir.ValueID, first, rank, axis int, dim ir.Dim) []int {
	for k, id := range in {
		if k < first || id == ir.None {
			continue
		}
		s := a.shape(id)
		at := axis - rank + len(s)
		switch {
		case s == nil || at >= 0 && !s[at].Same(dim) && !s[at].Is(1):
			return nil
		case at >= 0 && s[at].Same(dim):
			axes[k] = at
		}
	}
	return axes
}

// shapeBehind returns the input of a Reshape to s that keeps the dimensions up to an axis; nil if
// more than one of the others is unknown.
func shapeBehind(s []ir.Dim, axis int) *tensor.Tensor {
	r := make([]int64, len(s))
	unknown := 0
	for i, d := range s {
		if v, known := d.Value(); i > axis && known {
			r[i] = int64(v)
		} else if i > axis {
			r[i] = -1
			unknown++
		}
	}
	if unknown > 1 || slices.Contains(r[axis+1:], 0) {
		return nil
	}
	return tensor.Must(tensor.New(r, len(r)))
}

// advance makes node i compute only what all readers of its result demand, and reports whether it
// can.
func (a *gatherAdvance) advance(i int, demands []demand) bool {
	n, first := *a.g.Nodes[i], demands[0]
	if len(demands) != a.uses[n.Out[0]] || slices.ContainsFunc(demands, func(d demand) bool { return !d.same(first) }) {
		return false
	}
	axes := a.axes(&n, first.axis)
	if axes == nil {
		return false
	}
	out := a.gathered(n.Out[0], first)
	for _, d := range demands {
		user := *a.g.Nodes[d.user]
		user.In = slices.Clone(user.In)
		user.In[d.input] = out
		if d.first { // it now selects all, in the shape of its indices
			all := make([]int64, first.indices.Len())
			for k := range all {
				all[k] = int64(k)
			}
			user.In[1] = a.g.NewConst("", tensor.Must(tensor.New(all, d.indices.Shape()...)))
		}
		a.g.Nodes[d.user] = &user
	}
	n.In, n.Out = slices.Clone(n.In), slices.Clone(n.Out)
	n.Out[0] = out
	if _, ok := n.Op.(*ops.Reshape); ok {
		n.Op, n.In[1] = &ops.Reshape{}, a.g.NewConst("", shapeBehind(a.shape(out), first.axis))
	}
	for k, axis := range axes {
		if axis >= 0 {
			a.demands[n.In[k]] = append(a.demands[n.In[k]], demand{axis, first.name, first.indices, i, k, false})
		}
	}
	a.g.Nodes[i] = &n
	a.edits++
	return true
}

// gathered makes a value for what a demand needs of value id.
func (a *gatherAdvance) gathered(id ir.ValueID, d demand) ir.ValueID {
	v := a.g.Values[id]
	v.Type.Shape = slices.Clone(v.Type.Shape)
	v.Type.Shape[d.axis] = ir.Known(d.indices.Len())
	return a.g.NewValue(v.Name+" (gathered)", v.Type)
}

// gather inserts a Gather behind node i for each group of equal demands of its result id.
func (a *gatherAdvance) gather(i int, id ir.ValueID) {
	demands := slices.DeleteFunc(a.demands[id], func(d demand) bool { return d.first })
	for len(demands) > 0 {
		d := demands[0]
		to := a.gathered(id, d)
		indices := a.g.NewConst("", tensor.Must(d.indices.Reshape(d.indices.Len())))
		a.added[i] = append(a.added[i],
			&ir.Node{Name: d.name, OpType: "Gather", Opset: 13, Op: &ops.Gather{Axis: d.axis},
				In: []ir.ValueID{id, indices}, Out: []ir.ValueID{to}})
		demands = slices.DeleteFunc(demands, func(e demand) bool {
			if e.same(d) {
				a.g.Nodes[e.user].In[e.input] = to
			}
			return e.same(d)
		})
	}
}
