package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/msft"
	"github.com/onward-ml/onward/tensor"
)

// fuseLinear replaces products with constant weights by Linear, and fuses the operators that
// follow: a bias, a residual, an activation.
func fuseLinear(o *Options, g *ir.Graph) (int, error) {
	uses, shared := g.Uses(), ir.NewPacks()
	return rewrite(o, g, func(m *matcher, n *ir.Node) *ir.Node {
		if !isFloat(g, n.Out[0]) || len(n.In) == 0 || n.In[0] == ir.None {
			return nil
		}
		if _, ok := n.Op.(*msft.MatMulIntegerToFloat); ok {
			return linearBytes(m, n)
		}
		if !isFloat(g, n.In[0]) {
			return nil
		}
		switch n.Op.(type) {
		case *ops.MatMul, *ops.Gemm:
			packs := o.Packs
			if packs == nil && n.In[1] != ir.None && uses[n.In[1]] > 1 { // it holds the weights until the pass ends
				packs = shared
			}
			return linearOf(m, n, packs)
		case *ops.Add:
			return linearAdd(m, n)
		case *ops.Relu:
			return linearThen(m, n, func(l *blocked.Linear) { l.Act.Kind = kit.ActRelu })
		}
		if kernel := vectorKernel(g, n); kernel != nil {
			return linearThen(m, n, func(l *blocked.Linear) { l.Then = kernel })
		}
		return nil
	})
}

// linearOf replaces a MatMul with constant weights, or a Gemm with constant B and with C that is
// absent or a constant row. It returns nil for other nodes.
func linearOf(m *matcher, n *ir.Node, packs *ir.Packs) *ir.Node {
	g := m.g
	op, ok := n.Op.(*ops.Gemm)
	if !ok {
		w := constTensor(g, n, 1)
		if w == nil || len(g.Values[n.In[0]].Type.Shape) == 0 {
			return nil
		}
		l, err := blocked.NewLinear(w, false, false, packs)
		if err != nil {
			return nil
		}
		return replaced(n, "Linear", l, n.In[0])
	}
	w, c := constTensor(g, n, 1), constTensor(g, n, 2)
	hasC := len(n.In) > 2 && n.In[2] != ir.None
	if w == nil || op.TransA || hasC && (c == nil || op.Beta != 1) || op.Alpha == 0 {
		return nil
	}
	cols := 1
	if op.TransB {
		cols = 0
	}
	if hasC && (w.Rank() != 2 || !blocked.IsRowBias(c, w.Dim(cols))) {
		return nil // check before packing, which may overwrite the weights
	}
	l, err := blocked.NewLinear(w, op.TransB, sole(m.g, m.uses, n.In[1]), packs)
	if err != nil {
		return nil
	}
	l.Alpha = op.Alpha
	if hasC {
		l = l.WithBias(c)
	}
	return replaced(n, "Linear", l, n.In[0])
}

// linearBytes replaces a MatMulIntegerToFloat with constant B.
func linearBytes(m *matcher, n *ir.Node) *ir.Node {
	g := m.g
	w, scale := constTensor(g, n, 1), constTensor(g, n, 3)
	if w == nil || scale == nil || len(g.Values[n.In[0]].Type.Shape) == 0 {
		return nil
	}
	var optional [7]*tensor.Tensor
	for i := 5; i < len(n.In); i++ { // the zero point of B, and the bias
		if n.In[i] == ir.None {
			continue
		}
		if optional[i] = constTensor(g, n, i); optional[i] == nil {
			return nil
		}
	}
	l := blocked.NewByteLinear(w, scale, optional[5])
	if l != nil && optional[6] != nil {
		l = l.WithBias(optional[6])
	}
	if l == nil {
		return nil
	}
	zero := ir.None
	if len(n.In) > 4 {
		zero = n.In[4]
	}
	return replaced(n, "Linear", l, n.In[0], n.In[2], zero)
}

// plainLinear returns the layer that computes a value with a single use, if more can be fused into
// it.
func plainLinear(m *matcher, id ir.ValueID) (*blocked.Linear, *ir.Node) {
	l, n := opOnly[*blocked.Linear](m, id)
	if n == nil || l.Act.Kind != kit.ActNone || l.Then != nil {
		return nil, nil
	}
	return l, n
}

func linearThen(m *matcher, n *ir.Node, set func(*blocked.Linear)) *ir.Node {
	l, prev := plainLinear(m, n.In[0])
	if prev == nil {
		return nil
	}
	c := *l
	set(&c)
	return replaced(n, "Linear", &c, prev.In...)
}

func linearAdd(m *matcher, n *ir.Node) *ir.Node {
	if len(n.In) != 2 || n.In[1] == ir.None {
		return nil
	}
	// Fuse the addition into the later one of two layers.
	order := []int{0, 1}
	if m.producer[n.In[1]] > m.producer[n.In[0]] {
		order = []int{1, 0}
	}
	for _, i := range order {
		l, prev := plainLinear(m, n.In[i])
		if prev == nil || l.HasAdd {
			continue
		}
		z := n.In[1-i]
		if b, ok := m.g.Values[z].Const.(*tensor.Tensor); ok && b.Rank() == 1 {
			if c := l.WithBias(b); c != nil && sameShape(m.g, n.In[i], n.Out[0]) {
				return replaced(n, "Linear", c, prev.In...)
			}
		}
		if isFloat(m.g, z) && sameShape(m.g, n.In[i], z) {
			c := *l
			c.HasAdd = true
			return replaced(n, "Linear", &c, append(slices.Clone(prev.In), z)...)
		}
	}
	return nil
}
