package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// resizeTerms is the number of products per element that take as long as to interpolate an element,
// and as long as to add two.
const resizeTerms = 64

// sinkResize computes a 1×1 Conv before a Resize that enlarges its input. Both are linear, and the
// interpolation is the same for each channel:
//
//	Conv(Resize(X), W, B)            → Resize(Conv(X, W, B))
//	Conv(Concat(X, Resize(Y)), W, B) → Conv(X, W₁, B) + Resize(Conv(Y, W₂))
//
// Decoders of segmentation concatenate enlarged images of several sizes before such a Conv
// (SegFormer, https://arxiv.org/abs/2105.15203).
func sinkResize(o *Options, g *ir.Graph) (int, error) {
	if !has[*ops.Resize](g) {
		return 0, nil
	}
	m := newMatcher(g)
	free := constants{g: g, uses: m.uses}
	var nodes []*ir.Node
	edits := 0
	for _, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		made := m.sunkResizes(n)
		if made == nil {
			nodes = append(nodes, n)
			continue
		}
		nodes = append(nodes, made...)
		m.uses[n.In[1]]--
		free.unused(n.In[1])
		edits++
	}
	if edits > 0 {
		g.Nodes = nodes
	}
	return edits, nil
}

// enlarged is a Resize of some of the channels that a Conv reads.
type enlarged struct {
	x        ir.ValueID
	op       *ops.Resize
	factors  *tensor.Tensor // its scales or sizes
	from, to int            // channels
}

// sunkResizes returns the nodes that compute a 1×1 Conv before the enlargement of its inputs, nil
// if none is enlarged or it would not be faster.
func (m *matcher) sunkResizes(n *ir.Node) []*ir.Node {
	g := m.g
	var cv *ops.FusedConv
	switch op := n.Op.(type) {
	case *ops.Conv:
		cv = &ops.FusedConv{Conv: *op}
	case *ops.FusedConv:
		cv = op
	default:
		return nil
	}
	w := constTensor(g, n, 1)
	if w == nil || w.DType() != tensor.TypeFloat32 || w.Rank() < 3 || !isFloat(g, n.Out[0]) || !pointwise(&cv.Conv, w) {
		return nil
	}
	parts := []ir.ValueID{n.In[0]}
	concat := m.only(n.In[0])
	if concat != nil {
		if op, ok := concat.Op.(*ops.Concat); ok && (op.Axis == 1 || op.Axis == 1-w.Rank()) {
			parts = concat.In
		}
	}
	var large []enlarged
	var rest []ir.ValueID
	var kept [][2]int // channels of rest
	at := 0
	for _, id := range parts {
		s := g.Values[id].Type.Shape
		if len(s) != w.Rank() {
			return nil
		}
		c, ok := s[1].Value()
		if !ok {
			return nil
		}
		if e := m.enlarged(id, w.Dim(0)); e != nil {
			e.from, e.to = at, at+c
			large = append(large, *e)
		} else {
			rest, kept = append(rest, id), append(kept, [2]int{at, at + c})
		}
		at += c
	}
	single := len(large) == 1 && cv.Act.Kind == kit.ActNone && len(n.In) < 4
	if at != w.Dim(1) || len(large) == 0 || len(rest) == 0 && !single {
		return nil
	}
	return sunk(g, n, cv, w, large, rest, kept)
}

// pointwise reports whether each pixel of a Conv depends on one pixel alone, of all channels.
func pointwise(op *ops.Conv, w *tensor.Tensor) bool {
	for i := range w.Rank() - 2 {
		before, after := op.PadsOf(i, w.Rank()-2)
		if before != 0 || after != 0 || op.Stride(i) != 1 || w.Dim(2+i) != 1 {
			return false
		}
	}
	return op.Group == 1 && (op.AutoPad == "" || op.AutoPad == "NOTSET")
}

