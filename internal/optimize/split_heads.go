package optimize

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/tensor"
)

// splitHeads splits a fused QKV projection into one MatMul per part, whose result attention reads
// without a copy:
//
//	Gather(Transpose(Reshape(X·W + b, [B,N,p,H,D]), perm=[2,0,3,1,4]), i)
//	→ Transpose(Reshape(X·Wi + bi, [B,N,H,D]), perm=[0,2,1,3])
//
// where Wi and bi are the columns of part i of p. Split and Squeeze may be in place of Gather.
func splitHeads(o *Options, g *ir.Graph) (int, error) {
	var m *matcher
	var nodes []*ir.Node
	var free constants
	drop := make(map[*ir.Node]bool)
	edits := 0
	for _, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		if t, ok := n.Op.(*ops.Transpose); !ok || !slices.Equal(t.Perm, []int{2, 0, 3, 1, 4}) {
			continue
		}
		if m == nil {
			m = newMatcher(g)
			nodes, free = slices.Clone(g.Nodes), constants{g: g, uses: m.uses}
		}
		h := m.headsOf(n)
		if h == nil {
			continue
		}
		at := slices.Index(nodes, n)
		for part, out := range h.outs {
			if out != ir.None {
				made := h.part(g, o.Packs, part, out)
				nodes = slices.Insert(nodes, at, made...)
				at += len(made)
			}
		}
		for _, n := range append(h.readers, h.transpose, h.reshape, h.add, h.product) {
			drop[n] = true
		}
		copied := []ir.ValueID{h.product.In[1]}
		if h.add != nil {
			copied = append(copied, h.add.In...)
		}
		for _, id := range copied {
			m.uses[id]--
			free.unused(id)
		}
		edits++
	}
	if edits > 0 {
		g.Nodes = slices.DeleteFunc(nodes, func(n *ir.Node) bool { return drop[n] })
	}
	return edits, nil
}

// packedHeads is a product whose columns are parts of heads.
type packedHeads struct {
	product, add, reshape, transpose *ir.Node // add may be nil
	weights, bias                    *tensor.Tensor
	shape                            []ir.Dim     // B, N, parts, H, D
	outs                             []ir.ValueID // the parts, [B,H,N,D], None if unused
	readers                          []*ir.Node   // that select the parts
}

// headsOf returns the product that n transposes, nil if parts cannot be computed apart.
func (m *matcher) headsOf(n *ir.Node) *packedHeads {
	g := m.g
	h := &packedHeads{transpose: n}
	if _, h.reshape = opOnly[*ops.Reshape](m, n.In[0]); h.reshape == nil {
		return nil
	}
	x := h.reshape.In[0]
	from := g.Values[x].Type.Shape
	h.shape = g.Values[n.In[0]].Type.Shape
	if len(from) != 3 || len(h.shape) != 5 || !from[0].Same(h.shape[0]) || !from[1].Same(h.shape[1]) || !isFloat(g, x) {
		return nil
	}
	columns := 1
	for _, d := range h.shape[2:] {
		v, ok := d.Value()
		if !ok || v < 1 || v > math.MaxInt32 || columns > math.MaxInt32 {
			return nil
		}
		columns *= v
	}
	var sum *ops.Add
	if sum, h.add = opOnly[*ops.Add](m, x); h.add != nil {
		for i, id := range h.add.In {
			if b := constTensor(g, h.add, 1-i); b != nil && b.Rank() == 1 && b.Len() == columns && !sum.Legacy {
				x, h.bias = id, b
			}
		}
		if h.bias == nil {
			return nil
		}
	}
	if _, h.product = opOnly[*ops.MatMul](m, x); h.product == nil {
		return nil
	}
	h.weights = constTensor(g, h.product, 1)
	if w := h.weights; w == nil || w.Rank() != 2 || w.Dim(1) != columns || !m.selections(h, n.Out[0]) {
		return nil
	}
	return h
}

