package optimize

import (
	"slices"
	"unsafe"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/tensor"
)

// fold computes nodes whose inputs are all constant, and infers the types of other nodes again with
// the new constants (constant folding).
//
// The results must not need memory out of proportion to the model: what a result needs beyond the
// constants that it replaces counts against MaxFolded and the size of the model's own constants. A
// node that would exceed them is not folded. Constants without uses are freed at once.
func fold(o *Options, g *ir.Graph) (int, error) {
	edits := 0
	uses := g.Uses()
	kept := g.Nodes[:0:0]
	for _, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		if err := reinfer(o, g, n); err != nil {
			return 0, err
		}
		if foldContents(g, n) || foldNode(o, g, n, uses) {
			edits++
			continue
		}
		kept = append(kept, n)
	}
	g.Nodes = kept
	return edits, nil
}

// constantBytes returns the size of the constants of a graph and its subgraphs.
func constantBytes(g *ir.Graph) int64 {
	var n int64
	for i := range g.Values {
		if c := g.Values[i].Const; c != nil {
			n += tensor.SizeOf(c)
		}
	}
	for _, node := range g.Nodes {
		for _, s := range node.Graphs {
			n += constantBytes(s)
		}
	}
	return n
}

// foldFloats folds constants, except quantized ones, which fuseQuantized needs.
func foldFloats(o *Options, g *ir.Graph) (int, error) {
	o.keepQuantized = true
	defer func() { o.keepQuantized = false }()
	edits := 0
	for {
		n, err := fold(o, g)
		if err != nil {
			return 0, err
		}
		edits += n
		// A branch may read what is constant now.
		if n, err = inlineIf(o, g); n == 0 || err != nil {
			return edits, err
		}
		edits += n
	}
}

const smallResult = 64 << 10

// reinfer infers the types of a node again. Nodes with subgraphs are excluded, since inferring the
// bodies once per level would take exponential time.
func reinfer(o *Options, g *ir.Graph, n *ir.Node) error {
	if len(n.Graphs) > 0 {
		return nil
	}
	return ir.InferNode(o.ctx, g, n)
}

func foldNode(o *Options, g *ir.Graph, n *ir.Node, uses []int) bool {
	if _, ok := n.Op.(*ops.DequantizeLinear); ok && o.keepQuantized {
		return false
	}
	in, size, ok := constantInputs(g, n)
	if !ok {
		return false
	}
	left := o.MaxFolded + o.constants - o.folded
	if left <= 0 {
		return false
	}
	out, err := o.Eval(g, n, in, left+size)
	if err != nil {
		return false // if the node ever runs, the run reports the error
	}
	var made int64
	for i, id := range n.Out {
		if id != ir.None {
			made += tensor.SizeOf(out[i])
		}
	}
	for i, id := range n.In {
		if id == ir.None {
			continue
		}
		if uses[id]--; uses[id] == 0 {
			made -= tensor.SizeOf(in[i])
		}
	}
	if made > smallResult && made > left {
		for _, id := range n.In {
			if id != ir.None {
				uses[id]++
			}
		}
		return false
	}
	if made > smallResult || made < 0 {
		o.folded = max(0, o.folded+made)
	}
	for _, id := range n.In {
		if id != ir.None && uses[id] == 0 {
			g.Values[id].Const = nil
		}
	}
	setConstants(g, n, in, out)
	return true
}

// constantInputs returns the inputs of a node that can be folded and their size in bytes. ok is
// false if one is not constant, or if the node has subgraphs or random results.
func constantInputs(g *ir.Graph, n *ir.Node) (in []tensor.Value, size int64, ok bool) {
	if _, random := n.Op.(ir.Nondeterministic); random || len(n.Graphs) > 0 {
		return nil, 0, false
	}
	in = make([]tensor.Value, len(n.In))
	for i, id := range n.In {
		if id == ir.None {
			continue
		}
		if in[i] = g.Values[id].Const; in[i] == nil {
			return nil, 0, false
		}
	}
	ids := slices.Sorted(slices.Values(n.In))
	for _, id := range slices.Compact(ids) {
		if id != ir.None {
			size += tensor.SizeOf(g.Values[id].Const)
		}
	}
	return in, size, true
}

// setConstants makes the outputs of a node constant.
func setConstants(g *ir.Graph, n *ir.Node, in, out []tensor.Value) {
	for i, id := range n.Out {
		if id == ir.None {
			continue
		}
		v := &g.Values[id]
		v.Const, v.Type, v.Contents = out[i], ir.TypeOf(out[i]), nil
		v.Owned = apart(out[i], in)
	}
}

// apart reports whether v is a tensor whose memory is not shared with a tensor in in.
func apart(v tensor.Value, in []tensor.Value) bool {
	t, ok := v.(*tensor.Tensor)
	if !ok || len(t.Bytes()) == 0 {
		return false
	}
	span := func(t *tensor.Tensor) (from, to uintptr) {
		b := t.Bytes()
		from = uintptr(unsafe.Pointer(unsafe.SliceData(b)))
		return from, from + uintptr(len(b))
	}
	from, to := span(t)
	for _, x := range in {
		u, ok := x.(*tensor.Tensor)
		if !ok {
			return false // it may contain tensors
		}
		if a, b := span(u); a < to && from < b {
			return false
		}
	}
	return true
}

// foldContents makes the result of a node constant if inference has determined all of its elements,
// as for Shape of a tensor with known dimensions.
func foldContents(g *ir.Graph, n *ir.Node) bool {
	if len(n.Out) != 1 || n.Out[0] == ir.None {
		return false
	}
	v := &g.Values[n.Out[0]]
	shape, ok := ir.Ints(v.Type.Shape)
	if !ok || v.Type.Elem != tensor.TypeInt64 || len(shape) > 1 {
		return false
	}
	x, ok := ir.Ints(v.Contents)
	if count, err := tensor.Elements(shape); !ok || err != nil || count != len(x) {
		return false
	}
	data := make([]int64, len(x))
	for i, d := range x {
		data[i] = int64(d)
	}
	t, err := tensor.New(data, len(data))
	if err == nil && len(shape) == 0 {
		t, err = t.Reshape()
	}
	if err != nil {
		return false
	}
	v.Const, v.Type, v.Contents = t, ir.TypeOf(t), nil
	return true
}
