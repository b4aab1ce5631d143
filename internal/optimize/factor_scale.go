package optimize

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/tensor"
)

// factorScale replaces x + x·s by x·(s + 1), where s has one element per channel of an image x, as
// in squeeze-and-excitation with a residual. The sum reads few elements instead of two images.
func factorScale(o *Options, g *ir.Graph) (int, error) {
	if !has[*ops.Mul](g) {
		return 0, nil
	}
	m := newMatcher(g)
	var nodes []*ir.Node
	edits := 0
	for _, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		if _, ok := n.Op.(*ops.Add); ok && n.Opset >= 7 && len(n.In) == 2 && isFloat(g, n.Out[0]) {
			if p, x, s := scaledResidual(m, n); p != nil {
				sum := g.NewValue(g.Values[s].Name+" (plus one)", g.Values[s].Type)
				add, mul := *n, *p
				add.In = []ir.ValueID{s, g.NewConst("", tensor.Scalar(float32(1)))}
				add.Out = []ir.ValueID{sum}
				mul.In, mul.Out = []ir.ValueID{x, sum}, n.Out
				nodes = append(nodes, &add, &mul)
				edits++
				continue
			}
		}
		nodes = append(nodes, n)
	}
	g.Nodes = nodes
	return edits, nil
}

// scaledResidual matches x + p in any order, where p is the node of x·s.
func scaledResidual(m *matcher, n *ir.Node) (p *ir.Node, x, s ir.ValueID) {
	for i, x := range n.In {
		_, p := opOnly[*ops.Mul](m, n.In[1-i])
		if p == nil || p.Opset < 7 || x == ir.None {
			continue
		}
		s := other(p, x)
		if s == ir.None || !isFloat(m.g, s) {
			continue
		}
		image, each := m.g.Values[x].Type.Shape, m.g.Values[s].Type.Shape
		if len(image) == 4 && len(each) == 4 && each[1].Same(image[1]) && isOne(each[2]) && isOne(each[3]) &&
			(each[0].Same(image[0]) || isOne(each[0])) && !(isOne(image[2]) && isOne(image[3])) {
			return p, x, s
		}
	}
	return nil, ir.None, ir.None
}

func isOne(d ir.Dim) bool { return d.Same(ir.Known(1)) }
