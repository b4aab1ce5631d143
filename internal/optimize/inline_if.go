package optimize

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/tensor"
)

// inlineIf replaces each If whose condition is constant by the nodes of the branch that it runs.
// The other branch may be one that cannot run and whose values have no types, so later passes
// must not see it.
func inlineIf(o *Options, g *ir.Graph) (int, error) {
	subst := map[ir.ValueID]ir.ValueID{}
	edits := 0
	kept := make([]*ir.Node, 0, len(g.Nodes))
	for _, n := range g.Nodes {
		op, ok := n.Op.(*ops.If)
		cond := constTensor(g, n, 0)
		if !ok || cond == nil || cond.DType() != tensor.TypeBool || cond.Len() != 1 {
			kept = append(kept, n)
			continue
		}
		branch := op.Else
		if tensor.MustData[bool](cond)[0] {
			branch = op.Then
		}
		s := n.Graphs[branch]
		to := moveValues(g, s)
		kept = append(kept, s.Nodes...)
		for i, id := range n.Out {
			if id != ir.None {
				subst[id] = to(s.Outputs[i])
			}
		}
		edits++
	}
	g.Nodes = kept
	replace(g, subst)
	return edits, nil
}

// moveValues moves the values of a subgraph without inputs to g, changes the subgraph's nodes, and
// returns the function that maps old ids to new ones. Captures become the captured values.
func moveValues(g, s *ir.Graph) func(ir.ValueID) ir.ValueID {
	first := ir.ValueID(len(g.Values))
	g.Values = append(g.Values, s.Values...)
	captured := map[ir.ValueID]ir.ValueID{}
	for _, c := range s.Captures {
		captured[c.Inner] = c.Outer
	}
	to := func(id ir.ValueID) ir.ValueID {
		if id == ir.None {
			return id
		}
		if outer, ok := captured[id]; ok {
			return outer
		}
		return first + id
	}
	for _, n := range s.Nodes {
		for i, id := range n.In {
			n.In[i] = to(id)
		}
		for i, id := range n.Out {
			n.Out[i] = to(id)
		}
		for _, inner := range n.Graphs {
			for i := range inner.Captures {
				inner.Captures[i].Outer = to(inner.Captures[i].Outer)
			}
		}
	}
	return to
}
