package optimize

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/tensor"
)

// fuseActivation recognizes activations that exporters write with simpler
// operators:
//
//	x · ½(1 + erf(x/√2))                        → Gelu
//	x · ½(1 + tanh(√(2/π)(x + 0.044715·x³)))   → Gelu, approximated by tanh
//	x · ½(1 + tanh(√(2/π)x(1 + 0.044715·x²)))  → the same
//	x · sigmoid(a·x), a > 0                     → Silu; CLIP has a = 1.702
//	clip(x + b, 0, h)/h                         → HardSigmoid
//	x · clip(x + 3, 0, 6)/6                     → HardSwish
//	max(x, lo), min(x, hi)                      → Clip
//
// in any order of the factors. At -∞ these have their limit 0, where the product of -∞
// and 0 is NaN.
func fuseActivation(o *Options, g *ir.Graph) (int, error) {
	return rewrite(o, g, func(m *matcher, n *ir.Node) *ir.Node {
		if !isFloat(g, n.Out[0]) {
			return nil
		}
		switch n.Op.(type) {
		case *ops.Max, *ops.Min:
			return extremeClip(o, m, n)
		}
		if !isProduct(n) {
			return nil
		}
		k, factors := m.product(n, 2)
		if len(factors) == 2 && k == 1 {
			for i, f := range factors {
				x := factors[1-i]
				_, s := opOnly[*ops.Sigmoid](m, f)
				if s == nil {
					continue
				}
				alpha, in := 1.0, s.In[0]
				if p := m.only(in); in != x && p != nil && isProduct(p) {
					if a, list := m.product(p, 0); len(list) == 1 {
						alpha, in = a, list[0]
					}
				}
				if in == x && alpha >= 0x1p-10 && alpha <= 0x1p10 && sameShape(g, x, n.Out[0]) {
					return replaced(n, "Silu", blocked.NewSilu(alpha), x)
				}
			}
		}
		if x, tanh, ok := matchGelu(m, k, factors); ok && isFloat(g, x) && sameShape(g, x, n.Out[0]) {
			return replaced(n, "Gelu", &ops.Gelu{Tanh: tanh}, x)
		}
		return hardFunction(o, m, n, k, factors)
	})
}

// extremeClip returns the Clip that a Max or Min with a constant is, or nil.
func extremeClip(o *Options, m *matcher, n *ir.Node) *ir.Node {
	x, c, _, ok := m.withScalar(n)
	if !ok || math.IsNaN(c) || o.portable() && o.Opset < 11 { // the first version with inputs for bounds
		return nil
	}
	in := []ir.ValueID{x, m.g.NewConst("", tensor.Must(tensor.New([]float32{float32(c)})))}
	if _, largest := n.Op.(*ops.Min); largest {
		in = []ir.ValueID{x, ir.None, in[1]}
	}
	return replaced(n, "Clip", &ops.Clip{Min: math.Inf(-1), Max: math.Inf(1)}, in...)
}

// hardFunction returns the HardSigmoid or the HardSwish of which n is the last node, or nil.
func hardFunction(o *Options, m *matcher, n *ir.Node, k float64, factors []ir.ValueID) *ir.Node {
	const exact = 1e-6 // of constants, relative
	equal := func(x, y float64) bool { return math.Abs(x-y) <= exact*math.Abs(y) }
	for i, f := range factors {
		x, alpha, beta := ir.None, k, 0.0
		if h, s := opOnly[*ops.HardSigmoid](m, f); s != nil && equal(k, 1) {
			x, alpha, beta = s.In[0], h.Alpha, h.Beta
		} else if in, b, hi, ok := hardClip(m, f); ok && equal(k*hi, 1) {
			x, beta = in, b*k
		}
		switch {
		case x == ir.None:
		case len(factors) == 1 && sameShape(m.g, x, n.Out[0]):
			return replaced(n, "HardSigmoid", ops.NewHardSigmoid(alpha, beta), x)
		case len(factors) == 2 && factors[1-i] == x && equal(alpha, 1.0/6) && equal(beta, 0.5) &&
			(!o.portable() || o.Opset >= 14): // the first version with HardSwish
			return replaced(n, "HardSwish", &ops.HardSwish{}, x)
		}
	}
	return nil
}

