package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// minPatch is the number of elements of a patch from which on the product is faster.
const minPatch = 192

// multiplyPatches computes the patch embedding of a vision transformer, a Conv whose kernel is its
// stride, as a product of patches, whose result needs no Transpose:
//
//	Transpose(Reshape(Conv(X, W, B), [N,M,h·w]), perm=[0,2,1])
//	→ Linear(Reshape(Transpose(Reshape(X, [N,C,h,KH,w,KW]), perm=[0,2,4,1,3,5]), [N,h·w,C·KH·KW]))
func multiplyPatches(o *Options, g *ir.Graph) (int, error) {
	if !has[*ops.Conv](g) || !has[*ops.Transpose](g) {
		return 0, nil
	}
	m := newMatcher(g)
	free := constants{g: g, uses: m.uses}
	nodes := slices.Clone(g.Nodes)
	drop := make(map[*ir.Node]bool)
	edits := 0
	for _, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		p := m.patchesOf(n)
		if p == nil {
			continue
		}
		made, err := p.nodes(m, o.Packs, n)
		if err != nil {
			return edits, err
		}
		at := slices.Index(nodes, n)
		nodes = slices.Replace(nodes, at, at+1, made...)
		for _, n := range p.unused {
			drop[n] = true
		}
		for _, id := range p.conv.node.In[1:] {
			if id != ir.None {
				m.uses[id]--
				free.unused(id)
			}
		}
		edits++
	}
	if edits > 0 {
		g.Nodes = slices.DeleteFunc(nodes, func(n *ir.Node) bool { return drop[n] })
	}
	return edits, nil
}

// patches is a Conv whose windows cover its input without overlap, and whose result is transposed
// to rows of channels.
type patches struct {
	conv   convWeights
	unused []*ir.Node // that only the Transpose needs
	batch  ir.Dim
	cuts   []int // C, h, KH, w, KW
	pixels int   // h·w
	k      int   // C·KH·KW
}

// patchesOf returns the convolution that n transposes; nil if it is another than of patches.
func (m *matcher) patchesOf(n *ir.Node) *patches {
	g := m.g
	t, ok := n.Op.(*ops.Transpose)
	if !ok || !slices.Equal(t.Perm, []int{0, 2, 1}) {
		return nil
	}
	r := m.maker(n.In[0])
	if r == nil {
		return nil
	}
	if _, ok := r.Op.(*ops.Reshape); !ok {
		return nil
	}
	c, ok := constConv(g, m.maker(r.In[0]))
	if !ok || c.w.Rank() != 4 {
		return nil
	}
	x, y := g.Values[c.node.In[0]].Type.Shape, g.Values[n.Out[0]].Type.Shape
	s := c.w.Shape()
	if c.op.Group != 1 || kit.Product(s[1:]) < minPatch || len(x) != 4 || len(y) != 3 || !y[0].Same(x[0]) ||
		!x[1].Same(ir.Known(s[1])) || !y[2].Same(ir.Known(s[0])) {
		return nil
	}
	p := &patches{conv: c, unused: m.neededBy(n, c.node), batch: x[0], cuts: []int{s[1]}, pixels: 1,
		k: kit.Product(s[1:])}
	for i, k := range s[2:] {
		size, known := x[2+i].Value()
		before, after := c.op.PadsOf(i, 2)
		if !known || before != 0 || after != 0 || k != c.op.Stride(i) || c.op.Dilation(i) != 1 || size%k != 0 {
			return nil
		}
		p.cuts = append(p.cuts, size/k, k)
		p.pixels *= size / k
	}
	if !y[1].Same(ir.Known(p.pixels)) || !slices.Contains(p.unused, c.node) {
		return nil
	}
	return p
}

// neededBy returns the nodes from first on that are unused without n, for example those that
// compute the shape of a Reshape from that of its input.
func (m *matcher) neededBy(n, first *ir.Node) []*ir.Node {
	var r []*ir.Node
	uses := slices.Clone(m.uses)
	drop := func(n *ir.Node) { n.EachUse(func(id ir.ValueID) { uses[id]-- }) }
	drop(n)
	for i := m.producer[n.Out[0]] - 1; i >= m.producer[first.Out[0]]; i-- {
		c := m.g.Nodes[i]
		if !slices.ContainsFunc(c.Out, func(id ir.ValueID) bool { return id != ir.None && uses[id] > 0 }) {
			drop(c)
			r = append(r, c)
		}
	}
	return r
}

// nodes returns the nodes that compute the output of n.
func (p *patches) nodes(m *matcher, packs *ir.Packs, n *ir.Node) ([]*ir.Node, error) {
	g, conv := m.g, p.conv.node
	w, err := ir.Packed(packs, patchMatrix{}, p.conv.w, nil, func() (*tensor.Tensor, int64, error) {
		w, err := p.conv.w.Reshape(p.conv.w.Dim(0), p.k)
		return w, 0, err
	})
	if err != nil {
		return nil, err
	}
	l, err := blocked.NewLinear(w, true, sole(g, m.uses, conv.In[1]), packs)
	if err != nil {
		return nil, err
	}
	if p.conv.bias != nil {
		l = l.WithBias(constTensor(g, conv, 2))
	}
	var r []*ir.Node
	x := conv.In[0]
	add := func(opType string, op ir.Operator, dims []int, in ...ir.ValueID) {
		shape := []ir.Dim{p.batch}
		for _, d := range dims {
			shape = append(shape, ir.Known(d))
		}
		to := g.NewValue(g.Values[conv.In[0]].Name+" (patches)", ir.TensorType(tensor.TypeFloat32, shape...))
		r = append(r, &ir.Node{Name: conv.Name, OpType: opType, Opset: conv.Opset, Op: op,
			In: append([]ir.ValueID{x}, in...), Out: []ir.ValueID{to}})
		x = to
	}
	reshape := func(dims ...int) {
		shape := []int64{0}
		for _, d := range dims {
			shape = append(shape, int64(d))
		}
		add("Reshape", &ops.Reshape{}, dims, g.NewConst("", tensor.Must(tensor.New(shape, len(shape)))))
	}
	c := p.cuts
	reshape(c...)
	add("Transpose", &ops.Transpose{Perm: []int{0, 2, 4, 1, 3, 5}}, []int{c[1], c[3], c[0], c[2], c[4]})
	reshape(p.pixels, p.k)
	return append(r, replaced(n, "Linear", l, x)), nil
}

// patchMatrix identifies the weights of a Conv as a matrix in a Packs.
type patchMatrix struct{}
