package goengine

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/tensor"
)

// A model may choose a branch by an input: the sampling rate of a voice detector, or whether a
// decoder has a cache. A plan that is specialized to the contents of such an input has the nodes of
// one branch, which are fused and captured with the others.

// maxContents limits the number of contents of the deciding inputs. If there are more, plans are
// specialized to shapes alone: the input may be a counter.
const maxContents = 8

// maxDecision limits the number of values that are examined for a condition.
const maxDecision = 64

// decidingInputs returns the indices of the inputs of one integer or bool that, with shapes and
// constants, determine the condition of an If.
func decidingInputs(g *ir.Graph) []int {
	d := decision{found: map[ir.ValueID]bool{}}
	d.graph(g, nil)
	var list []int
	for i, id := range g.Inputs {
		if d.found[id] {
			list = append(list, i)
		}
	}
	return list
}

// decision is a search for the inputs that determine conditions.
type decision struct {
	found map[ir.ValueID]bool // inputs of the main graph
}

// scope is a graph with its enclosing ones.
type scope struct {
	g         *ir.Graph
	outer     *scope
	producers []int
	captured  map[ir.ValueID]ir.ValueID // outer values by inner ones
}

// graph adds the inputs that determine the conditions in a graph.
func (d *decision) graph(g *ir.Graph, outer *scope) {
	var s *scope
	for _, n := range g.Nodes {
		if len(n.Graphs) == 0 {
			continue
		}
		if s == nil {
			s = &scope{g, outer, g.Producers(), make(map[ir.ValueID]ir.ValueID, len(g.Captures))}
			for _, c := range g.Captures {
				s.captured[c.Inner] = c.Outer
			}
		}
		if _, ok := n.Op.(*ops.If); ok {
			left := maxDecision
			if roots, ok := s.roots(n.In[0], nil, &left); ok {
				for _, id := range roots {
					d.found[id] = true
				}
			}
		}
		for _, sub := range n.Graphs {
			d.graph(sub, s)
		}
	}
}

// roots appends the deciding inputs that determine a value. ok is false if others do, too, or if
// more than left values would be examined.
func (s *scope) roots(id ir.ValueID, list []ir.ValueID, left *int) (_ []ir.ValueID, ok bool) {
	if id == ir.None || s.g.Values[id].Const != nil {
		return list, true
	}
	if *left--; *left < 0 {
		return nil, false
	}
	if s.producers[id] < 0 {
		if s.outer != nil {
			if from, ok := s.captured[id]; ok {
				return s.outer.roots(from, list, left)
			}
			return nil, false // an input of a loop's body
		}
		t := s.g.Values[id].Type
		shape, known := ir.Ints(t.Shape)
		count, err := tensor.Elements(shape)
		if t.Kind != tensor.KindTensor || t.Shape == nil || !known || err != nil || count != 1 {
			return nil, false
		}
		switch t.Elem {
		case tensor.TypeBool, tensor.TypeInt32, tensor.TypeInt64:
			return append(list, id), true
		}
		return nil, false
	}
	n := s.g.Nodes[s.producers[id]]
	switch n.Op.(type) {
	case *ops.Shape, *ops.Size:
		return list, true
	case ir.Nondeterministic:
		return nil, false
	}
	if len(n.Graphs) > 0 {
		return nil, false
	}
	for _, in := range n.In {
		if list, ok = s.roots(in, list, left); !ok {
			return nil, false
		}
	}
	return list, true
}

// appendContents appends the contents of the deciding inputs to a key, unless they vary too much.
func (s *specializer) appendContents(key []byte, in []tensor.Value) []byte {
	if len(s.deciding) == 0 || s.varying.Load() {
		return key
	}
	for _, i := range s.deciding {
		if t, ok := s.input(in, i).(*tensor.Tensor); ok && t.Len() == 1 {
			key = append(key, t.Bytes()...)
		}
	}
	return key
}

// countContents counts the contents in a key, which begin at index shapes, and returns the key
// without them if they vary too much. It needs specializer.mu.
func (s *specializer) countContents(key string, shapes int) string {
	contents := key[shapes:]
	if contents == "" || s.values[contents] {
		return key
	}
	if len(s.values) == maxContents {
		s.varying.Store(true)
	}
	if s.varying.Load() {
		return key[:shapes]
	}
	s.values[contents] = true
	return key
}

// contentOf formats the element of a deciding input.
func contentOf(t *tensor.Tensor) string {
	switch t.DType() {
	case tensor.TypeBool:
		return fmt.Sprint(tensor.MustData[bool](t)[0])
	case tensor.TypeInt32:
		return fmt.Sprint(tensor.MustData[int32](t)[0])
	}
	return fmt.Sprint(tensor.MustData[int64](t)[0])
}
