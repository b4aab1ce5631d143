package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
)

// depthwiseNHWC computes a depthwise Conv between Transposes without them, and the function that
// follows, if the convolution keeps the size of images:
//
//	Gelu(Transpose(Conv(Transpose(X, perm=[0,3,1,2]), W, B), perm=[0,2,3,1])) → DepthwiseNHWC(X, W, B)
//
// and for tokens, with Reshapes to images and back:
//
//	Transpose(Reshape(Conv(Reshape(Transpose(X), S), W, B)), perm=[0,2,1]) → DepthwiseNHWC(X, W, B, S)
func depthwiseNHWC(o *Options, g *ir.Graph) (int, error) {
	if !has[*ops.Transpose](g) {
		return 0, nil
	}
	return rewrite(o, g, func(m *matcher, n *ir.Node) *ir.Node {
		if t, ok := n.Op.(*ops.Transpose); ok {
			return m.depthwiseBefore(n, t.Perm)
		}
		if len(n.In) == 0 {
			return nil
		}
		d, prev := opOnly[*blocked.DepthwiseNHWC](m, n.In[0])
		if prev == nil || d.Then != nil {
			return nil
		}
		if fn := vectorKernel(g, n); fn != nil && sameShape(g, n.In[0], n.Out[0]) {
			return replaced(n, "DepthwiseNHWC", d.WithThen(fn), prev.In...)
		}
		return nil
	})
}

// depthwiseBefore returns the convolution whose result n transposes by perm; nil if it is not
// supported.
func (m *matcher) depthwiseBefore(n *ir.Node, perm []int) *ir.Node {
	g, id, back, tokens := m.g, n.In[0], toNCHW, slices.Equal(perm, []int{0, 2, 1})
	if tokens {
		_, r := opOnly[*ops.Reshape](m, id)
		if r == nil {
			return nil
		}
		id, back = r.In[0], perm
	} else if !slices.Equal(perm, toNHWC) {
		return nil
	}
	c := m.only(id)
	f := sizeKept(g, c)
	if f == nil {
		return nil
	}
	d := &blocked.DepthwiseNHWC{Conv: *f}
	in := append(withInputs(c, 3)[:3:3], ir.None)
	if tokens {
		r := m.maker(in[0])
		if r == nil {
			return nil
		}
		op, ok := r.Op.(*ops.Reshape)
		if !ok {
			return nil
		}
		d.Tokens = op
		in[0], in[3] = r.In[0], r.In[1]
	}
	t := m.maker(in[0])
	if t == nil {
		return nil
	}
	if op, ok := t.Op.(*ops.Transpose); !ok || !slices.Equal(op.Perm, back) {
		return nil
	}
	in[0] = t.In[0]
	x, y, image := g.Values[in[0]].Type.Shape, g.Values[n.Out[0]].Type.Shape, g.Values[c.In[0]].Type.Shape
	if channels := ir.Known(f.Group); tokens && (len(x) != 3 || len(y) != 3 || len(image) != 4 ||
		!x[0].Same(image[0]) || !x[0].Same(y[0]) || !x[2].Same(channels) || !y[2].Same(channels)) {
		return nil
	}
	return replaced(n, "DepthwiseNHWC", d, in...)
}

// sizeKept returns the depthwise convolution of a node, with constant weights and at least one
// block of channels, if its result has the shape of its input; otherwise nil.
func sizeKept(g *ir.Graph, n *ir.Node) *ops.FusedConv {
	if n == nil || len(n.In) > 3 && n.In[3] != ir.None || !isFloat(g, n.Out[0]) {
		return nil
	}
	const block, most = 16, 64 // channels, pixels of padding
	var f ops.FusedConv
	switch op := n.Op.(type) {
	case *ops.Conv:
		f.Conv = *op
	case *ops.FusedConv:
		f = *op
	default:
		return nil
	}
	w, b := constTensor(g, n, 1), constTensor(g, n, 2)
	if w == nil || w.Rank() != 4 || w.Dim(0) != f.Group || w.Dim(1) != 1 || f.Group < block ||
		len(n.In) > 2 && n.In[2] != ir.None && b == nil {
		return nil
	}
	for i, k := range w.Shape()[2:] {
		reach := (k - 1) * f.Dilation(i)
		before, after := f.PadsOf(i, 2)
		if f.Stride(i) != 1 || k == 0 || reach > most || f.AutoPad == "VALID" ||
			f.AutoPad == "NOTSET" && (before < 0 || after < 0 || before+after != reach) {
			return nil
		}
	}
	return &f
}
