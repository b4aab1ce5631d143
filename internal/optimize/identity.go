package optimize

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/tensor"
)

// removeIdentity removes operators that return their input: Identity, Dropout outside of training
// mode, and Cast to the same type.
func removeIdentity(o *Options, g *ir.Graph) (int, error) {
	isOutput := outputs(g)
	uses := g.Uses()
	subst := map[ir.ValueID]ir.ValueID{}
	kept := g.Nodes[:0:0]
	for _, n := range g.Nodes {
		if len(n.Out) > 0 && n.Out[0] != ir.None && !isOutput[n.Out[0]] && passesOn(g, n, uses) {
			subst[n.Out[0]] = n.In[0]
			continue
		}
		kept = append(kept, n)
	}
	g.Nodes = kept
	replace(g, subst)
	return len(subst), nil
}

func passesOn(g *ir.Graph, n *ir.Node, uses []int) bool {
	switch n.Op.(type) {
	case *ops.Identity:
		return g.Values[n.In[0]].Type.Kind == g.Values[n.Out[0]].Type.Kind
	case *ops.Dropout:
		return len(n.In) < 3 && (len(n.Out) < 2 || n.Out[1] == ir.None || uses[n.Out[1]] == 0)
	case *ops.Cast:
		x, y := g.Values[n.In[0]].Type, g.Values[n.Out[0]].Type
		return x.Kind == tensor.KindTensor && x.Elem == y.Elem
	}
	return false
}

// outputs returns, for each value, whether it is a graph output.
func outputs(g *ir.Graph) []bool {
	r := make([]bool, len(g.Values))
	for _, id := range g.Outputs {
		r[id] = true
	}
	return r
}

// constTensor returns input i of a node if it is a constant tensor, else nil.
func constTensor(g *ir.Graph, n *ir.Node, i int) *tensor.Tensor {
	if i >= len(n.In) || n.In[i] == ir.None {
		return nil
	}
	t, _ := g.Values[n.In[i]].Const.(*tensor.Tensor)
	return t
}

// isFloat reports whether a value is a tensor of float32.
func isFloat(g *ir.Graph, id ir.ValueID) bool {
	t := g.Values[id].Type
	return t.Kind == tensor.KindTensor && t.Elem == tensor.TypeFloat32
}
