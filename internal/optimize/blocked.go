package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// blockLayout converts regions of convolutions to the blocked layout NCHW16c, in which they and the
// operators between them are fastest. Values are converted at the borders of regions. Channels,
// height and width of images must be known, but not the number of images. Convolutions over one
// axis run on images of height 1.
func blockLayout(o *Options, g *ir.Graph) (int, error) {
	b := &blocker{o: o, g: g, made: map[ir.ValueID]bool{}, border: map[ir.ValueID][4]int{},
		plans: map[*ir.Node]*blockPlan{}, absorbed: map[*ir.Node]bool{}}
	if any, err := b.choose(); err != nil || !any {
		return 0, err
	}
	b.dropLone()
	return b.rewrite()
}

// image is the fixed part of an N×C×H×W shape, of N×C×W with a height of 1, or of
// N×C with one pixel.
type image struct {
	c, h, w, rank int
}

// blockPlan describes how a node runs on blocked images.
type blockPlan struct {
	in     []ir.ValueID // values that it reads blocked
	planar bool         // input 0 is read as N×C×H×W
	// make returns the operator for the layouts of in and of the output.
	make func(in []blocked.Layout, out blocked.Layout) (ir.Operator, error)
}

type blocker struct {
	o      *Options
	g      *ir.Graph
	made   map[ir.ValueID]bool   // values computed by blocked nodes
	border map[ir.ValueID][4]int // border that consumers need: top, left, bottom, right
	plans  map[*ir.Node]*blockPlan
	// absorbed nodes are part of the convolution that reads their result.
	absorbed map[*ir.Node]bool
	producer []int
	uses     []int
}

// imageOf returns the image size of a value that can be blocked.
func (b *blocker) imageOf(id ir.ValueID) (image, bool) {
	s := b.g.Values[id].Type.Shape
	if !isFloat(b.g, id) || len(s) < 2 || len(s) > 4 {
		return image{}, false
	}
	d, ok := ir.Ints(s[1:])
	switch len(d) {
	case 1:
		d = []int{d[0], 1, 1}
	case 2:
		d = []int{d[0], 1, d[1]}
	}
	if !ok || d[0] < 1 || d[1] < 1 || d[2] < 1 {
		return image{}, false
	}
	// Image sizes come from files, so check that their product does not overflow.
	if n, err := tensor.Elements([]int{d[0] + 16, d[1] + 1024, d[2] + 1024, 4}); err != nil || int64(n) > 1<<40 {
		return image{}, false
	}
	return image{d[0], d[1], d[2], len(s)}, true
}

