package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// mergeConvs computes the sum of linear branches over one image, of which at least one is a Conv
// with constant weights, as one Conv:
//
//	Conv(X, W₁) + Conv(X, W₂)             → Conv(X, W₁ + W₂)
//	Conv(X, W) ± ChannelAffine(X), ± X    → Conv(X, W ± a diagonal in the middle of the kernel)
//
// A smaller kernel is added where it reads the same pixels. Networks that are trained with
// parallel branches (RepVGG, https://arxiv.org/abs/2101.03697; MobileOne, FastViT) are
// often exported with them.
func mergeConvs(o *Options, g *ir.Graph) (int, error) {
	if !has[*ops.Conv](g) {
		return 0, nil
	}
	edits, err := rewrite(o, g, func(m *matcher, n *ir.Node) *ir.Node {
		if len(n.In) == 0 || !isFloat(g, n.Out[0]) {
			return nil
		}
		signs := [2]float32{1, 1}
		switch op := n.Op.(type) {
		case *blocked.ChannelAffine: // of merged convolutions; others have it in their weights
			c := m.only(n.In[0])
			if op.Act.Kind != kit.ActNone || c == nil {
				return nil
			}
			if c = scaleConv(g, c, op, m.uses); c != nil {
				c.Out = n.Out
			}
			return c
		case *ops.Sub:
			signs[1] = -1
		case *ops.Add:
		default:
			return nil
		}
		for i := range n.In {
			if c, ok := constConv(g, m.only(n.In[i])); ok && len(n.In) == 2 {
				if r := c.plus(m, n.In[1-i], signs[i], signs[1-i]); r != nil {
					r.Out = n.Out
					return r
				}
			}
		}
		return nil
	})
	if err == nil && edits > 0 {
		_, err = removeDead(o, g) // some have lost their weights
	}
	return edits, err
}

// convWeights is a Conv of float32 with constant weights.
type convWeights struct {
	node *ir.Node
	op   *ops.Conv
	w    *tensor.Tensor
	bias []float32 // or nil
}

func constConv(g *ir.Graph, n *ir.Node) (c convWeights, ok bool) {
	if convOf(g, n) == nil {
		return c, false
	}
	w, b := constTensor(g, n, 1), constTensor(g, n, 2)
	op, ok := n.Op.(*ops.Conv)
	if !ok || w == nil || w.Rank() < 3 || w.Len() == 0 || op.AutoPad != "" && op.AutoPad != "NOTSET" || len(n.In) > 2 &&
		n.In[2] != ir.None && b == nil {
		return c, false
	}
	c = convWeights{node: n, op: op, w: w}
	if b != nil {
		c.bias = tensor.MustData[float32](b)
	}
	return c, b == nil || len(c.bias) == w.Dim(0)
}

// plus returns a Conv that computes own times c plus times a value; nil if the value is no
// linear branch whose kernel fits in that of c. own and times are 1 or −1. Weights that nothing
// else uses change in place.
func (c *convWeights) plus(m *matcher, id ir.ValueID, own, times float32) *ir.Node {
	s, n := c.w.Shape(), c.w.Dim(0)
	x := c.node.In[0]
	small := make([]int, len(s)-2) // the kernel of the branch
	for i := range small {
		small[i] = 1
	}
	var window window.Window
	var weights, bias []float32
	diagonal := n == c.op.Group*s[1]
	switch b := m.only(id); {
	case id == x && diagonal && s[1] == 1:
		weights = slices.Repeat([]float32{1}, n)
	case b == nil || len(b.In) == 0 || b.In[0] != x:
		return nil
	default:
		if a, ok := b.Op.(*blocked.ChannelAffine); ok && diagonal && a.Act.Kind == kit.ActNone && len(a.Scale) == n {
			weights, bias = a.Scale, a.Shift
			break
		}
		o, ok := constConv(m.g, b)
		if !ok || o.op.Group != c.op.Group || !slices.Equal(o.w.Shape()[:2], s[:2]) || o.w.Rank() != len(s) {
			return nil
		}
		window, weights, bias, diagonal, small = o.op.Window, tensor.MustData[float32](o.w), o.bias,
			false, o.w.Shape()[2:]
	}
	offset := make([]int, len(small))
	for i, k := range small {
		before, after := c.op.PadsOf(i, len(small))
		b, a := window.PadsOf(i, len(small))
		offset[i] = before - b
		if spare := s[2+i] - k; offset[i] < 0 || offset[i] > spare || after-a != spare-offset[i] ||
			c.op.Stride(i) != window.Stride(i) ||
			c.op.Dilation(i) != window.Dilation(i) || spare > 0 && c.op.Dilation(i) != 1 {
			return nil
		}
	}
	sum, in := c.w, c.node.In[1]
	if !sole(m.g, m.uses, in) {
		sum = sum.Clone()
		in = m.g.NewConst(m.g.Values[in].Name, sum)
		m.g.Values[in].Owned = true
	}
	dst, taps := tensor.MustData[float32](sum), kit.Product(s[2:])
	if own < 0 {
		for i, v := range dst {
			dst[i] = -v
		}
	}
	at := make([]int, kit.Product(small)) // where each tap of the branch is added
	for tap := range at {
		rest, step := tap, 1
		for k := len(small) - 1; k >= 0; k-- {
			at[tap] += (rest%small[k] + offset[k]) * step
			rest /= small[k]
			step *= s[2+k]
		}
	}
	for plane := range len(weights) / len(at) {
		to := plane
		if diagonal {
			to = plane*s[1] + plane%s[1]
		}
		to *= taps
		for tap, v := range weights[plane*len(at):][:len(at)] {
			dst[to+at[tap]] += times * v
		}
	}
	shift := make([]float32, n)
	for i, v := range c.bias {
		shift[i] = own * v
	}
	for i, v := range bias {
		shift[i] += times * v
	}
	r := *c.node
	r.In = []ir.ValueID{x, in, m.g.NewConst("", tensor.Must(tensor.New(shift, n)))}
	return &r
}
