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
		if err := o.err(); err != nil {
			return 0, err
		}
		branch := constantBranch(g, n)
		if branch == nil {
			kept = append(kept, n)
			continue
		}
		kept = append(kept, branch.Nodes...)
		moveBranch(g, n, branch, subst)
		edits++
	}
	g.Nodes = kept
	replace(g, subst)
	return edits, nil
}

// constantBranch returns the branch that runs of an If whose condition is constant, or nil.
func constantBranch(g *ir.Graph, n *ir.Node) *ir.Graph {
	op, ok := n.Op.(*ops.If)
	cond := constTensor(g, n, 0)
	if !ok || cond == nil || cond.DType() != tensor.TypeBool || cond.Len() != 1 {
		return nil
	}
	if tensor.MustData[bool](cond)[0] {
		return n.Graphs[op.Then]
	}
	return n.Graphs[op.Else]
}

// moveBranch moves the values of a branch of an If to g, changes the branch's nodes, and adds the
// If's outputs to subst.
func moveBranch(g *ir.Graph, n *ir.Node, branch *ir.Graph, subst map[ir.ValueID]ir.ValueID) {
	to := moveValues(g, branch)
	for i, id := range n.Out {
		if id != ir.None {
			subst[id] = to(branch.Outputs[i])
		}
	}
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
