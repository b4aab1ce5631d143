package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/tensor"
)

// delayShuffle moves a channel shuffle behind the depthwise convolution that reads it, and permutes
// the channels of the convolution. If a pointwise convolution follows, it can read the channels in
// any order.
func delayShuffle(o *Options, g *ir.Graph) (int, error) {
	if !has[*blocked.ChannelShuffle](g) {
		return 0, nil
	}
	producer, uses := g.Producers(), g.Uses()
	edits := 0
	for i, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		var cv *ops.Conv
		switch op := n.Op.(type) {
		case *ops.Conv:
			cv = op
		case *ops.FusedConv:
			cv = &op.Conv
		default:
			continue
		}
		s := only(g, n.In[0], producer, uses)
		if s == nil || len(n.In) > 3 && n.In[3] != ir.None {
			continue
		}
		shuffle, ok := s.Op.(*blocked.ChannelShuffle)
		w, bias := constTensor(g, n, 1), constTensor(g, n, 2)
		if !ok || w == nil || w.DType() != tensor.TypeFloat32 || w.Rank() < 3 || w.Dim(1) != 1 ||
			w.Dim(0) != cv.Group || cv.Group%shuffle.Groups != 0 ||
			len(n.In) > 2 && n.In[2] != ir.None && (bias == nil || bias.Len() != cv.Group) {
			continue
		}
		order := shuffle.Order(cv.Group)
		c := *n
		c.In = slices.Clone(n.In)
		c.In[0] = s.In[0]
		for k, t := range []*tensor.Tensor{w, bias} {
			if t == nil {
				continue
			}
			p := permuted(t, order)
			id := g.NewValue(g.Values[n.In[k+1]].Name, g.Values[n.In[k+1]].Type)
			g.Values[id].Const = p
			c.In[k+1] = id
		}
		// The convolution now computes the value of the shuffle.
		c.Out = []ir.ValueID{s.Out[0]}
		g.Values[s.Out[0]].Type = g.Values[n.Out[0]].Type
		after := *s
		after.In, after.Out = []ir.ValueID{s.Out[0]}, n.Out
		g.Nodes[producer[s.Out[0]]], g.Nodes[i] = &c, &after
		producer[n.Out[0]] = i
		edits++
	}
	return edits, nil
}

// permuted returns t with slice i of its first axis moved to index order[i].
func permuted(t *tensor.Tensor, order []int) *tensor.Tensor {
	r := tensor.Must(tensor.Zeros(t.DType(), t.Shape()...))
	src, dst := t.Bytes(), r.Bytes()
	n := len(src) / len(order)
	for i, k := range order {
		copy(dst[k*n:][:n], src[i*n:][:n])
	}
	return r
}
