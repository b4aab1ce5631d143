package optimize

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
)

// fuseActivation recognizes activations that exporters write with simpler
// operators:
//
//	x · ½(1 + erf(x/√2))                        → Gelu
//	x · ½(1 + tanh(√(2/π)(x + 0.044715·x³)))   → Gelu, approximated by tanh
//	x · sigmoid(x)                              → Silu
//
// in any order of the factors. At -∞ these have their limit 0, where the product of -∞
// and 0 is NaN.
func fuseActivation(o *Options, g *ir.Graph) (int, error) {
	return rewrite(g, func(m *matcher, n *ir.Node) *ir.Node {
		if _, ok := n.Op.(*ops.Mul); !ok || len(n.In) != 2 || !isFloat(g, n.Out[0]) {
			return nil
		}
		for i := range n.In {
			x := n.In[1-i]
			if _, s := opOnly[*ops.Sigmoid](m, n.In[i]); s != nil && s.In[0] == x {
				return replaced(n, "Silu", blocked.NewSilu(), x)
			}
		}
		if x, tanh, ok := matchGelu(m, n); ok && isFloat(g, x) && sameShape(g, x, n.Out[0]) {
			return replaced(n, "Gelu", &ops.Gelu{Tanh: tanh}, x)
		}
		return nil
	})
}

// matchGelu matches a product of x, ½ and 1 + f(x).
func matchGelu(m *matcher, n *ir.Node) (x ir.ValueID, tanh, ok bool) {
	factors := flatten(m, n, 3)
	half := false
	var rest []ir.ValueID
	for _, f := range factors {
		if c, isConst := m.scalar(f); isConst {
			if half || c != 0.5 {
				return 0, false, false
			}
			half = true
			continue
		}
		rest = append(rest, f)
	}
	if !half || len(rest) != 2 {
		return 0, false, false
	}
	for i := range rest {
		x := rest[1-i]
		_, add := opOnly[*ops.Add](m, rest[i])
		if add == nil {
			continue
		}
		inner, one, _, ok := m.withScalar(add)
		if !ok || one != 1 {
			continue
		}
		if _, e := opOnly[*ops.Erf](m, inner); e != nil && isScaled(m, e.In[0], x, 1/math.Sqrt2) {
			return x, false, true
		}
		if _, t := opOnly[*ops.Tanh](m, inner); t != nil && isTanhArgument(m, t.In[0], x) {
			return x, true, true
		}
	}
	return 0, false, false
}

// flatten returns the factors of a product of at most most factors.
func flatten(m *matcher, n *ir.Node, most int) []ir.ValueID {
	r := []ir.ValueID{n.In[0], n.In[1]}
	for i := 0; i < len(r) && len(r) < most; i++ {
		if _, mul := opOnly[*ops.Mul](m, r[i]); mul != nil && len(mul.In) == 2 {
			r[i] = mul.In[0]
			r = append(r, mul.In[1])
			i = -1
		}
	}
	return r
}

// isScaled reports whether a value is x·k, written as a product or a quotient.
func isScaled(m *matcher, id, x ir.ValueID, k float64) bool {
	n := m.only(id)
	if n == nil {
		return false
	}
	y, c, second, ok := m.withScalar(n)
	if !ok || y != x {
		return false
	}
	switch n.Op.(type) {
	case *ops.Mul:
		return near(c, k)
	case *ops.Div:
		return second && near(c, 1/k)
	}
	return false
}

// isTanhArgument matches √(2/π)·(x + 0.044715·x³).
func isTanhArgument(m *matcher, id, x ir.ValueID) bool {
	_, mul := opOnly[*ops.Mul](m, id)
	if mul == nil {
		return false
	}
	sum, c, _, ok := m.withScalar(mul)
	if !ok || !near(c, math.Sqrt(2/math.Pi)) {
		return false
	}
	_, add := opOnly[*ops.Add](m, sum)
	if add == nil {
		return false
	}
	_, cubic := opOnly[*ops.Mul](m, other(add, x))
	if cubic == nil {
		return false
	}
	cube, c, _, ok := m.withScalar(cubic)
	if !ok || !near(c, 0.044715) {
		return false
	}
	n := m.only(cube)
	if n == nil {
		return false
	}
	switch n.Op.(type) {
	case *ops.Pow:
		y, e, second, ok := m.withScalar(n)
		return ok && second && y == x && e == 3
	case *ops.Mul:
		_, sq := opOnly[*ops.Mul](m, other(n, x))
		return sq != nil && len(sq.In) == 2 && sq.In[0] == x && sq.In[1] == x
	}
	return false
}