// hardClip matches clip(x + b, 0, hi).
func hardClip(m *matcher, id ir.ValueID) (x ir.ValueID, b, hi float64, ok bool) {
	op, n := opOnly[*ops.Clip](m, id)
	if n == nil {
		return ir.None, 0, 0, false
	}
	lo, top, ok := clipBounds(m.g, n, op)
	_, add := opOnly[*ops.Add](m, n.In[0])
	if !ok || lo != 0 || add == nil {
		return ir.None, 0, 0, false
	}
	x, b, _, ok = m.withScalar(add)
	return x, b, float64(top), ok
}

// isProduct reports whether a node is a product or a quotient of two values.
func isProduct(n *ir.Node) bool {
	switch n.Op.(type) {
	case *ops.Mul, *ops.Div:
		return len(n.In) == 2
	}
	return false
}

// product returns the factors of a product, with the product k of the constants among them. It
// looks through products that n alone uses, to the given depth.
func (m *matcher) product(n *ir.Node, depth int) (k float64, factors []ir.ValueID) {
	x, c, second, ok := m.withScalar(n)
	_, div := n.Op.(*ops.Div)
	in := []ir.ValueID{x}
	switch {
	case div && !(ok && second):
		return 1, n.Out[:1]
	case div:
		k = 1 / c
	case ok:
		k = c
	default:
		in, k = n.In, 1
	}
	for _, id := range in {
		p := m.only(id)
		if p == nil || depth == 0 || !isProduct(p) {
			factors = append(factors, id)
			continue
		}
		kp, more := m.product(p, depth-1)
		k *= kp
		factors = append(factors, more...)
	}
	return k, factors
}

// matchGelu matches a product of x, ½ and 1 + f(x).
func matchGelu(m *matcher, k float64, factors []ir.ValueID) (x ir.ValueID, tanh, ok bool) {
	if k != 0.5 || len(factors) != 2 {
		return 0, false, false
	}
	for i := range factors {
		x := factors[1-i]
		_, add := opOnly[*ops.Add](m, factors[i])
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

// isTanhArgument matches √(2/π)·(x + 0.044715·x³) and √(2/π)·x·(1 + 0.044715·x²).
func isTanhArgument(m *matcher, id, x ir.ValueID) bool {
	_, mul := opOnly[*ops.Mul](m, id)
	if mul == nil {
		return false
	}
	if k, factors := m.product(mul, 2); len(factors) == 2 && near(k, math.Sqrt(2/math.Pi)) {
		f := factors[0]
		if f == x {
			f = factors[1]
		}
		return slices.Contains(factors, x) && isTanhSquare(m, f, x)
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
	k, factors := m.product(cubic, 3)
	if !near(k, 0.044715) {
		return false
	}
	if len(factors) == 1 {
		_, n := opOnly[*ops.Pow](m, factors[0])
		if n == nil {
			return false
		}
		y, e, second, ok := m.withScalar(n)
		return ok && second && y == x && e == 3
	}
	return slices.Equal(factors, []ir.ValueID{x, x, x})
}

// isTanhSquare matches 1 + 0.044715·x².
func isTanhSquare(m *matcher, id, x ir.ValueID) bool {
	_, add := opOnly[*ops.Add](m, id)
	if add == nil {
		return false
	}
	square, one, _, ok := m.withScalar(add)
	if _, mul := opOnly[*ops.Mul](m, square); ok && one == 1 && mul != nil {
		k, factors := m.product(mul, 2)
		return near(k, 0.044715) && slices.Equal(factors, []ir.ValueID{x, x})
	}
	return false
}
