package optimize

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
)

// fuseAttention makes one operator of the products, the mask and the softmax of attention:
//
//	StridedMatMul(Softmax(StridedMatMul(Q, K) + mask), V) → Attention(Q, K, V, mask)
//
// Either product may also be a MatMul. Keys and values whose heads are repeated for groups of query
// heads are read as they are. Torch exports attention with a mask as Where(IsNaN(P), 0, P)
// of the probabilities P, which the operator computes too.
func fuseAttention(o *Options, g *ir.Graph) (int, error) {
	return rewrite(o, g, func(m *matcher, n *ir.Node) *ir.Node {
		values := batchedProduct(g, n)
		if values == nil || values.Alpha != 1 || !isIdentity(values.PermA) {
			return nil
		}
		p, zeroNaN := m.withoutNaN(n.In[0])
		probabilities := m.maker(p)
		if probabilities == nil || m.uses[p] != 1 && !zeroNaN {
			return nil
		}
		softmax, ok := probabilities.Op.(*ops.Softmax)
		if !ok || softmax.Flatten {
			return nil
		}
		scores := probabilities.In[0]
		if rank := len(values.PermA); softmax.Axis != -1 && softmax.Axis != rank-1 {
			return nil
		}
		attend := func(product, mask ir.ValueID) *ir.Node {
			p := m.only(product)
			s := batchedProduct(g, p)
			if s == nil || s.Alpha == 0 || !isIdentity(s.PermY) ||
				!blocked.CanAttend(s.PermA, s.PermB, values.PermB, values.PermY) || !sameShape(g, product, scores) {
				return nil
			}
			in := []ir.ValueID{p.In[0], p.In[1], n.In[1]}
			if len(s.PermB) == 4 && s.PermB[1] == 1 && values.PermB[1] == 1 {
				k, v := m.repeated(in[1]), m.repeated(in[2])
				if k != ir.None && v != ir.None && g.Values[k].Type.Shape[1].Same(g.Values[v].Type.Shape[1]) {
					in[1], in[2] = k, v
				}
			}
			if mask != ir.None {
				in = append(in, mask)
			}
			return replaced(n, "Attention", &blocked.Attention{PermQ: s.PermA, PermK: s.PermB, PermV: values.PermB,
				PermY: values.PermY, Alpha: s.Alpha, ZeroNaN: zeroNaN}, in...)
		}
		if r := attend(scores, ir.None); r != nil {
			return r
		}
		_, add := opOnly[*ops.Add](m, scores)
		if add == nil || len(add.In) != 2 {
			return nil
		}
		for i, x := range add.In {
			if mask := add.In[1-i]; x != ir.None && mask != ir.None && isFloat(g, mask) &&
				g.Values[mask].Type.Shape != nil {
				if r := attend(x, mask); r != nil {
					return r
				}
			}
		}
		return nil
	})
}

// repeated returns x of [batch, heads, rows, columns] if id is Reshape(Expand(Unsqueeze(x, 2))), in
// which each head of x occurs several times in a row, else ir.None.
func (m *matcher) repeated(id ir.ValueID) ir.ValueID {
	e := m.viewed(id)
	expand := m.maker(e)
	if expand == nil || len(expand.Out) != 1 {
		return ir.None
	}
	if _, ok := expand.Op.(*ops.Expand); !ok {
		return ir.None
	}
	x := m.viewed(expand.In[0])
	if x == ir.None {
		return ir.None
	}
	shape := func(id ir.ValueID) []ir.Dim { return m.g.Values[id].Type.Shape }
	s, each := shape(x), shape(e)
	if len(s) != 4 || len(each) != 5 {
		return ir.None
	}
	heads, known := s[1].Value()
	group, fixed := each[2].Value()
	same := func(a []ir.Dim, b ...ir.Dim) bool { return len(a) == len(b) && sameDims(a, b, len(a)) }
	if !known || !fixed || !same(shape(expand.In[0]), s[0], s[1], ir.Known(1), s[2], s[3]) ||
		!same(each, s[0], s[1], each[2], s[2], s[3]) || !same(shape(id), s[0], ir.Known(heads*group), s[2], s[3]) {
		return ir.None
	}
	return x
}

// viewed returns the input of the Reshape or Unsqueeze that computes id, or ir.None.
func (m *matcher) viewed(id ir.ValueID) ir.ValueID {
	if n := m.maker(id); n != nil {
		switch n.Op.(type) {
		case *ops.Reshape, *ops.Unsqueeze:
			return n.In[0]
		}
	}
	return ir.None
}

// withoutNaN returns p if id is Where(IsNaN(p), 0, p) and nothing else reads p, or id.
func (m *matcher) withoutNaN(id ir.ValueID) (p ir.ValueID, ok bool) {
	_, where := opOnly[*ops.Where](m, id)
	if where == nil {
		return id, false
	}
	_, test := opOnly[*ops.IsNaN](m, where.In[0])
	zero, isScalar := m.scalar(where.In[1])
	if p = where.In[2]; test == nil || test.In[0] != p || m.uses[p] != 2 || !isScalar || zero != 0 ||
		math.Signbit(zero) || !sameShape(m.g, p, id) {
		return id, false
	}
	return p, true
}

// batchedProduct describes a node that multiplies float matrices of equal leading dimensions; nil
// if it does not.
func batchedProduct(g *ir.Graph, n *ir.Node) *blocked.StridedMatMul {
	if n == nil || len(n.Out) != 1 || !isFloat(g, n.Out[0]) {
		return nil
	}
	switch op := n.Op.(type) {
	case *blocked.StridedMatMul:
		return op
	case *ops.MatMul:
		a, b := g.Values[n.In[0]].Type.Shape, g.Values[n.In[1]].Type.Shape
		if len(a) < 3 || !sameDims(a, b, len(a)-2) {
			return nil
		}
		same := identity(len(a))
		return &blocked.StridedMatMul{PermA: same, PermB: same, PermY: same, Alpha: 1}
	}
	return nil
}

// sameDims reports whether two shapes have the same rank and are known to have the same first n
// dimensions.
func sameDims(a, b []ir.Dim, n int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range n {
		if !a[i].Same(b[i]) {
			return false
		}
	}
	return true
}

func isIdentity(perm []int) bool {
	for i, p := range perm {
		if p != i {
			return false
		}
	}
	return true
}
