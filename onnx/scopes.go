package onnx

import (
	"errors"
	"maps"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
)

// Subgraphs returns the graphs that an attribute holds.
func (a *Attribute) Subgraphs() []*Graph {
	if a.G != nil {
		return append([]*Graph{a.G}, a.Graphs...)
	}
	return a.Graphs
}

// CountNodes returns the number of nodes in all graphs and functions of a model. It fails if
// subgraphs nest deeper than maxDepth, or if a graph, node or attribute is nil: after it, a model
// can be walked recursively without these checks.
func (m *Model) CountNodes(maxDepth int) (int, error) {
	n := 0
	var walk func(nodes []*Node, depth int) error
	walk = func(nodes []*Node, depth int) error {
		if depth > maxDepth {
			return fail.Errorf("subgraphs nest deeper than %d levels", maxDepth)
		}
		n += len(nodes)
		for _, nd := range nodes {
			if nd == nil {
				return errors.New("a node is missing")
			}
			for _, a := range nd.Attributes {
				if a == nil {
					return fail.Errorf("node %q has an empty attribute", nd.Name)
				}
				for _, g := range a.Subgraphs() {
					if g == nil {
						return fail.Errorf("attribute %s of node %q lacks a graph", a.Name, nd.Name)
					}
					if err := walk(g.Nodes, depth+1); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}
	if m.Graph == nil {
		return 0, errors.New("the model has no graph")
	}
	if err := walk(m.Graph.Nodes, 0); err != nil {
		return 0, err
	}
	for _, f := range m.Functions {
		if f == nil {
			return 0, errors.New("a function is missing")
		}
		if err := walk(f.Nodes, 0); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// Scopes resolves which names the graphs of a model take from enclosing graphs. It caches them per
// graph, so graphs must not change while it is in use. The model must pass [Model.CountNodes].
type Scopes struct{ outer map[*Graph][]string }

// Outer returns the names that a graph uses and does not define, sorted.
func (s *Scopes) Outer(g *Graph) []string {
	if r, ok := s.outer[g]; ok {
		return r
	}
	own := map[string]bool{}
	for _, in := range g.Inputs {
		if in != nil {
			own[in.Name] = true
		}
	}
	for _, t := range g.Initializers {
		if t != nil {
			own[t.Name] = true
		}
	}
	for _, t := range g.SparseInitializers {
		if t != nil && t.Values != nil {
			own[t.Values.Name] = true
		}
	}
	for _, n := range g.Nodes {
		for _, o := range n.Outputs {
			own[o] = true
		}
	}
	outer := map[string]bool{}
	use := func(name string) {
		if name != "" && !own[name] {
			outer[name] = true
		}
	}
	for _, n := range g.Nodes {
		for _, name := range s.Reads(n) {
			use(name)
		}
	}
	for _, o := range g.Outputs {
		if o != nil {
			use(o.Name)
		}
	}
	r := slices.Sorted(maps.Keys(outer))
	if s.outer == nil {
		s.outer = map[*Graph][]string{}
	}
	s.outer[g] = r
	return r
}

// Reads returns the names that a node reads: its inputs, in order, then each name once that its
// subgraphs take from around the node.
func (s *Scopes) Reads(n *Node) []string {
	r := n.Inputs[:len(n.Inputs):len(n.Inputs)]
	var seen map[string]bool
	for _, a := range n.Attributes {
		for _, g := range a.Subgraphs() {
			for _, name := range s.Outer(g) {
				if !seen[name] {
					if seen == nil {
						seen = map[string]bool{}
					}
					seen[name] = true
					r = append(r, name)
				}
			}
		}
	}
	return r
}

// Sort returns the nodes of a graph in topological order: the file's own order, but each node after
// the nodes whose outputs it reads. It fails on a cycle and on a name that two nodes define. A
// Gradient node of ai.onnx.preview.training also depends on its attribute y, which names a value.
func (s *Scopes) Sort(g *Graph) ([]*Node, error) {
	producer := make(map[string]int32, len(g.Nodes))
	for i, n := range g.Nodes {
		for _, o := range n.Outputs {
			if o == "" {
				continue
			}
			if _, ok := producer[o]; ok {
				return nil, fail.Errorf("value %q is defined twice", o)
			}
			producer[o] = int32(i)
		}
	}
	uses := func(i int32, fn func(j int32)) {
		n := g.Nodes[i]
		for _, in := range s.Reads(n) {
			if j, ok := producer[in]; ok {
				fn(j)
			}
		}
		if n.OpType == "Gradient" && n.Domain == "ai.onnx.preview.training" {
			if y := n.Attribute("y"); y != nil && y.S != "" {
				if j, ok := producer[y.S]; ok {
					fn(j)
				}
			}
		}
	}
	inOrder := true
	for i := range int32(len(g.Nodes)) {
		uses(i, func(j int32) { inOrder = inOrder && j < i })
	}
	if inOrder {
		return g.Nodes, nil
	}
	// Depth first, with a stack of its own: a hostile file may chain millions of nodes.
	type visit struct {
		node int32
		deps int // where its entries of deps begin
	}
	const open, done = 1, 2
	state := make([]uint8, len(g.Nodes))
	r := make([]*Node, 0, len(g.Nodes))
	var stack []visit
	var deps []int32 // not visited yet, of all nodes on the stack
	push := func(i int32) {
		state[i] = open
		stack = append(stack, visit{i, len(deps)})
		uses(i, func(j int32) { deps = append(deps, j) })
		slices.Reverse(deps[stack[len(stack)-1].deps:])
	}
	for i := range int32(len(g.Nodes)) {
		if state[i] == 0 {
			push(i)
		}
		for len(stack) > 0 {
			top := stack[len(stack)-1]
			if len(deps) == top.deps {
				state[top.node] = done
				r = append(r, g.Nodes[top.node])
				stack = stack[:len(stack)-1]
				continue
			}
			j := deps[len(deps)-1]
			deps = deps[:len(deps)-1]
			switch state[j] {
			case open:
				return nil, fail.Errorf("graph %q has a cycle through node %q (%s)", g.Name, g.Nodes[j].Name,
					g.Nodes[j].OpType)
			case 0:
				push(j)
			}
		}
	}
	return r, nil
}