// choose selects the nodes that run blocked, in order, and reports whether there is a convolution
// among them.
func (b *blocker) choose() (bool, error) {
	any := false
	b.producer, b.uses = b.g.Producers(), b.g.Uses()
	split := map[*ir.Node][]*ir.Node{}
	for _, n := range b.g.Nodes {
		if err := b.o.err(); err != nil {
			return false, err
		}
		if parts := b.split(n); parts != nil {
			split[n] = parts
			continue
		}
		if len(n.Out) == 0 || n.Out[0] == ir.None {
			continue
		}
		for _, o := range n.Out[1:] {
			if o != ir.None {
				n = nil
				break
			}
		}
		if n == nil {
			continue
		}
		out, ok := b.imageOf(n.Out[0])
		if !ok {
			continue
		}
		var p *blockPlan
		switch op := n.Op.(type) {
		case *ops.Conv:
			p = b.conv(n, &ops.FusedConv{Conv: *op}, out)
			any = any || p != nil
		case *ops.FusedConv:
			p = b.conv(n, op, out)
			any = any || p != nil
		case *ops.MaxPool, *ops.AveragePool:
			p = b.neutral(n, 1, func(in []blocked.Layout, out blocked.Layout) (ir.Operator, error) {
				return blocked.NewPool(n.Op, in[0], out)
			})
		case *ops.GlobalAveragePool, *ops.GlobalMaxPool:
			_, largest := op.(*ops.GlobalMaxPool)
			p = b.global(n, largest)
		case *ops.ReduceMean:
			p = b.reduction(n, &op.Reduction, false)
		case *ops.ReduceMax:
			p = b.reduction(n, &op.Reduction, true)
		case *blocked.ChannelAffine:
			p = b.neutral(n, 1, func(in []blocked.Layout, out blocked.Layout) (ir.Operator, error) {
				return blocked.NewAffine(op, in[0], out), nil
			})
		case *ops.LRN:
			p = b.neutral(n, 1, func(in []blocked.Layout, out blocked.Layout) (ir.Operator, error) {
				return &blocked.LRN{LRN: *op, In: in[0], Out: out}, nil
			})
		case *blocked.ChannelShuffle:
			p = b.neutral(n, 1, func(in []blocked.Layout, out blocked.Layout) (ir.Operator, error) {
				return blocked.NewShuffle(op, in[0], out), nil
			})
		case *ops.Add, *ops.Sub, *ops.Mul, *ops.Sum:
			p = b.binary(n, out)
		case *ops.Concat:
			if p = b.concat(n, op, out); p == nil {
				p = b.circular(n, op, out)
			}
		case *ops.Slice:
			p = b.sliced(n)
		case *ops.Pad:
			p = b.mirrored(n, op, out)
		case *ops.Resize:
			p = b.resize(n, op, out)
		default:
			p = b.unary(n)
		}
		if p == nil {
			continue
		}
		b.plan(n, p)
	}
	if len(split) > 0 {
		var nodes []*ir.Node
		for _, n := range b.g.Nodes {
			if parts := split[n]; parts != nil {
				nodes = append(nodes, parts...)
			} else {
				nodes = append(nodes, n)
			}
		}
		b.g.Nodes = nodes
	}
	return any, nil
}

func (b *blocker) plan(n *ir.Node, p *blockPlan) {
	b.plans[n] = p
	b.made[n.Out[0]] = true
}

// split plans a Split of blocked channels into multiples of four, if an operator reads a part that
// may run blocked. It returns a node for each part.
func (b *blocker) split(n *ir.Node) []*ir.Node {
	op, ok := n.Op.(*ops.Split)
	if !ok || !b.made[n.In[0]] || !b.readBlocked(n.Out) {
		return nil
	}
	if rank := len(b.g.Values[n.In[0]].Type.Shape); op.Axis != 1 && op.Axis != 1-rank {
		return nil
	}
	var parts []*ir.Node
	channel := 0
	for i, id := range n.Out {
		if id == ir.None {
			return nil
		}
		im, ok := b.imageOf(id)
		if !ok || i < len(n.Out)-1 && im.c%4 != 0 {
			return nil
		}
		part := *n
		part.Out = []ir.ValueID{id}
		parts = append(parts, &part)
	}
	for _, part := range parts {
		from := channel
		b.plan(part, &blockPlan{in: n.In[:1:1],
			make: func(in []blocked.Layout, out blocked.Layout) (ir.Operator, error) {
				return &blocked.Concat{In: in, Out: out, From: from}, nil
			}})
		im, _ := b.imageOf(part.Out[0])
		channel += im.c
	}
	return parts
}

// readBlocked reports whether a convolution, arithmetic or a Concat reads one of the values.
func (b *blocker) readBlocked(values []ir.ValueID) bool {
	for _, n := range b.g.Nodes {
		switch n.Op.(type) {
		case *ops.Conv, *ops.FusedConv, *ops.Add, *ops.Mul, *ops.Concat:
			for _, id := range n.In {
				if slices.Contains(values, id) && id != ir.None {
					return true
				}
			}
		}
	}
	return false
}

