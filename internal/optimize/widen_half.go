package optimize

import (
	"cmp"
	"slices"
	"strings"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/tensor"
)

// widenHalf computes operators of float16 and bfloat16 with constant weights in float32, and with
// them what they are connected with: values have one format from the first of them to the last
// one, and the kernels and fusions of float32. As in ONNX Runtime on the CPU, they are not rounded
// in between. Weights of products keep their type (see matmul.PackMatrix).
func widenHalf(o *Options, g *ir.Graph) (int, error) {
	if o.portable() { // the weights would take twice the space
		return 0, nil
	}
	edits := 0
	for _, d := range []tensor.DType{tensor.TypeFloat16, tensor.TypeBFloat16} {
		if inside := halfRegion(g, d); slices.Contains(inside, true) {
			if err := widenNodes(g, d, inside); err != nil {
				return 0, err
			}
			edits++
		}
	}
	if edits == 0 {
		return 0, nil
	}
	n, err := removeIdentity(o, g) // conversions of float32 to float32
	return edits + n, err
}

// halfRegion returns, for each node, whether it is one of those of d or connected with one by
// values of d. Without any it returns nil.
func halfRegion(g *ir.Graph, d tensor.DType) []bool {
	var queue []int
	for i, n := range g.Nodes {
		if packs(g, n) && widens(g, n, d) {
			queue = append(queue, i)
		}
	}
	if queue == nil {
		return nil
	}
	inside := make([]bool, len(g.Nodes))
	for _, i := range queue {
		inside[i] = true
	}
	add := func(i int) {
		if i >= 0 && !inside[i] && widens(g, g.Nodes[i], d) {
			inside[i] = true
			queue = append(queue, i)
		}
	}
	producer, readers := g.Producers(), make([][]int, len(g.Values))
	for i, n := range g.Nodes {
		for _, id := range n.In {
			if id != ir.None {
				readers[id] = append(readers[id], i)
			}
		}
	}
	for len(queue) > 0 {
		n := g.Nodes[queue[0]]
		queue = queue[1:]
		for _, id := range slices.Concat(n.In, n.Out) {
			if !hasElem(g, id, d) || g.Values[id].Const != nil {
				continue
			}
			add(producer[id])
			for _, k := range readers[id] {
				add(k)
			}
		}
	}
	return inside
}

// packs reports whether a node has an operator that packs constant weights.
func packs(g *ir.Graph, n *ir.Node) bool { return multiplies(n) && constTensor(g, n, 1) != nil }

// multiplies reports whether input 1 of a node may be weights of floating-point numbers that its
// operator packs.
func multiplies(n *ir.Node) bool {
	switch n.Op.(type) {
	case *ops.Conv, *ops.ConvTranspose, *ops.LSTM, *ops.GRU, *ops.RNN, *ops.MatMul, *ops.Gemm:
		return true
	}
	return false
}

// hasElem reports whether a value is a tensor of d.
func hasElem(g *ir.Graph, id ir.ValueID, d tensor.DType) bool {
	return id != ir.None && g.Values[id].Type.Kind == tensor.KindTensor && g.Values[id].Type.Elem == d
}

// widens reports whether the operator may compute in float32 what has elements of d: if
// the signature allows float32 for all inputs of d, and makes the outputs of d of the
// type of the inputs.
func widens(g *ir.Graph, n *ir.Node, d tensor.DType) bool {
	def := definition(n)
	if def == nil || len(n.Graphs) > 0 {
		return false
	}
	s, pattern := def.Signature(), ""
	for i, id := range n.In {
		if !hasElem(g, id, d) {
			continue
		}
		p := s.In[min(i, len(s.In)-1)].Pattern
		if !slices.Contains(s.Vars[p], tensor.TensorType(tensor.TypeFloat32)) {
			return false
		}
		pattern = cmp.Or(pattern, p)
	}
	for i, id := range n.Out {
		if id == ir.None {
			continue
		}
		// as that of Cast
		if t := g.Values[id].Type; t.Kind != tensor.KindTensor || t.Elem == d &&
			s.Out[min(i, len(s.Out)-1)].Pattern != pattern {
			return false
		}
	}
	return pattern != "" && !keepsHalf(g, n, s)
}

