package optimize

import (
	"context"
	"slices"
	"strings"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// Batch says how a graph can be divided along the first axis of its inputs, the batch: each part of
// the results depends on the same part of the inputs alone.
type Batch struct {
	Inputs  []bool // per graph input: it is divided; the others are those of all parts
	Outputs []bool // per graph output: it is divided; the others are equal in all parts
	Size    int    // of the batch, or 0 if it is not known

	// Numbers of elements of constants by which the graph multiplies: those whose number of uses
	// per element of the batch depends on other free dimensions, those that are used at least
	// [FewUses] times, and fewer times.
	Free, Many, Few float64
	Known           float64 // multiplications per element of the batch by those that are not free
}

// FewUses is the number of uses below which reading a weight takes longer than multiplying by it.
const FewUses = 16

// leastWeight is the number of elements that a weight has in graphs that are worth a division.
const leastWeight = 1 << 10

// batchSymbol is the size of the batch in the analysis. No file has a dimension of this name, since
// the names of symbols with a dot are in quotes.
const batchSymbol = "onward_batch_size"

// States of values other than the axis that holds the batch.
const (
	shared  = -1 // equal in all parts
	counted = -2 // computed from the size of the batch
	unknown = -3
)

// FindBatch returns how a graph before optimization can be divided, or nil. Graphs of small weights
// are examined only if small is set.
func FindBatch(ctx context.Context, g *ir.Graph, small bool, o *Options) *Batch {
	b := &batchFinder{batch: &Batch{Inputs: make([]bool, len(g.Inputs)), Outputs: make([]bool, len(g.Outputs))}}
	heavy := func(n *ir.Node) bool { return weight(g, n) >= leastWeight }
	if b.inputs(g); !slices.Contains(b.batch.Inputs, true) || !small && !slices.ContainsFunc(g.Nodes, heavy) {
		return nil
	}
	g = g.Clone()
	for i, id := range g.Inputs {
		if b.batch.Inputs[i] {
			t := &g.Values[id].Type
			t.Shape = slices.Clone(t.Shape)
			t.Shape[0] = ir.Symbol(batchSymbol)
		}
	}
	if b.g = g; Resolve(ctx, g, o) != nil {
		return nil
	}
	b.axes = make([]int, len(g.Values))
	for i := range b.axes {
		b.axes[i] = shared
	}
	for i, id := range g.Inputs {
		if b.batch.Inputs[i] {
			b.axes[id] = 0
		}
	}
	for _, n := range g.Nodes {
		if !b.node(n) {
			return nil
		}
	}
	for i, id := range g.Outputs {
		b.batch.Outputs[i] = b.axes[id] == 0
		if a := b.axes[id]; a != shared && (a != 0 || !sliceable(g.Values[id].Type)) {
			return nil
		}
	}
	if !slices.Contains(b.batch.Outputs, true) {
		return nil
	}
	return b.batch
}

type batchFinder struct {
	g     *ir.Graph
	batch *Batch
	axes  []int // per value: the axis whose equal parts belong to parts of the batch, or a state
}

// inputs finds the inputs that are divided: those whose first dimension is that of the first one.
func (b *batchFinder) inputs(g *ir.Graph) {
	var first *ir.Dim
	for i, id := range g.Inputs {
		t := g.Values[id].Type
		if g.Defaults[id] != nil || len(t.Shape) == 0 || !sliceable(t) {
			continue
		}
		if first == nil {
			first = &t.Shape[0]
			size, known := first.Value()
			if b.batch.Size = size; known && size < 2 {
				return
			}
		}
		b.batch.Inputs[i] = t.Shape[0] == *first
	}
}

// sliceable reports whether a part of a tensor's first axis has whole bytes of its own.
func sliceable(t ir.Type) bool {
	return t.Kind == tensor.KindTensor && t.Elem.Size() > 0 && t.Elem != tensor.TypeString
}

func hasBatch(d ir.Dim) bool { return strings.Contains(d.String(), batchSymbol) }

func (b *batchFinder) shape(id ir.ValueID) []ir.Dim { return b.g.Values[id].Type.Shape }

// axis returns the state of input k of a node, shared if it is omitted.
func (b *batchFinder) axis(n *ir.Node, k int) int {
	if k >= len(n.In) || n.In[k] == ir.None {
		return shared
	}
	return b.axes[n.In[k]]
}

// node determines the states of the outputs of a node, and reports whether each is known and agrees
// with the inferred shape.
func (b *batchFinder) node(n *ir.Node) bool {
	if _, random := n.Op.(ir.Nondeterministic); random {
		return false
	}
	state, divided := shared, false
	n.EachUse(func(id ir.ValueID) {
		switch a := b.axes[id]; {
		case a >= 0:
			divided = true
		case a == counted:
			state = counted
		}
	})
	for k, id := range n.Out {
		if id == ir.None {
			continue
		}
		axis := state
		switch {
		case divided && len(n.Graphs) > 0:
			return false
		case divided:
			axis = b.divided(n, k)
		case state == counted:
			axis = b.counted(n)
		}
		if axis == unknown || axis != counted && !b.agrees(id, axis) {
			return false
		}
		b.axes[id] = axis
	}
	b.weigh(n)
	return true
}

// agrees reports whether a value has the batch in an axis, and nowhere else.
func (b *batchFinder) agrees(id ir.ValueID, axis int) bool {
	v := &b.g.Values[id]
	if axis >= len(v.Type.Shape) || slices.ContainsFunc(v.Contents, hasBatch) {
		return false
	}
	for i, d := range v.Type.Shape {
		if hasBatch(d) != (i == axis) {
			return false
		}
	}
	return true
}

// counted returns the state of the result of a node without divided inputs that depends on the size
// of the batch.
func (b *batchFinder) counted(n *ir.Node) int {
	v := &b.g.Values[n.Out[0]]
	switch n.Op.(type) {
	case *ops.ConstantOfShape, *ops.Expand:
		axis := slices.IndexFunc(v.Type.Shape, hasBatch)
		if n.OpType == "Expand" && axis >= 0 {
			if b.axis(n, 0) != shared {
				return unknown
			}
			x := b.shape(n.In[0])
			if at := axis - len(v.Type.Shape) + len(x); x == nil || at >= 0 && !x[at].Is(1) {
				return unknown
			}
		}
		if v.Type.Shape != nil && !slices.ContainsFunc(v.Type.Shape, ir.Dim.IsUnknown) {
			return axis
		}
		return unknown
	}
	return b.contents(n.Out[0])
}

// contents returns shared for a value whose elements are known and do not depend on the batch, and
// counted for others.
func (b *batchFinder) contents(id ir.ValueID) int {
	c := b.g.Values[id].Contents
	if c == nil || slices.ContainsFunc(c, func(d ir.Dim) bool { return d.IsUnknown() || hasBatch(d) }) {
		return counted
	}
	return shared
}

// divided returns the state of output k of a node with divided inputs.
func (b *batchFinder) divided(n *ir.Node, k int) int {
	if k > 0 && !severalOutputs(n) {
		return unknown
	}
	first := b.axis(n, 0)
	out := b.shape(n.Out[k])
	only := first >= 0 && b.others(n, 0)
	rank := 0
	if n.In[0] != ir.None {
		rank = len(b.shape(n.In[0]))
	}
	keeps := func(ok bool) int {
		if ok && only {
			return first
		}
		return unknown
	}
	other := func(axis int) bool { // operators work along an axis
		a, err := kit.NormalAxis(axis, rank)
		return err == nil && a != first
	}
	switch op := n.Op.(type) {
	case *ops.Shape, *ops.Size:
		return b.contents(n.Out[0])
	case *ops.Reshape, *ops.Flatten, *ops.Squeeze, *ops.Unsqueeze:
		return b.reshaped(n)
	case *ops.Transpose:
		if op.Perm == nil {
			return rank - 1 - first
		}
		return slices.Index(op.Perm, first)
	case *ops.Cast:
		return keeps(true)
	case *ops.Conv, *ops.ConvTranspose, *ops.MaxPool, *ops.AveragePool, *ops.LpPool, *ops.GlobalAveragePool,
		*ops.GlobalMaxPool, *ops.InstanceNormalization, *ops.GroupNormalization, *ops.LRN, *ops.DepthToSpace,
		*ops.SpaceToDepth, *ops.QLinearConv, *ops.ConvInteger:
		return keeps(first == 0)
	case *ops.BatchNormalization:
		return keeps(first == 0 && !op.Training)
	case *ops.Dropout:
		return keeps(k == 0 && (len(n.In) < 3 || n.In[2] == ir.None))
	case *ops.Softmax:
		return keeps(alongOther(&op.SoftmaxAxis, first, rank))
	case *ops.LogSoftmax:
		return keeps(alongOther(&op.SoftmaxAxis, first, rank))
	case *ops.LayerNormalization:
		return keeps(behind(op.Axis, first, rank))
	case *ops.RMSNormalization:
		return keeps(behind(op.Axis, first, rank))
	case *ops.TopK:
		return keeps(other(op.Axis))
	case *ops.Split:
		return keeps(other(op.Axis))
	case *ops.Pad, *ops.Resize, *ops.Slice, *ops.Tile:
		_, slices := n.Op.(*ops.Slice)
		_, pads := n.Op.(*ops.Pad)
		if first < 0 || !b.othersBut(n, 0, counted) || len(out) != rank || !out[first].Same(b.shape(n.In[0])[first]) ||
			slices && !b.slicesOthers(n, first) || pads && !b.padsOthers(n, first) {
			return unknown
		}
		return first
	case *ops.Expand:
		if first < 0 || len(b.shape(n.In[0])) == 0 {
			return unknown
		}
		return first + len(out) - rank
	case *ops.Concat:
		for i := range n.In {
			if b.axis(n, i) != first {
				return unknown
			}
		}
		if first >= 0 && other(op.Axis) {
			return first
		}
		return unknown
	case *ops.Gather:
		axis, err := kit.NormalAxis(op.Axis, rank)
		switch at := b.axis(n, 1); {
		case err != nil:
		case first == shared && at >= 0:
			return axis + at
		case at == shared && first >= 0 && first < axis:
			return first
		case at == shared && first > axis:
			return first - 1 + len(b.shape(n.In[1]))
		}
		return unknown
	case *ops.MatMul, *ops.MatMulInteger:
		return b.product(n, out)
	case *ops.Gemm:
		return keeps(first == 0 && !op.TransA)
	case *ops.Attention:
		for i, id := range n.In {
			if a := b.axis(n, i); a > 0 || a == counted || i < 3 && a != 0 ||
				a == shared && id != ir.None && len(b.shape(id)) > 3 && !b.shape(id)[0].Is(1) {
				return unknown
			}
		}
		return 0
	}
	if r, ok := reduction(n.Op); ok {
		return b.reduced(n, r, first, rank)
	}
	if d := definition(n); d != nil && d.Elementwise && (n.Domain != "" || n.Opset >= 7) {
		return b.broadcast(n, out)
	}
	if n.OpType == "QuantizeLinear" || n.OpType == "DequantizeLinear" {
		return keeps(len(b.shape(n.In[1])) == 0)
	}
	return unknown
}

// severalOutputs reports whether the outputs of a node behind the first are as the first.
func severalOutputs(n *ir.Node) bool {
	switch n.Op.(type) {
	case *ops.Split, *ops.TopK, *ops.Attention:
		return true
	}
	return false
}

// others reports whether the inputs of a node but one are shared.
func (b *batchFinder) others(n *ir.Node, but int) bool { return b.othersBut(n, but, shared) }

// othersBut is others that allows another state too.
func (b *batchFinder) othersBut(n *ir.Node, but, also int) bool {
	for i := range n.In {
		if a := b.axis(n, i); i != but && a != shared && a != also {
			return false
		}
	}
	return true
}

// behind reports whether the axes from one on do not include that of the batch.
func behind(axis, batch, rank int) bool {
	a, err := kit.NormalAxis(axis, rank)
	return err == nil && a > batch
}

func alongOther(s *reduce.SoftmaxAxis, batch, rank int) bool {
	a, err := kit.NormalAxis(s.Axis, rank)
	return err == nil && (a > batch || !s.Flatten && a != batch)
}

// reshaped returns the axis that has the batch after a change of the shape: with the same
// dimensions before it.
func (b *batchFinder) reshaped(n *ir.Node) int {
	x, y, axis := b.shape(n.In[0]), b.shape(n.Out[0]), b.axis(n, 0)
	if axis < 0 || !b.othersBut(n, 0, counted) {
		return unknown
	}
	real := func(s []ir.Dim) []ir.Dim {
		return slices.DeleteFunc(slices.Clone(s), func(d ir.Dim) bool { return d.Is(1) })
	}
	at := slices.IndexFunc(y, hasBatch)
	if at < 0 || !slices.EqualFunc(real(x[:axis]), real(y[:at]), ir.Dim.Same) {
		return unknown
	}
	return at
}

// broadcast returns the axis that has the batch in the result of an elementwise operator.
func (b *batchFinder) broadcast(n *ir.Node, out []ir.Dim) int {
	axis := unknown
	for i, id := range n.In {
		if a := b.axis(n, i); a == counted {
			return unknown
		} else if a >= 0 {
			at := a + len(out) - len(b.shape(id))
			if axis != unknown && at != axis {
				return unknown
			}
			axis = at
		}
	}
	if axis == unknown || !b.onesAt(n, axis, len(out)) {
		return unknown
	}
	return axis
}

// onesAt reports whether the shared inputs of a node have no axis, or a 1, at an axis of a result
// of a rank.
func (b *batchFinder) onesAt(n *ir.Node, axis, rank int) bool {
	for i, id := range n.In {
		if b.axis(n, i) != shared || id == ir.None {
			continue
		}
		s := b.shape(id)
		if at := axis - rank + len(s); s == nil || at >= 0 && !s[at].Is(1) {
			return false
		}
	}
	return true
}

// product returns the axis that has the batch in a matrix product.
func (b *batchFinder) product(n *ir.Node, out []ir.Dim) int {
	x, y := b.shape(n.In[0]), b.shape(n.In[1])
	ax, ay := b.axis(n, 0), b.axis(n, 1)
	if len(x) < 2 || len(y) < 2 || ax == counted || ay == counted || !b.othersButTwo(n) {
		return unknown
	}
	switch {
	case ay == shared && ax == len(x)-2: // rows
		if slices.ContainsFunc(y[:len(y)-2], func(d ir.Dim) bool { return !d.Is(1) }) {
			return unknown
		}
		return len(out) - 2
	case ax >= len(x)-2 || ay >= len(y)-2:
		return unknown
	}
	return b.broadcast(n, out)
}

// othersButTwo reports whether the inputs of a node behind the second are shared.
func (b *batchFinder) othersButTwo(n *ir.Node) bool {
	for i := 2; i < len(n.In); i++ {
		if b.axis(n, i) != shared {
			return false
		}
	}
	return true
}

func reduction(op ir.Operator) (keepDims, ok bool) {
	switch op := op.(type) {
	case *ops.ReduceMean:
		return op.KeepDims, true
	case *ops.ReduceSum:
		return op.KeepDims, true
	case *ops.ReduceMax:
		return op.KeepDims, true
	case *ops.ReduceMin:
		return op.KeepDims, true
	case *ops.ReduceL2:
		return op.KeepDims, true
	}
	return false, false
}

// reduced returns the axis that has the batch after a reduction over constant axes.
func (b *batchFinder) reduced(n *ir.Node, keepDims bool, axis, rank int) int {
	axes := b.ints(n, 1)
	if axis < 0 || len(axes) == 0 {
		return unknown
	}
	before := 0
	for _, a := range axes {
		k, err := kit.NormalAxis(a, rank)
		if err != nil || k == axis {
			return unknown
		}
		if k < axis {
			before++
		}
	}
	if keepDims {
		return axis
	}
	return axis - before
}

// slicesOthers reports whether a Slice has constant axes without that of the batch.
func (b *batchFinder) slicesOthers(n *ir.Node, axis int) bool {
	axes := b.ints(n, 3)
	for _, a := range axes {
		if k, err := kit.NormalAxis(a, len(b.shape(n.In[0]))); err != nil || k == axis {
			return false
		}
	}
	return len(axes) > 0
}

// ints returns the elements of a constant input, nil for others.
func (b *batchFinder) ints(n *ir.Node, k int) []int {
	if t := constTensor(b.g, n, k); t != nil {
		if v, err := kit.AnyInts(t); err == nil {
			return v
		}
	}
	return nil
}

// padsOthers reports whether constant pads are zero for the axis of the batch.
func (b *batchFinder) padsOthers(n *ir.Node, axis int) bool {
	pads, rank := b.ints(n, 1), len(b.shape(n.In[0]))
	return len(pads) == 2*rank && (len(n.In) < 4 || n.In[3] == ir.None) && pads[axis] == 0 && pads[axis+rank] == 0
}

// weight returns the number of elements of a constant by which a node multiplies, or 0.
func weight(g *ir.Graph, n *ir.Node) int {
	d := definition(n)
	if d == nil || d.MACs == nil || len(n.In) < 2 || n.In[1] == ir.None {
		return 0
	}
	if w, ok := g.Values[n.In[1]].Const.(*tensor.Tensor); ok && w.Rank() > 1 {
		return w.Len()
	}
	return 0
}

// weigh adds the constants by which a node multiplies to the counts.
func (b *batchFinder) weigh(n *ir.Node) {
	size := float64(weight(b.g, n))
	if size == 0 {
		return
	}
	out := b.shape(n.Out[0])
	channels := len(out) - 1
	if _, ok := n.Op.(*ops.Conv); ok {
		channels = 1
	}
	uses := 1.
	for i, dim := range out {
		if i == channels || hasBatch(dim) {
			continue
		}
		v, known := dim.Value()
		if !known {
			b.batch.Free += size
			return
		}
		uses *= float64(v)
	}
	if uses < FewUses {
		b.batch.Few += size
	} else {
		b.batch.Many += size
	}
	b.batch.Known += size * uses
}
