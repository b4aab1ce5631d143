package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// sinkTranspose moves Transposes between NHWC and NCHW below elementwise operators, ReduceMean and
// Pad, so that they cancel. Converters of TensorFlow's models write one before and one after each
// convolution:
//
//	Transpose(Relu(Transpose(X))) → Relu(X)
//
// The graph is left as it is if it has as many Transposes afterwards.
func sinkTranspose(o *Options, g *ir.Graph) (int, error) {
	before := 0
	for _, n := range g.Nodes {
		if len(n.Graphs) > 0 {
			return 0, nil // subgraphs read values by id
		}
		if _, ok := n.Op.(*ops.Transpose); ok {
			before++
		}
	}
	if before < 2 {
		return 0, nil
	}
	s := &transposeSink{g: g, moved: map[ir.ValueID]transposed{}}
	values := len(g.Values)
	for _, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		s.node(n)
	}
	for _, id := range g.Outputs {
		if err := o.err(); err != nil {
			return 0, err
		}
		s.output(id)
	}
	if s.transposes >= before {
		g.Values = g.Values[:values]
		return 0, nil
	}
	g.Nodes = s.nodes
	return before - s.transposes, nil
}

// transposeSink rebuilds a graph. A Transpose is added only when an operator that it cannot pass
// reads its result.
type transposeSink struct {
	g          *ir.Graph
	nodes      []*ir.Node
	moved      map[ir.ValueID]transposed
	transposes int
}

// transposed says how to compute a value: axis i is axis perm[i] of another one.
type transposed struct {
	of   ir.ValueID
	perm []int
	like *ir.Node // a Transpose
	done bool     // there is a node that computes it
}

var (
	toNHWC = []int{0, 2, 3, 1}
	toNCHW = []int{0, 3, 1, 2}
)

// value computes a value, or returns the id of an equal one.
func (s *transposeSink) value(id ir.ValueID) ir.ValueID {
	t, ok := s.moved[id]
	if !ok || t.done {
		return id
	}
	if isIdentity(t.perm) {
		return t.of
	}
	n := *t.like
	n.In, n.Out = []ir.ValueID{t.of}, []ir.ValueID{id}
	if op := n.Op.(*ops.Transpose); !slices.Equal(op.Perm, t.perm) {
		n.Op = &ops.Transpose{Perm: t.perm}
	}
	s.nodes = append(s.nodes, &n)
	t.done = true
	s.moved[id] = t
	s.transposes++
	return id
}

// output computes an output of the graph. A node that computes an equal value computes it instead.
func (s *transposeSink) output(id ir.ValueID) {
	of := s.value(id)
	if of == id {
		return
	}
	found := false
	for _, n := range s.nodes {
		for i, out := range n.Out {
			if out == of && !slices.Contains(s.g.Outputs, of) {
				n.Out = slices.Clone(n.Out)
				n.Out[i], found = id, true
			}
		}
	}
	if !found { // an input, or another output
		n := *s.moved[id].like
		n.Op, n.In, n.Out = &ops.Transpose{Perm: s.moved[id].perm}, []ir.ValueID{of}, []ir.ValueID{id}
		s.nodes = append(s.nodes, &n)
		s.transposes++
		return
	}
	for _, n := range s.nodes {
		for i, in := range n.In {
			if in == of {
				n.In = slices.Clone(n.In)
				n.In[i] = id
			}
		}
	}
	for k, t := range s.moved { // other outputs may be computed from it
		if t.of == of {
			t.of = id
			s.moved[k] = t
		}
	}
}

// node adds a node, or the computation of its result that precedes a Transpose.
func (s *transposeSink) node(n *ir.Node) {
	if op, ok := n.Op.(*ops.Transpose); ok && len(n.In) == 1 {
		t, known := s.moved[n.In[0]]
		switch perm := []int(nil); {
		case known:
			perm = compose(t.perm, op.Perm)
			if perm != nil && len(op.Perm) == len(t.perm) {
				s.moved[n.Out[0]] = transposed{of: t.of, perm: perm, like: n}
				return
			}
		case slices.Equal(op.Perm, toNHWC) || slices.Equal(op.Perm, toNCHW):
			s.moved[n.Out[0]] = transposed{of: n.In[0], perm: op.Perm, like: n}
			return
		default:
			s.transposes++
		}
	} else if s.sink(n) {
		return
	}
	c := *n
	c.In = slices.Clone(n.In)
	for i, id := range c.In {
		if id != ir.None {
			c.In[i] = s.value(id)
		}
	}
	s.nodes = append(s.nodes, &c)
}