// keepsWeights reports whether input i of a node is a constant matrix that products
// read in any type.
func keepsWeights(g *ir.Graph, n *ir.Node, i int) bool {
	switch n.Op.(type) {
	case *ops.MatMul, *ops.Gemm:
		w := constTensor(g, n, i)
		return i == 1 && w != nil && w.Rank() == 2
	}
	return false
}

// mostWidened is the number of elements of a constant up to which it may become float32 in a node
// that does not pack it.
const mostWidened = 1 << 18

// keepsHalf reports whether a node has a large constant, such as the table of an embedding, that
// would take twice the memory, or reads or writes the cache of a decoder: converting all of it in
// every step would take longer than the node.
func keepsHalf(g *ir.Graph, n *ir.Node, s *ir.Signature) bool {
	for i := range n.In {
		if t := constTensor(g, n, i); t != nil && t.Len() > mostWidened && !packs(g, n) {
			return true
		}
	}
	cache := func(list []ir.ValueID, params []ir.Param) bool {
		for i, id := range list {
			if name := params[min(i, len(params)-1)].Name; id != ir.None &&
				(strings.HasPrefix(name, "past") || strings.HasPrefix(name, "present")) {
				return true
			}
		}
		return false
	}
	return cache(n.In, s.In) || cache(n.Out, s.Out)
}

// widenNodes changes the type d to float32 in the nodes inside of a region, and converts the values
// that enter it and leave it.
func widenNodes(g *ir.Graph, d tensor.DType, inside []bool) error {
	outside := outputs(g) // values that are read outside of the region
	for i, n := range g.Nodes {
		if !inside[i] {
			n.EachUse(func(id ir.ValueID) { outside[id] = true })
		}
	}
	wide := map[ir.ValueID]ir.ValueID{}
	twin := func(id ir.ValueID) ir.ValueID {
		t := g.Values[id].Type
		t.Elem = tensor.TypeFloat32
		w := g.NewValue(g.Values[id].Name, t)
		wide[id] = w
		return w
	}
	var nodes []*ir.Node
	cast := func(n *ir.Node, from, to ir.ValueID) {
		nodes = append(nodes,
			&ir.Node{Name: n.Name, OpType: "Cast", Opset: n.Opset, Op: &ops.Cast{To: g.Values[to].Type.Elem},
				In: []ir.ValueID{from}, Out: []ir.ValueID{to}})
	}
	for i, n := range g.Nodes {
		if !inside[i] {
			nodes = append(nodes, n)
			continue
		}
		c := *n
		c.Sig, c.In, c.Out = nil, slices.Clone(n.In), slices.Clone(n.Out)
		for k, id := range n.In {
			if !hasElem(g, id, d) || keepsWeights(g, n, k) {
				continue
			}
			w, ok := wide[id]
			if t, constant := g.Values[id].Const.(*tensor.Tensor); !ok && constant {
				v, err := tensor.Convert(t, tensor.TypeFloat32, nil)
				if err != nil {
					return err
				}
				w = g.NewConst(g.Values[id].Name, v)
				g.Values[w].Owned, wide[id] = true, w
			} else if !ok {
				w = twin(id)
				cast(n, id, w)
			}
			c.In[k] = w
		}
		for k, id := range n.Out {
			if hasElem(g, id, d) {
				c.Out[k] = twin(id)
			}
		}
		nodes = append(nodes, &c)
		for _, id := range n.Out {
			if hasElem(g, id, d) && outside[id] {
				cast(n, wide[id], id)
			}
		}
	}
	g.Nodes = nodes
	return nil
}

// BFloat16Weights reports whether g multiplies by constant weights of bfloat16, and by none of
// another floating-point type. Its products may then round to bfloat16 what [widenHalf] does not.
func BFloat16Weights(g *ir.Graph) bool {
	found, other := false, false
	var visit func(g *ir.Graph)
	visit = func(g *ir.Graph) {
		producer := g.Producers()
		for _, n := range g.Nodes {
			for _, sub := range n.Graphs {
				visit(sub)
			}
			if !multiplies(n) || len(n.In) < 2 || n.In[1] == ir.None {
				continue
			}
			w := n.In[1]
			if p := producer[w]; p >= 0 {
				if _, ok := g.Nodes[p].Op.(*ops.Transpose); ok {
					w = g.Nodes[p].In[0]
				}
			}
			if g.Values[w].Const != nil {
				bf16 := hasElem(g, w, tensor.TypeBFloat16)
				found, other = found || bf16, other || !bf16
			}
		}
	}
	visit(g)
	return found && !other
}
