package optimize

import (
	"math"
	"runtime"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// matcher matches patterns in a graph, from a node backwards. It follows values with a single use,
// so that replaced nodes are not needed elsewhere.
type matcher struct {
	g        *ir.Graph
	producer []int
	uses     []int
	user     []int // a node that uses the value, the only one if uses is 1; −1 for none
}

func newMatcher(g *ir.Graph) *matcher {
	m := &matcher{g, g.Producers(), g.Uses(), make([]int, len(g.Values))}
	for i := range m.user {
		m.user[i] = -1
	}
	for i, n := range g.Nodes {
		n.EachUse(func(id ir.ValueID) { m.user[id] = i })
	}
	return m
}

// has reports whether a graph has an operator of a type. Without one, a pass needs no matcher.
func has[T ir.Operator](g *ir.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n *ir.Node) bool {
		_, ok := n.Op.(T)
		return ok
	})
}

// only returns the node that computes a value with a single use, or nil.
func (m *matcher) only(id ir.ValueID) *ir.Node {
	return only(m.g, id, m.producer, m.uses)
}

// maker returns the node that computes a value with any number of uses, or nil.
func (m *matcher) maker(id ir.ValueID) *ir.Node {
	if id == ir.None || m.producer[id] < 0 {
		return nil
	}
	return m.g.Nodes[m.producer[id]]
}

// opOnly returns the operator of only(id) as a T, and its node.
func opOnly[T ir.Operator](m *matcher, id ir.ValueID) (T, *ir.Node) {
	var zero T
	n := m.only(id)
	if n == nil || len(n.Out) == 0 || n.Out[0] != id {
		return zero, nil
	}
	op, ok := n.Op.(T)
	if !ok {
		return zero, nil
	}
	return op, n
}

// scalar returns the element of a constant float32 tensor of one element.
func (m *matcher) scalar(id ir.ValueID) (float64, bool) {
	if id == ir.None {
		return 0, false
	}
	t, ok := m.g.Values[id].Const.(*tensor.Tensor)
	if !ok || t.DType() != tensor.TypeFloat32 || t.Len() != 1 {
		return 0, false
	}
	return float64(tensor.MustData[float32](t)[0]), true
}

// withScalar returns the other input of a node with two inputs, of which one is a constant of one
// element that does not change the shape of the other.
func (m *matcher) withScalar(n *ir.Node) (x ir.ValueID, c float64, second, ok bool) {
	if len(n.In) != 2 {
		return ir.None, 0, false, false
	}
	for i := range n.In {
		if c, ok := m.scalar(n.In[i]); ok && n.In[1-i] != ir.None {
			x := n.In[1-i]
			k, s := m.g.Values[n.In[i]].Type.Shape, m.g.Values[x].Type.Shape
			if s != nil && len(k) <= len(s) {
				return x, c, i == 1, true
			}
		}
	}
	return ir.None, 0, false, false
}

// sole reports whether the only user of a constant may overwrite its contents.
func sole(g *ir.Graph, uses []int, id ir.ValueID) bool {
	return g.Values[id].Owned && (int(id) >= len(uses) || uses[id] == 1) // values added later have one user
}

// other returns the input, of a node with two inputs, that is not id.
func other(n *ir.Node, id ir.ValueID) ir.ValueID {
	switch {
	case len(n.In) != 2:
		return ir.None
	case n.In[0] == id:
		return n.In[1]
	case n.In[1] == id:
		return n.In[0]
	}
	return ir.None
}

func near(x, want float64) bool { return math.Abs(x-want) <= 1e-3*math.Abs(want) }

// sameShape reports whether two values are known to have the same shape.
func sameShape(g *ir.Graph, a, b ir.ValueID) bool {
	x, y := g.Values[a].Type.Shape, g.Values[b].Type.Shape
	if x == nil || y == nil || len(x) != len(y) {
		return false
	}
	for i := range x {
		if !x[i].Same(y[i]) {
			return false
		}
	}
	return true
}

// replaced returns a node that computes the outputs of n with another operator. Inlined into its
// many callers, it would take kilobytes.
//
//go:noinline
func replaced(n *ir.Node, opType string, op ir.Operator, in ...ir.ValueID) *ir.Node {
	return &ir.Node{Name: n.Name, OpType: opType, Domain: internalDomain, Opset: n.Opset, Op: op, In: in, Out: n.Out}
}

// definition returns the registry's entry of a node's operator, nil if there is none. An
// operator of ai.onnx that a pass makes has its name there.
func definition(n *ir.Node) *kit.Def {
	if d := kit.Registered(n.Domain, n.OpType); d != nil || n.Domain != internalDomain {
		return d
	}
	return kit.Registered("", n.OpType)
}

// vectorKernel returns the float32 kernel by which a node computes its output from input
// 0, its other inputs being constants; nil if there is none.
func vectorKernel(g *ir.Graph, n *ir.Node) kit.VecUnary {
	d := definition(n)
	if d == nil || d.Vector == nil || len(n.Out) != 1 {
		return nil
	}
	in, ok := constInputs(g, n)
	if !ok {
		return nil
	}
	return d.Vector(n.Op, in)
}

// constInputs returns the inputs of a node from input 1 on, nil for those that are missing. It
// reports whether all of them are constant.
func constInputs(g *ir.Graph, n *ir.Node) ([]*tensor.Tensor, bool) {
	in := make([]*tensor.Tensor, len(n.In))
	for i, id := range n.In {
		if i > 0 && id != ir.None {
			if in[i] = constTensor(g, n, i); in[i] == nil {
				return nil, false
			}
		}
	}
	return in, true
}

// rewrite calls fn for each node and replaces the node by the result, if any. A following pass
// removes nodes that have become unused.
//
// Constants that have become unused, because they were packed into an operator, are freed at once:
// a large model must not need its memory twice.
func rewrite(o *Options, g *ir.Graph, fn func(m *matcher, n *ir.Node) *ir.Node) (int, error) {
	m := newMatcher(g)
	edits := 0
	free := constants{g: g, uses: m.uses}
	for i, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		if len(n.Out) == 0 || n.Out[0] == ir.None {
			continue
		}
		r := fn(m, n)
		if r == nil {
			continue
		}
		g.Nodes[i] = r
		edits++
		for len(m.uses) < len(g.Values) { // constants that fn has added
			m.uses, m.producer, m.user = append(m.uses, 0), append(m.producer, -1), append(m.user, i)
		}
		free.uses = m.uses
		// Update the number of uses for the inputs only; the sweep handles the nodes between.
		for _, id := range n.In {
			if id != ir.None {
				m.uses[id]--
			}
		}
		for _, id := range r.In {
			if id != ir.None {
				m.uses[id]++
			}
		}
		for _, id := range n.In {
			free.unused(id)
		}
	}
	return edits, nil
}

// constants frees the contents of unused constants.
type constants struct {
	g     *ir.Graph
	uses  []int
	freed int64
}

// unused frees the contents of a value after its last use.
func (c *constants) unused(id ir.ValueID) {
	if id == ir.None || int(id) >= len(c.uses) || c.uses[id] > 0 || c.g.Values[id].Const == nil {
		return
	}
	size := tensor.SizeOf(c.g.Values[id].Const)
	c.g.Values[id].Const = nil
	if c.g.Shared {
		return
	}
	if c.freed += size; c.freed > collectAt {
		runtime.GC()
		c.freed = 0
	}
}

// collectAt is the number of bytes of freed constants after which the garbage collector runs.
const collectAt = 8 << 20
