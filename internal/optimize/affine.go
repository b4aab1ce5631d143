package optimize

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/tensor"
)

// affine turns the functions of [channelFunction] into a ChannelAffine. After convolutions, where a
// ChannelAffine is fused, arithmetic with one constant for all channels becomes one too.
func affine(o *Options, g *ir.Graph) (int, error) {
	if o.portable() && o.Opset < 9 {
		return 0, nil // BatchNormalization, as which it is written, has other attributes
	}
	edits := 0
	near := map[ir.ValueID]bool{} // results of convolutions and of functions of them
	for _, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		from := ir.None
		scalars := slices.ContainsFunc(n.In, func(id ir.ValueID) bool { return near[id] })
		if a, x := channelFunction(g, n, scalars); a != nil {
			n.Op, n.Sig, n.In = a, nil, []ir.ValueID{x}
			edits++
			from = x
		} else if len(n.In) > 0 && vectorKernel(g, n) != nil {
			from = n.In[0]
		}
		if from != ir.None && near[from] || convOf(g, n) != nil {
			near[n.Out[0]] = true
		}
	}
	return edits, nil
}

// channelFunction returns the function x·scale + shift, with one scale and shift per channel, that
// a node computes of its input x, or nil. It knows arithmetic with one constant per channel, and
// BatchNormalization of float32 with constant statistics:
//
//	scale = gamma / sqrt(variance + epsilon)
//	shift = beta − mean·scale
//
// With scalars it also knows arithmetic with one constant for all channels.
func channelFunction(g *ir.Graph, n *ir.Node, scalars bool) (a *blocked.ChannelAffine, x ir.ValueID) {
	if a, x := channelOperand(g, n, scalars); a != nil {
		return a, x
	}
	bn, ok := n.Op.(*ops.BatchNormalization)
	if !ok || bn.Training || !bn.Spatial || len(n.Out) != 1 || !isFloat(g, n.In[0]) {
		return nil, ir.None
	}
	var p [4][]float64
	for i := range p {
		if t := constTensor(g, n, 1+i); t != nil {
			p[i], _ = tensor.Float64s(t)
		}
	}
	c := len(p[0])
	if c == 0 || len(p[1]) != c || len(p[2]) != c || len(p[3]) != c {
		return nil, ir.None
	}
	a = &blocked.ChannelAffine{Scale: make([]float32, c), Shift: make([]float32, c)}
	for i := range c {
		s := p[0][i] / math.Sqrt(p[3][i]+float64(bn.Epsilon))
		a.Scale[i], a.Shift[i] = float32(s), float32(p[1][i]-p[2][i]*s)
	}
	return a, n.In[0]
}

// maxChannels limits the constants that are made of one.
const maxChannels = 1 << 16

func channelOperand(g *ir.Graph, n *ir.Node, scalars bool) (*blocked.ChannelAffine, ir.ValueID) {
	if len(n.In) != 2 || len(n.Out) != 1 || n.In[0] == ir.None || n.In[1] == ir.None || n.Out[0] == ir.None ||
		!isFloat(g, n.Out[0]) {
		return nil, ir.None
	}
	for i := range n.In {
		k := constTensor(g, n, i)
		if k == nil {
			continue
		}
		x := n.In[1-i]
		s := g.Values[x].Type.Shape
		if scalars && k.Len() == 1 && k.DType() == tensor.TypeFloat32 && len(s) >= max(3, k.Rank()) && n.Opset >= 7 {
			if c, ok := s[1].Value(); ok && c <= maxChannels {
				shape := slices.Repeat([]int{1}, len(s)-1)
				shape[0] = c
				k = tensor.Must(tensor.New(slices.Repeat(tensor.MustData[float32](k), c), shape...))
			}
		}
		if a := blocked.ChannelOperand(n.Op, s, k, i == 1); a != nil {
			return a, x
		}
	}
	return nil, ir.None
}