// conv plans a convolution with constant weights, and requests the border of its input that the
// window reads.
func (b *blocker) conv(n *ir.Node, cv *ops.FusedConv, out image) *blockPlan {
	in, ok := b.imageOf(n.In[0])
	w, bias := constTensor(b.g, n, 1), constTensor(b.g, n, 2)
	if !ok || w == nil || w.DType() != tensor.TypeFloat32 || len(n.In) > 2 && n.In[2] != ir.None && bias == nil {
		return nil
	}
	if in.rank == 3 && out.rank == 3 && w.Rank() == 3 {
		plane := *cv
		plane.Window = cv.Plane()
		// Plans share weights that are packed from the same tensor.
		kernel, err := ir.Packed(b.o.Packs, "plane", w, nil, func() (*tensor.Tensor, int64, error) {
			t, err := w.Reshape(w.Dim(0), w.Dim(1), 1, w.Dim(2))
			return t, 0, err
		})
		if err != nil {
			return nil
		}
		cv, w = &plane, kernel
	} else if in.rank != 4 || out.rank != 4 || w.Rank() != 4 {
		return nil
	}
	geo, err := cv.Geometry2(in.h, in.w, w.Shape()[2:])
	if err != nil || w.Dim(0) != out.c || w.Dim(1)*cv.Group != in.c || geo.OutH != out.h || geo.OutW != out.w {
		return nil
	}
	if out.c > in.c && ops.LoneDepthwise(cv.Group, in.c, out.c) ||
		cv.Group == 1 && b.byRows(n) {
		return nil
	}
	const most = 64 // pixels; with a wider border the plain layout is faster
	if max(geo.Top, geo.Left, geo.Bottom, geo.Right) > most {
		return nil
	}
	hasAdd := len(n.In) > 3 && n.In[3] != ir.None
	if hasAdd {
		if z, ok := b.imageOf(n.In[3]); !ok || z != out {
			return nil
		}
	}
	p := &blockPlan{planar: blocked.ReadsNCHW(in.c, cv.Group)}
	var order []int
	if s := only(b.g, n.In[0], b.producer, b.uses); s != nil && b.plans[s] != nil &&
		blocked.PermutesInput(&cv.Conv, w.Shape(), geo) {
		if op, ok := s.Op.(*blocked.ChannelShuffle); ok {
			order = op.Order(in.c)
			p.in = append(p.in, s.In[0])
			b.absorbed[s] = true
		}
	}
	if !p.planar && order == nil {
		p.in = append(p.in, n.In[0])
		b.wantBorder(n.In[0], blocked.InputBorder(&cv.Conv, w.Shape(), in.c, in.h, in.w, geo))
	}
	if hasAdd {
		p.in = append(p.in, n.In[3])
	}
	p.make = func(layouts []blocked.Layout, out blocked.Layout) (ir.Operator, error) {
		lin := blocked.Layout{C: in.c, H: in.h, W: in.w}
		if !p.planar {
			lin = layouts[0]
		}
		var add *blocked.Layout
		if hasAdd {
			add = &layouts[len(layouts)-1]
		}
		return blocked.NewConv(&cv.Conv, w, bias, lin, out, add, cv.Act, order, b.o.Packs)
	}
	return p
}

func (b *blocker) wantBorder(id ir.ValueID, want [4]int) {
	have := b.border[id]
	for i := range have {
		have[i] = max(have[i], want[i])
	}
	b.border[id] = have
}

// neutral plans a node that is worth blocking only if its input is blocked.
func (b *blocker) neutral(n *ir.Node, count int,
	mk func(in []blocked.Layout, out blocked.Layout) (ir.Operator, error)) *blockPlan {
	if !b.made[n.In[0]] {
		return nil
	}
	return &blockPlan{in: n.In[:count:count], make: mk}
}

