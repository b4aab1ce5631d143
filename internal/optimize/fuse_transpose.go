package optimize

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
)

// fuseTranspose fuses transpositions into batched matrix products, as in attention, which then read
// and write transposed memory:
//
//	Transpose(MatMul(Transpose(A)·k, Transpose(B)))·k' → StridedMatMul(A, B)
func fuseTranspose(o *Options, g *ir.Graph) (int, error) {
	n, err := rewrite(o, g, func(m *matcher, n *ir.Node) *ir.Node {
		if _, ok := n.Op.(*ops.MatMul); !ok {
			return nil
		}
		s := batchedProduct(g, n)
		if s == nil {
			return nil
		}
		in := []ir.ValueID{n.In[0], n.In[1]}
		for k, perm := range []*[]int{&s.PermA, &s.PermB} {
			in[k], *perm = throughTranspose(m, in[k], *perm, &s.Alpha)
		}
		if in[0] == n.In[0] && in[1] == n.In[1] && !followed(m, n) || !blocked.CanStride(s.PermA, s.PermB, s.PermY) {
			return nil
		}
		return replaced(n, "StridedMatMul", s, in...)
	})
	if err != nil {
		return n, err
	}
	more, err := rewrite(o, g, func(m *matcher, n *ir.Node) *ir.Node {
		if len(n.In) == 0 {
			return nil
		}
		switch op := n.Op.(type) {
		case *ops.Transpose:
			s, prev := opOnly[*blocked.StridedMatMul](m, n.In[0])
			if prev == nil || len(op.Perm) != len(s.PermY) {
				return nil
			}
			c := *s
			c.PermY = compose(s.PermY, op.Perm)
			if c.PermY == nil || !blocked.CanStride(c.PermA, c.PermB, c.PermY) {
				return nil
			}
			return replaced(n, "StridedMatMul", &c, prev.In...)
		case *ops.Mul, *ops.Div:
			x, k, second, ok := m.withScalar(n)
			if !ok || !sameShape(g, x, n.Out[0]) {
				return nil
			}
			s, prev := opOnly[*blocked.StridedMatMul](m, x)
			if prev == nil {
				return nil
			}
			if _, div := op.(*ops.Div); div {
				if !second {
					return nil
				}
				k = 1 / k
			}
			c := *s
			c.Alpha *= float32(k)
			if c.Alpha == 0 {
				return nil
			}
			return replaced(n, "StridedMatMul", &c, prev.In...)
		}
		return nil
	})
	return n + more, err
}

// followed reports whether the operator after a product can be fused into it.
func followed(m *matcher, n *ir.Node) bool {
	i := m.user[n.Out[0]]
	if i < 0 || m.uses[n.Out[0]] != 1 {
		return false
	}
	switch m.g.Nodes[i].Op.(type) {
	case *ops.Transpose, *ops.Div, *ops.Mul:
		return true
	}
	return false
}

// throughTranspose follows a value back through transpositions and scalar factors that have no
// other use.
func throughTranspose(m *matcher, id ir.ValueID, perm []int, alpha *float32) (ir.ValueID, []int) {
	for {
		n := m.only(id)
		if n == nil {
			return id, perm
		}
		switch op := n.Op.(type) {
		case *ops.Transpose:
			if len(op.Perm) != len(perm) {
				return id, perm
			}
			p := compose(op.Perm, perm)
			if p == nil {
				return id, perm
			}
			id, perm = n.In[0], p
		case *ops.Mul:
			x, k, _, ok := m.withScalar(n)
			if !ok || !sameShape(m.g, x, id) || k == 0 {
				return id, perm
			}
			*alpha *= float32(k)
			id = x
		default:
			return id, perm
		}
	}
}

func identity(n int) []int {
	p := make([]int, n)
	for i := range p {
		p[i] = i
	}
	return p
}

// compose returns the permutation that applies first, then second; nil if one is not a permutation.
func compose(first, second []int) []int {
	r := make([]int, len(second))
	for i, p := range second {
		if p < 0 || p >= len(first) || first[p] < 0 || first[p] >= len(first) {
			return nil
		}
		r[i] = first[p]
	}
	return r
}
