package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/tensor"
)

// removeIdentity removes operators that return their input: Identity, Dropout outside of training
// mode, Cast to the same type, Mul and Div by ones, Slice of everything, Expand and Tile to the
// same shape, Pad by nothing, Concat of one input, and Resize to the same sizes.
func removeIdentity(o *Options, g *ir.Graph) (int, error) {
	isOutput := outputs(g)
	uses := g.Uses()
	subst := map[ir.ValueID]ir.ValueID{}
	kept := g.Nodes[:0:0]
	for _, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		if len(n.Out) > 0 && n.Out[0] != ir.None && !isOutput[n.Out[0]] {
			if i := passesOn(g, n, uses); i >= 0 {
				subst[n.Out[0]] = n.In[i]
				continue
			}
		}
		kept = append(kept, n)
	}
	g.Nodes = kept
	replace(g, subst)
	return len(subst), nil
}

// passesOn returns the number of the input that a node returns, or -1.
func passesOn(g *ir.Graph, n *ir.Node, uses []int) int {
	ok := false
	switch op := n.Op.(type) {
	case *ops.Identity:
		ok = g.Values[n.In[0]].Type.Kind == g.Values[n.Out[0]].Type.Kind
	case *ops.Dropout:
		ok = len(n.In) < 3 && (len(n.Out) < 2 || n.Out[1] == ir.None || uses[n.Out[1]] == 0)
	case *ops.Cast:
		x, y := g.Values[n.In[0]].Type, g.Values[n.Out[0]].Type
		ok = x.Kind == tensor.KindTensor && x.Elem == y.Elem
	case *ops.Mul:
		if ones(g, n, 0) {
			return 1
		}
		ok = ones(g, n, 1)
	case *ops.Div:
		ok = ones(g, n, 1)
	case *ops.Slice:
		ok = sameShape(g, n.In[0], n.Out[0]) && (len(n.In) < 5 || n.In[4] == ir.None || all(g, n, 4, 1))
	case *ops.Expand, *ops.Tile:
		ok = sameShape(g, n.In[0], n.Out[0])
	case *ops.Pad:
		ok = sameShape(g, n.In[0], n.Out[0]) && all(g, n, 1, 0)
	case *ops.Concat:
		ok = len(n.In) == 1
	case *ops.Resize:
		ok = sameShape(g, n.In[0], n.Out[0]) && op.Coordinates != "tf_crop_and_resize" && op.KeepAspect == "stretch" &&
			(sized(g, n, op) || all(g, n, op.ScalesInput, 1))
	}
	if ok {
		return 0
	}
	return -1
}

// sized reports whether sizes, not scales, determine the result of a Resize.
func sized(g *ir.Graph, n *ir.Node, op *ops.Resize) bool {
	if len(n.In) < 4 || n.In[3] == ir.None || op.ScalesInput != 2 {
		return false
	}
	s := g.Values[n.In[3]].Type.Shape
	return len(s) == 1 && s[0].IsKnown() && !s[0].Is(0)
}

// ones reports whether input i of two is a constant of ones that leaves the shape of the other.
func ones(g *ir.Graph, n *ir.Node, i int) bool {
	return sameShape(g, n.In[1-i], n.Out[0]) && all(g, n, i, 1)
}

// all reports whether input i is a constant that repeats a number.
func all(g *ir.Graph, n *ir.Node, i int, number float64) bool {
	t := constTensor(g, n, i)
	if t == nil || t.Len() > maxChannels {
		return false
	}
	v, err := tensor.Float64s(t)
	return err == nil && !slices.ContainsFunc(v, func(v float64) bool { return v != number })
}

// outputs returns, for each value, whether it is a graph output.
func outputs(g *ir.Graph) []bool {
	r := make([]bool, len(g.Values))
	for _, id := range g.Outputs {
		r[id] = true
	}
	return r
}

// constTensor returns input i of a node if it is a constant tensor, else nil. Inlined into its many
// callers, it would take kilobytes.
//
//go:noinline
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
