package optimize

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/msft"
	"github.com/onward-ml/onward/tensor"
)

// fuseDynamic replaces the products of dynamically quantized models by MatMulIntegerToFloat, with
// the same bits. quantize_dynamic of ONNX Runtime writes them as
//
//	Cast(MatMulInteger(q, W, q_zero, W_zero))·(q_scale·W_scale) + bias
//
// where W, its scale, its zero point and the bias are constant, and the scales of q are one number.
func fuseDynamic(o *Options, g *ir.Graph) (int, error) {
	if !has[*ops.MatMulInteger](g) {
		return 0, nil
	}
	return rewrite(o, g, func(m *matcher, n *ir.Node) *ir.Node {
		if len(n.In) != 2 || !isFloat(g, n.Out[0]) {
			return nil
		}
		switch n.Op.(type) {
		case *ops.Mul:
			for i := range n.In {
				if r := scaledProduct(m, n, n.In[i], n.In[1-i]); r != nil {
					return r
				}
			}
		case *ops.Add:
			for i := range n.In {
				_, p := opOnly[*msft.MatMulIntegerToFloat](m, n.In[i])
				b := constTensor(g, n, 1-i)
				if p != nil && len(p.In) == 6 && b != nil && b.Rank() == 1 && lastDim(g, n.In[i]).Is(b.Len()) {
					return replaced(n, "MatMulIntegerToFloat", p.Op, append(p.In[:6:6], n.In[1-i])...)
				}
			}
		}
		return nil
	})
}

// scaledProduct returns the MatMulIntegerToFloat that computes n, the product of sums and scales.
func scaledProduct(m *matcher, n *ir.Node, sums, scales ir.ValueID) *ir.Node {
	cast, c := opOnly[*ops.Cast](m, sums)
	if c == nil || cast.To != tensor.TypeFloat32 {
		return nil
	}
	_, p := opOnly[*ops.MatMulInteger](m, c.In[0])
	_, s := opOnly[*ops.Mul](m, scales)
	if p == nil || s == nil || len(s.In) != 2 || len(p.In) < 3 || p.In[2] == ir.None ||
		len(m.g.Values[sums].Type.Shape) == 0 {
		return nil
	}
	for i := range s.In {
		one, w := s.In[1-i], constTensor(m.g, s, i)
		if one == ir.None || w == nil || w.Rank() > 1 || w.Len() != 1 && !lastDim(m.g, sums).Is(w.Len()) ||
			!hasOne(m.g, one) || !hasOne(m.g, p.In[2]) {
			continue
		}
		zero := ir.None
		if len(p.In) > 3 && p.In[3] != ir.None {
			if zero = p.In[3]; m.g.Values[zero].Const == nil {
				return nil
			}
		}
		return replaced(n, "MatMulIntegerToFloat", &msft.MatMulIntegerToFloat{}, p.In[0], p.In[1], one, s.In[i],
			p.In[2], zero)
	}
	return nil
}

// hasOne reports whether a value is known to have one element and a rank of at most 1.
func hasOne(g *ir.Graph, id ir.ValueID) bool {
	s := g.Values[id].Type.Shape
	return s != nil && (len(s) == 0 || len(s) == 1 && s[0].Is(1))
}

// lastDim returns the last dimension of a value, unknown for one without.
func lastDim(g *ir.Graph, id ir.ValueID) ir.Dim {
	if s := g.Values[id].Type.Shape; len(s) > 0 {
		return s[len(s)-1]
	}
	return ir.Dim{}
}
