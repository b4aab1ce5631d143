package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// minSliceTerms is the number of products per element of a Conv from which on it costs little that
// each slice of its channels reads the input.
const minSliceTerms = 64

// sliceConv computes only those elements of a Conv that Slices select, as the two parts of a
// Fourier transform, or the result of a causal convolution without its last elements:
//
//	Slice(Conv(X, W, B), axis 1) → Conv(X, Slice(W, axis 0), Slice(B, axis 0))
//	Slice(Conv(X, W, B), axis 2…) → Conv(X, W, B) with less padding, or of a Slice of X
func sliceConv(o *Options, g *ir.Graph) (int, error) {
	if !has[*ops.Conv](g) || !has[*ops.Slice](g) {
		return 0, nil
	}
	s := slicer{g: g, cropped: map[croppedInput]ir.ValueID{}}
	edits, err := rewrite(o, g, func(m *matcher, n *ir.Node) *ir.Node {
		if _, ok := n.Op.(*ops.Slice); !ok {
			return nil
		}
		c, ok := constConv(g, m.maker(n.In[0]))
		if !ok || c.node.Out[0] != n.In[0] {
			return nil
		}
		axis, lo, hi, ok := s.bounds(n)
		switch {
		case !ok || axis == 0:
			return nil
		case axis == 1:
			return s.channels(m, &c, n, lo, hi)
		}
		return s.positions(m, &c, n, axis, lo, hi)
	})
	for _, n := range s.made {
		reads := func(r *ir.Node) bool { return slices.Contains(r.In, n.Out[0]) }
		g.Nodes = slices.Insert(g.Nodes, slices.IndexFunc(g.Nodes, reads), n)
	}
	return edits, err
}

// slicer holds what sliceConv adds to a graph.
type slicer struct {
	g       *ir.Graph
	cropped map[croppedInput]ir.ValueID
	made    []*ir.Node // Slices of inputs
}

type croppedInput struct {
	x           ir.ValueID
	axis, count int
}

// bounds returns the axis of a constant Slice with step 1 and a known size, and its range.
func (s *slicer) bounds(n *ir.Node) (axis, lo, hi int, ok bool) {
	shape := s.g.Values[n.In[0]].Type.Shape
	var v [4]int // starts, ends, axes, steps
	v[3] = 1
	for i := range v {
		if len(n.In) <= i+1 || n.In[i+1] == ir.None {
			continue
		}
		t := constTensor(s.g, n, i+1)
		if t == nil || t.Len() != 1 {
			return 0, 0, 0, false
		}
		v[i] = kit.Ints(t)[0]
	}
	axis, err := kit.NormalAxis(v[2], len(shape))
	if err != nil || v[3] != 1 {
		return 0, 0, 0, false
	}
	size, ok := shape[axis].Value()
	if !ok {
		return 0, 0, 0, false
	}
	for i := range 2 {
		if v[i] < 0 {
			v[i] += size
		}
		v[i] = min(max(v[i], 0), size)
	}
	return axis, v[0], v[1], v[0] < v[1]
}

// channels returns a Conv of the channels [lo, hi) of c; nil unless all that is read of c is slices
// of its channels, which are together no more than those of c.
func (s *slicer) channels(m *matcher, c *convWeights, n *ir.Node, lo, hi int) *ir.Node {
	readers, sum := 0, 0
	for _, r := range s.g.Nodes {
		if !slices.Contains(r.In, n.In[0]) {
			continue
		}
		_, isSlice := r.Op.(*ops.Slice)
		axis, from, to, ok := s.bounds(r)
		if !isSlice || !ok || axis != 1 {
			return nil
		}
		readers, sum = readers+1, sum+to-from
	}
	each := c.w.Len() / c.w.Dim(0)
	if c.op.Group != 1 || each < minSliceTerms || readers != m.uses[n.In[0]] || sum > c.w.Dim(0) {
		return nil
	}
	w := tensor.MustData[float32](c.w)[lo*each : hi*each]
	in := []ir.ValueID{c.node.In[0], addConstant(s.g, w, append([]int{hi - lo}, c.w.Shape()[1:]...)...)}
	if c.bias != nil {
		in = append(in, addConstant(s.g, c.bias[lo:hi], hi-lo))
	}
	return c.with(n, *c.op, in)
}

// positions returns a Conv of the positions [lo, hi) of c along an axis; nil if something else
// reads c, or if the end cannot be left out by less padding.
func (s *slicer) positions(m *matcher, c *convWeights, n *ir.Node, axis, lo, hi int) *ir.Node {
	g := s.g
	size, _ := g.Values[n.In[0]].Type.Shape[axis].Value()
	x := g.Values[c.node.In[0]].Type
	if m.uses[n.In[0]] != 1 || len(x.Shape) <= axis {
		return nil
	}
	op, d, k := *c.op, axis-2, c.w.Rank()-2
	before, after := op.PadsOf(d, k)
	from, end := lo*op.Stride(d), (size-hi)*op.Stride(d)
	if end > after {
		return nil
	}
	op.Pads = make([]int, 2*k)
	for i := range k {
		op.Pads[i], op.Pads[k+i] = c.op.PadsOf(i, k)
	}
	op.Pads[d], op.Pads[k+d] = max(0, before-from), after-end
	in := slices.Clone(c.node.In)
	if from > before {
		in[0] = s.crop(n, croppedInput{in[0], axis, from - before})
	}
	return c.with(n, op, in)
}

// crop returns a value without its first elements along an axis, for the result of n.
func (s *slicer) crop(n *ir.Node, c croppedInput) ir.ValueID {
	if id, ok := s.cropped[c]; ok {
		return id
	}
	t := s.g.Values[c.x].Type
	t.Shape = slices.Clone(t.Shape)
	t.Shape[c.axis] = t.Shape[c.axis].Add(ir.Known(-c.count))
	in := []ir.ValueID{c.x}
	for _, v := range []int{c.count, 1<<31 - 1, c.axis} {
		in = append(in, addConstant(s.g, []int64{int64(v)}, 1))
	}
	id := s.g.NewValue(s.g.Values[c.x].Name+" (cropped)", t)
	node := *n
	node.In, node.Out = in, []ir.ValueID{id}
	s.made = append(s.made, &node)
	s.cropped[c] = id
	return id
}

// with returns a Conv in place of n.
func (c *convWeights) with(n *ir.Node, op ops.Conv, in []ir.ValueID) *ir.Node {
	node := *c.node
	node.Op, node.In, node.Out = &op, in, n.Out
	return &node
}

// addConstant adds a constant to a graph.
func addConstant[T tensor.Element](g *ir.Graph, data []T, shape ...int) ir.ValueID {
	return g.NewConst("", tensor.Must(tensor.New(data, shape...)))
}