// enlarged returns the Resize that computes a value with a single use, if a 1×1 Conv to a number of
// channels is faster before it.
func (m *matcher) enlarged(id ir.ValueID, channels int) *enlarged {
	op, n := opOnly[*ops.Resize](m, id)
	if op == nil || !isFloat(m.g, id) {
		return nil
	}
	x, y := m.g.Values[n.In[0]].Type.Shape, m.g.Values[id].Type.Shape
	if len(x) != len(y) || len(x) < 3 || !x[0].Same(y[0]) {
		return nil
	}
	in, ok := ir.Ints(x[1:])
	out, also := ir.Ints(y[1:])
	if !ok || !also {
		return nil
	}
	before, after := kit.Product(in[1:]), kit.Product(out[1:])
	if after < 2*before || in[0]*channels*(after-before) <= resizeTerms*after*(2*channels-in[0]) {
		return nil
	}
	var scales *tensor.Tensor
	if !sized(m.g, n, op) {
		if scales = constTensor(m.g, n, op.ScalesInput); scales == nil {
			return nil
		}
	}
	e := &enlarged{x: n.In[0]}
	e.op, e.factors = op.OfImages(out[1:], scales)
	if e.op == nil {
		return nil
	}
	return e
}

// sunk returns the nodes that compute n, a Conv of the channels kept of its weights over rest, and
// of others before they are enlarged.
func sunk(g *ir.Graph, n *ir.Node, cv *ops.FusedConv, w *tensor.Tensor, large []enlarged,
	rest []ir.ValueID, kept [][2]int) []*ir.Node {
	y := g.Values[n.Out[0]]
	var nodes []*ir.Node
	add := func(opType string, op ir.Operator, name string, shape []ir.Dim, in ...ir.ValueID) ir.ValueID {
		id := g.NewValue(y.Name+name, ir.TensorType(tensor.TypeFloat32, shape...))
		nodes = append(nodes, &ir.Node{Name: n.Name, OpType: opType, Opset: n.Opset, Op: op, In: in,
			Out: []ir.ValueID{id}})
		return id
	}
	bias, sum := ir.None, ir.None
	if len(n.In) > 2 {
		bias = n.In[2]
	}
	if len(n.In) > 3 {
		sum = n.In[3]
	}
	for _, e := range large {
		x := g.Values[e.x].Type.Shape
		shape := slices.Concat(x[:1], y.Type.Shape[1:2], x[2:])
		in := []ir.ValueID{e.x, channelsOf(g, w, [2]int{e.from, e.to})}
		if len(rest) == 0 && bias != ir.None {
			in = append(in, bias)
		}
		small := add("Conv", &ops.Conv{Window: cv.Window, Group: 1}, " (small)", shape, in...)
		in = []ir.ValueID{small, ir.None, g.NewConst("", e.factors)}
		if e.factors.DType() == tensor.TypeInt64 {
			in = slices.Insert(in, 2, ir.None)
		}
		r := add("Resize", e.op, " (enlarged)", y.Type.Shape, in...)
		if sum == ir.None {
			sum = r
		} else {
			sum = add("Add", &ops.Add{}, " (sum)", y.Type.Shape, sum, r)
		}
	}
	if len(rest) == 0 {
		nodes[len(nodes)-1].Out = n.Out
		return nodes
	}
	x := rest[0]
	if len(rest) > 1 {
		shape := slices.Clone(g.Values[x].Type.Shape)
		for _, id := range rest[1:] {
			shape[1] = shape[1].Add(g.Values[id].Type.Shape[1])
		}
		x = add("Concat", &ops.Concat{Axis: 1}, " (images)", shape, rest...)
	}
	return append(nodes, fused(n, cv, x, channelsOf(g, w, kept...), bias, sum))
}

// channelsOf adds the weights of ranges of input channels to a graph.
func channelsOf(g *ir.Graph, w *tensor.Tensor, ranges ...[2]int) ir.ValueID {
	src, count := tensor.MustData[float32](w), 0
	for _, r := range ranges {
		count += r[1] - r[0]
	}
	dst := make([]float32, 0, w.Dim(0)*count)
	for row := range w.Dim(0) {
		for _, r := range ranges {
			dst = append(dst, src[row*w.Dim(1):][r[0]:r[1]]...)
		}
	}
	shape := slices.Clone(w.Shape())
	shape[1] = count
	return addConstant(g, dst, shape...)
}