// selections finds the nodes that select parts, and reports whether all that reads
// the transposed value does.
func (m *matcher) selections(h *packedHeads, transposed ir.ValueID) bool {
	g := m.g
	parts, _ := h.shape[2].Value()
	h.outs = slices.Repeat([]ir.ValueID{ir.None}, parts)
	first := func(axis int) bool { return axis == 0 || axis == -5 }
	direct := 0
	for _, r := range g.Nodes {
		if !slices.Contains(r.In, transposed) {
			continue
		}
		h.readers = append(h.readers, r)
		direct++
		switch op := r.Op.(type) {
		case *ops.Gather:
			at := constTensor(g, r, 1)
			if !first(op.Axis) || at == nil || at.Rank() != 0 || r.In[1] == transposed {
				return false
			}
			v, _ := tensor.Float64s(at)
			part := int(v[0])
			if part < 0 {
				part += parts
			}
			if part < 0 || part >= parts || h.outs[part] != ir.None {
				return false
			}
			h.outs[part] = r.Out[0]
		case *ops.Split:
			if !first(op.Axis) || len(r.Out) != parts || direct > 1 {
				return false
			}
			for part, id := range r.Out {
				if id == ir.None || m.uses[id] == 0 {
					continue
				}
				if m.uses[id] != 1 || m.user[id] < 0 {
					return false
				}
				s := g.Nodes[m.user[id]]
				shape := g.Values[id].Type.Shape
				if _, ok := s.Op.(*ops.Squeeze); !ok || len(shape) != 5 || !shape[0].Same(ir.Known(1)) ||
					!slices.EqualFunc(shape[1:], g.Values[s.Out[0]].Type.Shape, ir.Dim.Same) {
					return false
				}
				if axes := constTensor(g, s, 1); axes == nil || axes.Len() != 1 {
					return false
				}
				h.outs[part] = s.Out[0]
				h.readers = append(h.readers, s)
			}
		default:
			return false
		}
	}
	return direct > 0 && m.uses[transposed] == direct // not an output of the graph, nor read by a subgraph
}

// part makes the nodes that compute a part of h as out.
func (h *packedHeads) part(g *ir.Graph, packs *ir.Packs, part int, out ir.ValueID) []*ir.Node {
	heads, _ := h.shape[3].Value()
	size, _ := h.shape[4].Value()
	n := heads * size
	rows := h.shape[:2:2]
	var nodes []*ir.Node
	add := func(like *ir.Node, op ir.Operator, dims []ir.Dim, in ...ir.ValueID) ir.ValueID {
		// by which profiles find what it computes
		to := g.NewValue(g.Values[like.Out[0]].Name, ir.TensorType(tensor.TypeFloat32, dims...))
		nodes = append(nodes,
			&ir.Node{Name: like.Name, OpType: like.OpType, Opset: like.Opset, Op: op, In: in, Out: []ir.ValueID{to}})
		return to
	}
	x := add(h.product, h.product.Op, append(rows, ir.Known(n)), h.product.In[0],
		columnsOf(g, packs, h.weights, part*n, n))
	if h.add != nil {
		x = add(h.add, h.add.Op, append(rows, ir.Known(n)), x, columnsOf(g, packs, h.bias, part*n, n))
	}
	shape := g.NewConst("", tensor.Must(tensor.New([]int64{0, 0, int64(heads), int64(size)}, 4)))
	x = add(h.reshape, &ops.Reshape{}, append(rows, h.shape[3:]...), x, shape)
	return append(nodes, &ir.Node{Name: h.transpose.Name, OpType: "Transpose", Opset: h.transpose.Opset,
		Op: &ops.Transpose{Perm: []int{0, 2, 1, 3}},
		In: []ir.ValueID{x}, Out: []ir.ValueID{out}})
}

// columnsOf returns columns [at, at+n) of a constant matrix or vector, of float32 or a shorter type
// that products read, as a new constant.
func columnsOf(g *ir.Graph, packs *ir.Packs, t *tensor.Tensor, at, n int) ir.ValueID {
	c, _ := ir.Packed(packs, columns{at, n}, t, nil, func() (*tensor.Tensor, int64, error) {
		shape := slices.Clone(t.Shape())
		size := t.DType().Size()
		row := shape[len(shape)-1] * size
		shape[len(shape)-1] = n
		from := t.Bytes()
		to := make([]byte, 0, len(from)/row*n*size)
		for ; len(from) > 0; from = from[row:] {
			to = append(to, from[at*size:(at+n)*size]...)
		}
		return tensor.Must(tensor.FromBytes(t.DType(), to, shape...)), int64(cap(to)), nil
	})
	id := g.NewConst("", c)
	g.Values[id].Owned = packs == nil
	return id
}

// columns identifies columns [at, at+n) of a constant in a Packs.
type columns struct{ at, n int }
