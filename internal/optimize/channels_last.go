package optimize

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/internal/ops/msft"
	"github.com/onward-ml/onward/tensor"
)

// channelsLast converts regions of quantized convolutions to the layout N×H×W×C, in which their
// kernels read and write. Otherwise each convolution transposes its input and its output. Values
// are converted at the borders of regions. ONNX Runtime has such a pass, too, for the operators of
// com.microsoft that it uses here.
func channelsLast(o *Options, g *ir.Graph) (int, error) {
	if l := cpu.Active(); !cpu.VNNI(l) && !cpu.DotProduct(l) {
		return 0, nil
	}
	l := &laster{o: o, g: g, plans: map[*ir.Node]*lastPlan{}, made: map[ir.ValueID]*ir.Node{}}
	if any, err := l.choose(); err != nil || !any {
		return 0, err
	}
	return l.rewrite(), nil
}

// lastPlan describes how a node runs on images with the channels last.
type lastPlan struct {
	op           ir.Operator
	in           []int // inputs that are images
	kind, domain string
}

type laster struct {
	o     *Options
	g     *ir.Graph
	plans map[*ir.Node]*lastPlan
	made  map[ir.ValueID]*ir.Node // what computes a value with the channels last
}

// image reports whether a value is a batch of images of bytes.
func (l *laster) image(id ir.ValueID) bool {
	t := l.g.Values[id].Type
	return len(t.Shape) == 4 && (t.Elem == tensor.TypeUint8 || t.Elem == tensor.TypeInt8) && l.g.Values[id].Const == nil
}

// choose selects the nodes and reports whether a convolution is among them that reads or
// feeds another of them.
func (l *laster) choose() (bool, error) {
	read := map[ir.ValueID]bool{} // by planned nodes
	for _, n := range l.g.Nodes {
		if err := l.o.err(); err != nil {
			return false, err
		}
		if len(n.Out) != 1 || len(n.In) == 0 || !l.image(n.Out[0]) {
			continue
		}
		p := l.plan(n)
		if p == nil {
			continue
		}
		l.plans[n], l.made[n.Out[0]] = p, n
		for _, i := range p.in {
			read[n.In[i]] = true
		}
	}
	any := false
	for n := range l.plans {
		if _, ok := n.Op.(*ops.QLinearConv); !ok {
			continue
		}
		if l.made[n.In[0]] == nil && !read[n.Out[0]] {
			delete(l.plans, n) // alone: its kernel transposes a few rows at a time
			delete(l.made, n.Out[0])
			continue
		}
		any = true
	}
	return any, nil
}

func (l *laster) plan(n *ir.Node) *lastPlan {
	first := func(op ir.Operator) *lastPlan { return &lastPlan{op, []int{0}, n.OpType, n.Domain} }
	if cv, ok := n.Op.(*ops.QLinearConv); ok {
		if cv.ChannelsLast || !l.image(n.In[0]) || !l.packs(n, cv) {
			return nil
		}
		c := *cv
		c.ChannelsLast = true
		return first(&c)
	}
	switch op := n.Op.(type) {
	case *msft.QLinearAdd, *msft.QLinearMul:
		return l.binary(n)
	case *msft.QLinearConcat:
		return l.concat(n, op)
	}
	if l.made[n.In[0]] == nil {
		return nil
	}
	switch op := n.Op.(type) {
	case *msft.QLinearGlobalAveragePool:
		return first(&msft.QLinearGlobalAveragePool{ChannelsLast: true})
	case *msft.QLinearAveragePool:
		p := *op
		p.ChannelsLast = true
		return first(&p)
	case *ops.MaxPool:
		return &lastPlan{&msft.NhwcMaxPool{MaxPool: *op}, []int{0}, "NhwcMaxPool", kit.DomainMicrosoft}
	case *blocked.ByteMap:
		return first(op)
	}
	return nil
}

// packs reports whether the byte kernels support the weights of a convolution.
func (l *laster) packs(n *ir.Node, cv *ops.QLinearConv) bool {
	w, z := constTensor(l.g, n, 3), constTensor(l.g, n, 5)
	return w != nil && z != nil && w.Rank() == 4 && window.ConvPacksLast(w, z, cv.Group)
}

// binary plans an operator of two images of which one is in the layout already. The other may have
// fewer pixels, as the factors of squeeze and excitation have.
func (l *laster) binary(n *ir.Node) *lastPlan {
	made := func(id ir.ValueID) bool { return l.made[id] != nil && sameShape(l.g, id, n.Out[0]) }
	x, y := n.In[0], n.In[3]
	if !l.image(x) || !l.image(y) || !made(x) && !made(y) {
		return nil
	}
	return &lastPlan{n.Op, []int{0, 3}, n.OpType, n.Domain}
}

func (l *laster) concat(n *ir.Node, op *msft.QLinearConcat) *lastPlan {
	if op.Axis != 1 && op.Axis != -3 {
		return nil
	}
	p := &lastPlan{op: &msft.QLinearConcat{Axis: 3}, kind: n.OpType, domain: n.Domain}
	any := false
	for i := 2; i < len(n.In); i += 3 {
		if !l.image(n.In[i]) {
			return nil
		}
		any = any || l.made[n.In[i]] != nil
		p.in = append(p.in, i)
	}
	if !any {
		return nil
	}
	return p
}

// rewrite replaces the planned nodes and inserts conversions at the borders of regions.
func (l *laster) rewrite() int {
	g := l.g
	first := make([]bool, len(g.Values)) // read with the channels first
	for _, id := range g.Outputs {
		first[id] = true
	}
	for _, n := range g.Nodes {
		if l.plans[n] == nil {
			n.EachUse(func(id ir.ValueID) { first[id] = true })
		}
	}
	twins := map[ir.ValueID]ir.ValueID{} // the value with the channels last
	var nodes []*ir.Node
	twin := func(id ir.ValueID) ir.ValueID {
		t, ok := twins[id]
		if !ok {
			v := g.Values[id]
			t = g.NewValue(v.Name+" (channels last)",
				ir.TensorType(v.Type.Elem, window.ChannelsLastShape(v.Type.Shape)...))
			twins[id] = t
		}
		return t
	}
	move := func(n *ir.Node, last bool, from, to ir.ValueID) {
		nodes = append(nodes,
			&ir.Node{Name: n.Name, OpType: "MoveChannels", Domain: internalDomain, Op: &ops.MoveChannels{ToLast: last},
				In: []ir.ValueID{from}, Out: []ir.ValueID{to}})
	}
	for _, n := range g.Nodes {
		p := l.plans[n]
		if p == nil {
			nodes = append(nodes, n)
			continue
		}
		in := append([]ir.ValueID{}, n.In...)
		for _, i := range p.in {
			id := n.In[i]
			if _, ok := twins[id]; !ok {
				move(n, true, id, twin(id))
			}
			in[i] = twin(id)
		}
		out := n.Out[0]
		nodes = append(nodes, &ir.Node{Name: n.Name, OpType: p.kind, Domain: p.domain, Opset: n.Opset, Op: p.op, In: in,
			Out: []ir.ValueID{twin(out)}})
		if first[out] {
			move(n, false, twin(out), out)
		}
	}
	g.Nodes = nodes
	return len(l.plans)
}