// resize plans a Resize of heights and widths that selects elements.
func (b *blocker) resize(n *ir.Node, op *ops.Resize, out image) *blockPlan {
	in, ok := b.imageOf(n.In[0])
	if !ok || in.rank != 4 || out.rank != 4 || !b.sameBatch(n.In[0], n.Out[0]) {
		return nil
	}
	scales := constTensor(b.g, n, op.ScalesInput)
	if scales != nil && scales.Len() == 0 {
		scales = nil
	}
	if sizes := len(n.In) > 3 && n.In[3] != ir.None; sizes != (scales == nil) {
		return nil
	}
	batch, ok := b.g.Values[n.In[0]].Type.Shape[0].Value()
	if !ok {
		batch = 1
	}
	index := op.NearestIndices([]int{batch, in.c, in.h, in.w}, []int{batch, out.c, out.h, out.w}, scales)
	for axis, list := range index {
		for i, k := range list {
			if axis < 2 && i != k {
				return nil
			}
		}
	}
	if index == nil {
		return nil
	}
	if !b.made[n.In[0]] {
		return nil
	}
	return selects(n.In[0], index[2], index[3])
}

// global plans the mean of each plane, or its maximum if largest is set.
func (b *blocker) global(n *ir.Node, largest bool) *blockPlan {
	return b.neutral(n, 1, func(in []blocked.Layout, out blocked.Layout) (ir.Operator, error) {
		return &blocked.GlobalPool{In: in[0], Out: out, Max: largest}, nil
	})
}

// reduction is global for reductions of all axes but the first two.
func (b *blocker) reduction(n *ir.Node, r *reduce.Reduction, largest bool) *blockPlan {
	if !reducesPlanes(b.g, n, r) {
		return nil
	}
	return b.global(n, largest)
}

// reducesPlanes reports whether a reduction makes one element of each plane.
func reducesPlanes(g *ir.Graph, n *ir.Node, r *reduce.Reduction) bool {
	rank, axes := len(g.Values[n.In[0]].Type.Shape), constTensor(g, n, 1)
	if rank < 3 || axes == nil {
		return false
	}
	mask, err := r.Mask(kit.Ints(axes), rank)
	return err == nil && !mask[0] && !mask[1] && !slices.Contains(mask[2:], false)
}

func (b *blocker) unary(n *ir.Node) *blockPlan {
	fn := vectorKernel(b.g, n)
	if fn == nil || !b.made[n.In[0]] {
		return nil
	}
	return &blockPlan{in: n.In[:1:1], make: func(in []blocked.Layout, out blocked.Layout) (ir.Operator, error) {
		return blocked.NewMap(fn, in[0], out), nil
	}}
}

func (b *blocker) binary(n *ir.Node, out image) *blockPlan {
	if len(n.In) != 2 || n.In[0] == ir.None || n.In[1] == ir.None {
		return nil
	}
	x, okX := b.imageOf(n.In[0])
	y, okY := b.imageOf(n.In[1])
	if !okX || !okY || !b.made[n.In[0]] && !b.made[n.In[1]] || !b.sameBatch(n.In[0], n.In[1]) {
		return nil
	}
	in := []ir.ValueID{n.In[0], n.In[1]}
	_, sub := n.Op.(*ops.Sub)
	pixel := image{out.c, 1, 1, out.rank}
	switch {
	case x == out && y == out, x == out && y == pixel:
	case y == out && x == pixel && !sub:
		in[0], in[1] = in[1], in[0]
	default:
		return nil
	}
	return &blockPlan{in: in, make: func(in []blocked.Layout, out blocked.Layout) (ir.Operator, error) {
		if op := blocked.NewBinary(n.Op, in[0], in[1], out, kit.Activation{}); op != nil {
			return op, nil
		}
		return nil, fail.Errorf("%T has no blocked form", n.Op)
	}}
}

// sameBatch reports whether two values have the same number of images.
func (b *blocker) sameBatch(x, y ir.ValueID) bool {
	return b.g.Values[x].Type.Shape[0].Same(b.g.Values[y].Type.Shape[0])
}

