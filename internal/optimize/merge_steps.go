package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// mergeSteps merges products of slices of one tensor with the same constant weights into one
// product of the whole tensor, if they read at least half of it:
//
//	MatMul(Gather(X, 0), W), MatMul(Gather(X, 1), W), … → Gather(Y, 0), Gather(Y, 1), … of Y = Linear(X)
//
// The steps of an unrolled recurrent cell are such products. Each would read the weights again.
func mergeSteps(o *Options, g *ir.Graph) (int, error) {
	if !has[*ops.Gather](g) {
		return 0, nil
	}
	m := newMatcher(g)
	groups := map[step][]int{} // indices of the products
	var order []step
	for i, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		if s, ok := m.stepOf(n); ok {
			if groups[s] == nil {
				order = append(order, s)
			}
			groups[s] = append(groups[s], i)
		}
	}
	edits := 0
	added := map[int][]*ir.Node{} // by the index of the node that follows
	free := constants{g: g, uses: m.uses}
	for _, s := range order {
		steps := groups[s]
		n := g.Nodes[steps[0]]
		shape := g.Values[s.x].Type.Shape
		if size, known := shape[s.axis].Value(); len(steps) < 2 || !known || len(steps) < size-len(steps) {
			continue
		}
		all := linearOf(m, n, o.Packs)
		if all == nil {
			continue
		}
		y := g.Values[n.Out[0]]
		y.Type.Shape = append(slices.Clone(shape[:len(shape)-1]), y.Type.Shape[len(y.Type.Shape)-1])
		all.In, all.Out = []ir.ValueID{s.x}, []ir.ValueID{g.NewValue(y.Name+" (all steps)", y.Type)}
		first := len(g.Nodes)
		for _, i := range steps {
			n := g.Nodes[i]
			first = min(first, m.producer[n.In[0]])
			gather := m.maker(n.In[0])
			for _, id := range n.In {
				if id != ir.None {
					m.uses[id]--
					free.unused(id)
				}
			}
			g.Nodes[i] = &ir.Node{Name: n.Name, OpType: gather.OpType, Opset: gather.Opset, Op: gather.Op,
				In: []ir.ValueID{all.Out[0], gather.In[1]}, Out: n.Out}
		}
		added[first] = append(added[first], all)
		edits++
	}
	if edits == 0 {
		return 0, nil
	}
	var nodes []*ir.Node
	for i, n := range g.Nodes {
		nodes = append(append(nodes, added[i]...), n)
	}
	g.Nodes = nodes
	return edits, nil
}

// step identifies products that are merged: equal but for the index along an axis of x.
type step struct {
	x, weights, bias ir.ValueID
	axis             int
	gemm             ops.Gemm // of a Gemm, else zero
}

// stepOf returns the group of a product of one slice.
func (m *matcher) stepOf(n *ir.Node) (s step, ok bool) {
	switch op := n.Op.(type) {
	case *ops.Gemm:
		s.gemm = *op
	case *ops.MatMul:
	default:
		return s, false
	}
	from := m.maker(n.In[0])
	if from == nil || !isFloat(m.g, n.In[0]) || !isFloat(m.g, n.Out[0]) {
		return s, false
	}
	gather, ok := from.Op.(*ops.Gather)
	if !ok {
		return s, false
	}
	s.x, s.weights, s.bias = from.In[0], n.In[1], ir.None
	if len(n.In) > 2 {
		s.bias = n.In[2]
	}
	rank := len(m.g.Values[s.x].Type.Shape)
	axis, err := kit.NormalAxis(gather.Axis, rank)
	index := constTensor(m.g, from, 1)
	s.axis = axis
	return s, err == nil && axis < rank-1 && index != nil && index.Rank() == 0 &&
		len(m.g.Values[n.Out[0]].Type.Shape) == rank-1
}
