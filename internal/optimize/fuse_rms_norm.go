package optimize

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
)

// fuseRMSNorm recognizes an RMSNormalization over the last axis written with simpler operators, as
// exporters do before opset 23; the quotient may be a product with 1/√… or the reciprocal:
//
//	x / √(mean(x²) + ε) · scale
func fuseRMSNorm(o *Options, g *ir.Graph) (int, error) {
	return rewrite(o, g, func(m *matcher, n *ir.Node) *ir.Node {
		if _, ok := n.Op.(*ops.Mul); !ok || len(n.In) != 2 || !isFloat(g, n.Out[0]) {
			return nil
		}
		for i := range n.In {
			x, eps, ok := matchOverRootMeanSquare(m, n.In[1-i])
			if ok && isVector(g, n.In[i], x) && sameShape(g, x, n.Out[0]) {
				return replaced(n, "RMSNormalization", &ops.RMSNormalization{Axis: -1, Epsilon: float32(eps)}, x,
					n.In[i])
			}
		}
		return nil
	})
}

// matchOverRootMeanSquare returns x and ε of x/√(mean(x²) + ε).
func matchOverRootMeanSquare(m *matcher, id ir.ValueID) (x ir.ValueID, eps float64, ok bool) {
	if _, div := opOnly[*ops.Div](m, id); div != nil {
		d, eps, ok := matchRootMeanSquare(m, div.In[1])
		return d, eps, ok && d == div.In[0]
	}
	_, mul := opOnly[*ops.Mul](m, id)
	if mul == nil || len(mul.In) != 2 {
		return 0, 0, false
	}
	for i := range mul.In {
		var root ir.ValueID
		if _, inverse := opOnly[*ops.Reciprocal](m, mul.In[i]); inverse != nil {
			root = inverse.In[0]
		} else if _, inverse := opOnly[*ops.Div](m, mul.In[i]); inverse != nil {
			one, ok := m.scalar(inverse.In[0])
			if !ok || one != 1 {
				continue
			}
			root = inverse.In[1]
		} else {
			continue
		}
		if d, eps, ok := matchRootMeanSquare(m, root); ok && d == mul.In[1-i] {
			return d, eps, true
		}
	}
	return 0, 0, false
}
