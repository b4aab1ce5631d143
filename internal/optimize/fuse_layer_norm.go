package optimize

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/tensor"
)

// fuseLayerNorm recognizes a LayerNormalization over the last axis written with
// simpler operators, as exporters did before opset 17:
//
//	d = x − mean(x);  d / √(mean(d²) + ε) · scale + bias
func fuseLayerNorm(o *Options, g *ir.Graph) (int, error) {
	if o.portable() && o.Opset < 17 {
		return 0, nil // ONNX does not have the operator
	}
	return rewrite(o, g, func(m *matcher, n *ir.Node) *ir.Node {
		if _, ok := n.Op.(*ops.Add); !ok || len(n.In) != 2 || !isFloat(g, n.Out[0]) {
			return nil
		}
		for i := range n.In {
			bias := n.In[i]
			_, mul := opOnly[*ops.Mul](m, n.In[1-i])
			if mul == nil || len(mul.In) != 2 {
				continue
			}
			for j := range mul.In {
				x, eps, ok := matchNormalized(m, mul.In[1-j])
				if ok && isVector(g, mul.In[j], x) && isVector(g, bias, x) && sameShape(g, x, n.Out[0]) {
					return replaced(n, "LayerNormalization", &ops.LayerNormalization{Axis: -1, Epsilon: float32(eps),
						Stash: tensor.TypeFloat32}, x, mul.In[j], bias)
				}
			}
		}
		return nil
	})
}

// isVector reports whether a value is a constant vector with the length of the rows of x.
func isVector(g *ir.Graph, id, x ir.ValueID) bool {
	t, ok := g.Values[id].Const.(*tensor.Tensor)
	s := g.Values[x].Type.Shape
	return ok && t.Rank() == 1 && t.DType() == tensor.TypeFloat32 && len(s) > 0 && s[len(s)-1].Is(t.Len())
}

func matchNormalized(m *matcher, id ir.ValueID) (x ir.ValueID, eps float64, ok bool) {
	_, div := opOnly[*ops.Div](m, id)
	if div == nil {
		return 0, 0, false
	}
	d := div.In[0]
	sub := m.maker(d)
	if sub == nil {
		return 0, 0, false
	}
	if _, ok := sub.Op.(*ops.Sub); !ok {
		return 0, 0, false
	}
	x = sub.In[0]
	if !isRowMean(m, sub.In[1], x) {
		return 0, 0, false
	}
	y, eps, ok := matchRootMeanSquare(m, div.In[1])
	return x, eps, ok && y == d
}

// matchRootMeanSquare returns d and ε of √(mean(d²) + ε) over the last axis.
func matchRootMeanSquare(m *matcher, id ir.ValueID) (d ir.ValueID, eps float64, ok bool) {
	_, root := opOnly[*ops.Sqrt](m, id)
	if root == nil {
		return 0, 0, false
	}
	_, add := opOnly[*ops.Add](m, root.In[0])
	if add == nil {
		return 0, 0, false
	}
	variance, eps, _, ok := m.withScalar(add)
	if !ok {
		return 0, 0, false
	}
	mean := m.only(variance)
	if mean == nil || len(mean.In) == 0 || !isRowMean(m, variance, mean.In[0]) {
		return 0, 0, false
	}
	sq := m.only(mean.In[0])
	if sq == nil {
		return 0, 0, false
	}
	switch sq.Op.(type) {
	case *ops.Pow:
		d, e, second, ok := m.withScalar(sq)
		return d, eps, ok && second && e == 2
	case *ops.Mul:
		return sq.In[0], eps, len(sq.In) == 2 && sq.In[0] == sq.In[1]
	}
	return 0, 0, false
}

// isRowMean reports whether a value is the mean of x over its last axis, with keepdims.
func isRowMean(m *matcher, id, x ir.ValueID) bool {
	op, n := opOnly[*ops.ReduceMean](m, id)
	if n == nil || n.In[0] != x || !op.KeepDims {
		return false
	}
	axes := constTensor(m.g, n, 1)
	s := m.g.Values[x].Type.Shape
	if axes == nil || axes.Len() != 1 || axes.DType() != tensor.TypeInt64 || s == nil {
		return false
	}
	a := tensor.MustData[int64](axes)[0]
	return a == -1 || a == int64(len(s)-1)
}