// sink adds the node with inputs and a result before their Transpose, if it can.
func (s *transposeSink) sink(n *ir.Node) bool {
	if len(n.Out) != 1 || len(n.In) == 0 {
		return false
	}
	var by transposed
	for _, id := range n.In {
		if t, ok := s.moved[id]; ok && !isIdentity(t.perm) {
			by = t
			break
		}
	}
	if by.perm == nil {
		return false
	}
	in := slices.Clone(n.In)
	// In a graph that will be saved, inputs that were attributes are written as in the file.
	attributes := n.Source != nil && len(n.Source.Extra) > 0
	switch op := n.Op.(type) {
	case *ops.Pad:
		pads := constTensor(s.g, n, 1)
		if attributes || len(n.In) > 3 || s.moved[n.In[0]].perm == nil || pads == nil ||
			pads.Len() != 2*len(by.perm) || op.Row {
			return false
		}
		in[0] = by.of
		in[1] = s.permuteInts(pads, by.perm)
	case *ops.ReduceMean:
		axes := constTensor(s.g, n, 1)
		if attributes || !op.KeepDims || axes == nil || axes.Len() == 0 {
			return false
		}
		list := slices.Clone(kit.Ints(axes))
		out := make([]int64, len(list))
		for i, a := range list {
			a, err := kit.NormalAxis(a, len(by.perm))
			if err != nil {
				return false
			}
			out[i] = int64(by.perm[a])
		}
		in[0] = by.of
		in[1] = s.g.NewConst("", tensor.Must(tensor.New(out, len(out))))
	default:
		d := definition(n)
		if d == nil || !d.Elementwise || n.Domain == "" && n.Opset < 7 {
			return false
		}
		for i, id := range in {
			if id == ir.None {
				continue
			}
			t, ok := s.moved[id]
			switch {
			case ok && slices.Equal(t.perm, by.perm):
				in[i] = t.of
			case ok:
				return false
			default:
				if in[i] = s.constant(n, i, by.perm); in[i] == ir.None {
					return false
				}
			}
		}
	}
	c := *n
	c.In = in
	t := s.g.Values[n.Out[0]].Type
	if shape := t.Shape; shape != nil {
		if len(shape) != len(by.perm) {
			return false
		}
		t.Shape = make([]ir.Dim, len(shape))
		for i, p := range by.perm {
			t.Shape[p] = shape[i]
		}
	}
	of := s.g.NewValue("", t)
	c.Out = []ir.ValueID{of}
	s.nodes = append(s.nodes, &c)
	s.moved[n.Out[0]] = transposed{of: of, perm: by.perm, like: by.like}
	return true
}

// permuteInts returns a constant like pads, one number for the begin and one for the end of each
// axis, for the axes before a Transpose.
func (s *transposeSink) permuteInts(pads *tensor.Tensor, perm []int) ir.ValueID {
	list := kit.Ints(pads)
	out := make([]int64, len(list))
	for i, p := range perm {
		out[p], out[p+len(perm)] = int64(list[i]), int64(list[i+len(perm)])
	}
	return s.g.NewConst("", tensor.Must(tensor.New(out, len(out))))
}

// constant returns input i of a node, if it is a constant with at most one dimension that is not 1,
// with the shape for a result before a Transpose; otherwise [ir.None].
func (s *transposeSink) constant(n *ir.Node, i int, perm []int) ir.ValueID {
	c := constTensor(s.g, n, i)
	if c == nil || c.Rank() > len(perm) {
		return ir.None
	}
	if c.Len() == 1 {
		return n.In[i]
	}
	shape, long := slices.Repeat([]int{1}, len(perm)), 0
	for a, d := range c.Shape() {
		if d != 1 {
			long++
		}
		shape[perm[len(perm)-c.Rank()+a]] = d
	}
	if long != 1 {
		return ir.None
	}
	r, err := c.Reshape(shape...)
	if err != nil {
		return ir.None
	}
	return s.g.NewConst("", r)
}
