package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
)

// squeezeConv removes before a Conv the axis of size 1 that a Squeeze removes from the result of
// the Conv:
//
//	Squeeze(Conv(Unsqueeze(X), W, B)) → Conv(X, Squeeze(W), B)
//
// Converters of TensorFlow's models write a convolution over one axis so. A bias and a function
// after the Squeeze can then be fused.
func squeezeConv(o *Options, g *ir.Graph) (int, error) {
	if !has[*ops.Squeeze](g) {
		return 0, nil
	}
	m := newMatcher(g)
	var nodes []*ir.Node
	edits := 0
	for _, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		made := m.squeezed(n)
		if made == nil {
			made = []*ir.Node{n}
		} else {
			edits++
		}
		nodes = append(nodes, made...)
	}
	if edits > 0 {
		g.Nodes = nodes
	}
	return edits, nil
}

// squeezed returns the nodes that compute n, a Squeeze of the result of a Conv, by a Squeeze of the
// Conv's input; nil for other nodes.
func (m *matcher) squeezed(n *ir.Node) []*ir.Node {
	g := m.g
	if _, ok := n.Op.(*ops.Squeeze); !ok {
		return nil
	}
	op, of := opOnly[*ops.Conv](m, n.In[0])
	if of == nil {
		return nil
	}
	shape := g.Values[of.In[0]].Type.Shape
	axis := soleAxis(g, n, len(shape))
	if axis < 2 || len(shape) < 4 {
		return nil
	}
	w, rank := constTensor(g, of, 1), len(shape)
	if w == nil || w.Rank() != rank || w.Dim(axis) != 1 {
		return nil
	}
	one, ok := without(&op.Window, axis-2, rank-2)
	narrow, err := w.Reshape(slices.Delete(slices.Clone(w.Shape()), axis, axis+1)...)
	if !ok || err != nil {
		return nil
	}
	c := *of
	c.Op, c.In, c.Out = &ops.Conv{Window: one, Group: op.Group}, slices.Clone(of.In), n.Out
	c.In[1] = g.NewConst("", narrow)
	if u := m.maker(of.In[0]); u != nil {
		if _, is := u.Op.(*ops.Unsqueeze); is && soleAxis(g, u, rank) == axis {
			c.In[0] = u.In[0]
			return []*ir.Node{&c}
		}
	}
	s := *n
	t := g.Values[of.In[0]].Type
	t.Shape = slices.Delete(slices.Clone(shape), axis, axis+1)
	s.In, s.Out = slices.Clone(n.In), []ir.ValueID{g.NewValue(g.Values[of.In[0]].Name+" (squeezed)", t)}
	s.In[0], c.In[0] = of.In[0], s.Out[0]
	return []*ir.Node{&s, &c}
}

// soleAxis returns the only axis that a Squeeze removes from a shape of some rank, or that an
// Unsqueeze inserts for it, −1 if there are others or it is unknown.
func soleAxis(g *ir.Graph, n *ir.Node, rank int) int {
	axes := constTensor(g, n, 1)
	if axes == nil || axes.Len() != 1 {
		return -1
	}
	axis, err := kit.NormalAxis(kit.Ints(axes)[0], rank)
	if err != nil {
		return -1
	}
	return axis
}

// without returns a window over n axes without one of them. It reports whether the window has one
// element there and moves by one, so that the axis keeps its size.
func without(w *window.Window, axis, n int) (window.Window, bool) {
	before, after := w.PadsOf(axis, n)
	if before != 0 || after != 0 || w.Stride(axis) != 1 || len(w.Kernel) > 0 && w.Kernel[axis] != 1 {
		return window.Window{}, false
	}
	r := *w
	for _, list := range []*[]int{&r.Kernel, &r.Strides, &r.Dilations} {
		if len(*list) > 0 {
			*list = slices.Delete(slices.Clone(*list), axis, axis+1)
		}
	}
	if len(r.Pads) > 0 {
		r.Pads = slices.Delete(slices.Clone(r.Pads), n+axis, n+axis+1)
		r.Pads = slices.Delete(r.Pads, axis, axis+1)
	}
	return r, true
}
