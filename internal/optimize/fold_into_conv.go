package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// foldIntoConv merges a BatchNormalization and arithmetic with one constant per channel into the
// constant weights and the bias of the Conv or ConvTranspose before it, as ONNX Runtime's basic
// optimizations do for Conv.
func foldIntoConv(o *Options, g *ir.Graph) (int, error) {
	producer := g.Producers()
	uses := g.Uses()
	dead := map[*ir.Node]bool{}
	for i, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		a, x := channelFunction(g, n, true)
		if a == nil || x == ir.None || uses[x] != 1 || producer[x] < 0 {
			continue
		}
		conv := g.Nodes[producer[x]]
		merged := scaleConv(g, conv, a, uses)
		if merged == nil {
			continue
		}
		merged.Out = n.Out
		g.Nodes[i] = merged
		dead[conv] = true
		producer[n.Out[0]] = i
	}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *ir.Node) bool { return dead[n] })
	return len(dead), nil
}

// scaleConv multiplies constant weights and bias by the affine function.
func scaleConv(g *ir.Graph, n *ir.Node, a *blocked.ChannelAffine, uses []int) *ir.Node {
	axis := 0 // of the channels in the weights
	switch op := n.Op.(type) {
	case *ops.Conv:
	case *ops.ConvTranspose:
		if axis = 1; op.Group != 1 {
			return nil
		}
	default:
		return nil
	}
	w := constTensor(g, n, 1)
	if len(n.Out) != 1 || !isFloat(g, n.Out[0]) || w == nil || w.Rank() < 3 || w.Dim(axis) != len(a.Scale) {
		return nil
	}
	m := w.Dim(axis)
	bias := make([]float32, m)
	if len(n.In) > 2 && n.In[2] != ir.None {
		b := constTensor(g, n, 2)
		if b == nil || b.Len() != m {
			return nil
		}
		copy(bias, tensor.MustData[float32](b))
	}
	scaled := w
	owned := sole(g, uses, n.In[1])
	if !owned {
		var err error
		if scaled, err = tensor.Zeros(tensor.TypeFloat32, w.Shape()...); err != nil {
			return nil
		}
	}
	src, dst := tensor.MustData[float32](w), tensor.MustData[float32](scaled)
	size := kit.Product(w.Shape()[axis+1:])
	for at := 0; at < len(src); at += size {
		s := float64(a.Scale[at/size%m])
		for j := range size {
			dst[at+j] = float32(float64(src[at+j]) * s)
		}
	}
	for i, v := range bias {
		bias[i] = float32(float64(v)*float64(a.Scale[i]) + float64(a.Shift[i]))
	}
	b, err := tensor.New(bias, m)
	if err != nil {
		return nil
	}
	if owned {
		g.Values[n.In[1]].Const = nil // the contents change
	}
	c := *n
	c.In = []ir.ValueID{n.In[0], g.NewConst(g.Values[n.In[1]].Name, scaled), g.NewConst("", b)}
	g.Values[c.In[1]].Owned = true
	return &c
}