func (b *blocker) concat(n *ir.Node, op *ops.Concat, out image) *blockPlan {
	rank := len(b.g.Values[n.Out[0]].Type.Shape)
	if op.Axis != 1 && op.Axis != 1-rank {
		return nil
	}
	any := false
	for i, id := range n.In {
		if id == ir.None {
			return nil
		}
		im, ok := b.imageOf(id)
		if !ok || im.rank != out.rank || i < len(n.In)-1 && im.c%4 != 0 || !b.sameBatch(id, n.In[0]) {
			return nil
		}
		any = any || b.made[id]
	}
	if !any {
		return nil
	}
	return &blockPlan{in: n.In, make: func(in []blocked.Layout, out blocked.Layout) (ir.Operator, error) {
		return &blocked.Concat{In: in, Out: out}, nil
	}}
}

// layout returns the layout of a value, with the border that its consumers need.
func (b *blocker) layout(id ir.ValueID) blocked.Layout {
	im, _ := b.imageOf(id)
	w := b.border[id]
	return blocked.NewLayout(im.c, im.h, im.w, w[0], w[1], w[2], w[3])
}

// rewrite replaces the planned nodes and inserts conversions at the borders of regions.
func (b *blocker) rewrite() (int, error) {
	g := b.g
	planar := make([]bool, len(g.Values)) // blocked values that are also read as N×C×H×W
	for _, id := range g.Outputs {
		planar[id] = true
	}
	for _, n := range g.Nodes {
		p := b.plans[n]
		switch {
		case b.absorbed[n]:
		case p == nil:
			n.EachUse(func(id ir.ValueID) { planar[id] = true })
		case p.planar:
			planar[n.In[0]] = true
		}
	}
	twins := map[ir.ValueID]ir.ValueID{} // the blocked twin of a value
	twin := func(id ir.ValueID) ir.ValueID {
		t, ok := twins[id]
		if !ok {
			v := g.Values[id]
			t = g.NewValue(v.Name+" (blocked)", blocked.Type(v.Type.Shape[0], b.layout(id)))
			twins[id] = t
		}
		return t
	}
	var nodes []*ir.Node
	edits := 0
	free := constants{g: g, uses: g.Uses()}
	for _, n := range g.Nodes {
		p := b.plans[n]
		if b.absorbed[n] {
			edits++
			continue
		}
		if p == nil {
			nodes = append(nodes, n)
			continue
		}
		edits++
		var layouts []blocked.Layout
		var in []ir.ValueID
		if p.planar {
			in = append(in, n.In[0])
		}
		for _, id := range p.in {
			if _, ok := twins[id]; !ok {
				free.uses[id]++ // a constant image is kept for its conversion
				nodes = append(nodes, &ir.Node{Name: n.Name, OpType: "ToBlocked", Domain: internalDomain,
					Op: &blocked.ToBlocked{Out: b.layout(id)},
					In: []ir.ValueID{id}, Out: []ir.ValueID{twin(id)}})
			}
			in = append(in, twin(id))
			layouts = append(layouts, b.layout(id))
		}
		out := n.Out[0]
		op, err := p.make(layouts, b.layout(out))
		if err != nil {
			return 0, fail.Errorf("node %q: %w", n.Label(g), err)
		}
		p.make = nil // frees the weights
		for _, id := range n.In {
			if id != ir.None && g.Values[id].Const != nil {
				free.uses[id]--
				free.unused(id)
			}
		}
		nodes = append(nodes,
			&ir.Node{Name: n.Name, OpType: "Blocked" + n.OpType, Domain: internalDomain, Opset: n.Opset, Op: op,
				In: in, Out: []ir.ValueID{twin(out)}})
		if planar[out] {
			nodes = append(nodes, &ir.Node{Name: n.Name, OpType: "FromBlocked", Domain: internalDomain,
				Op: &blocked.FromBlocked{In: b.layout(out), Rank: len(g.Values[out].Type.Shape)},
				In: []ir.ValueID{twin(out)}, Out: []ir.ValueID{out}})
		}
	}
	g.Nodes = nodes
	return edits, nil
}

// internalDomain is the domain of operators that are not part of model files.
const internalDomain = "onward"
