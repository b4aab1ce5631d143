package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
)

// dropExpand lets arithmetic broadcast an input instead of an Expand:
//
//	X · Expand(S, shape of X) → X · S
//
// where another input has the shape of the result. PyTorch code calls expand_as in squeeze and
// excitation, and an image of equal elements per channel cannot be scaled in the blocked layout.
func dropExpand(o *Options, g *ir.Graph) (int, error) {
	if !has[*ops.Expand](g) {
		return 0, nil
	}
	producer := g.Producers()
	edits := 0
	for _, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		switch n.Op.(type) {
		case *ops.Add, *ops.Sub, *ops.Mul, *ops.Div, *ops.Where:
		default:
			continue
		}
		if n.Domain == "" && n.Opset < 7 || n.Out[0] == ir.None {
			continue
		}
		for i, id := range n.In {
			if producer[id] < 0 {
				continue
			}
			e := g.Nodes[producer[id]]
			if _, ok := e.Op.(*ops.Expand); !ok || g.Values[e.In[0]].Type.Shape == nil ||
				!slices.ContainsFunc(slices.Delete(slices.Clone(n.In), i, i+1),
					func(id ir.ValueID) bool { return sameShape(g, id, n.Out[0]) }) {
				continue
			}
			n.In = slices.Clone(n.In)
			n.In[i] = e.In[0]
			edits++
		}
	}
	return edits, nil
}
