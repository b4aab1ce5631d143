package onnx

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// scope holds the names that are visible to a node, those of its graph and of all enclosing graphs,
// each with the number of the defining graph. All depths share one map, with an undo list.
type scope struct {
	names map[string]int32
	undo  []undo
	marks []mark
	next  int32
}

type undo struct {
	name string
	old  int32 // 0: the name was not defined
}

type mark struct {
	undo  int
	graph int32
}

func newScope() scope { return scope{names: make(map[string]int32)} }

func (s *scope) enter() {
	s.next++
	s.marks = append(s.marks, mark{len(s.undo), s.next})
}

func (s *scope) leave() {
	m := s.marks[len(s.marks)-1]
	s.marks = s.marks[:len(s.marks)-1]
	for i := len(s.undo) - 1; i >= m.undo; i-- {
		if u := s.undo[i]; u.old == 0 {
			delete(s.names, u.name)
		} else {
			s.names[u.name] = u.old
		}
	}
	s.undo = s.undo[:m.undo]
}

func (s *scope) this() int32 { return s.marks[len(s.marks)-1].graph }

func (s *scope) add(name string) {
	if old := s.names[name]; old != s.this() {
		if len(s.marks) > 1 { // the scope of the outermost graph is never undone
			s.undo = append(s.undo, undo{name, old})
		}
		s.names[name] = s.this()
	}
}

func (s *scope) inThis(name string) bool { return s.names[name] == s.this() }

func (s *scope) has(name string) bool { return s.names[name] != 0 }

func (c *checker) graph(g *Graph, main bool) {
	if c.depth++; c.depth > maxGraphDepth {
		c.fail("%w: subgraphs are nested more than %d deep", ErrTooDeep, maxGraphDepth)
		c.depth--
		return
	}
	defer func() { c.depth-- }()
	c.scope.enter()
	defer c.scope.leave()

	if g.Name == "" {
		c.fail("Field 'name' of 'graph' is required to be non-empty.")
	}
	c.utf8("name", g.Name)
	for i, v := range g.Inputs {
		c.push("input", i)
		c.valueInfo(v, main)
		if v != nil {
			if c.scope.inThis(v.Name) {
				c.fail("Graph must be in single static assignment (SSA) form, however %q has been used as graph "+
					"input names multiple times.", v.Name)
			}
			c.scope.add(v.Name)
		}
		c.pop()
	}
	for i, v := range g.Outputs {
		c.push("output", i)
		c.valueInfo(v, main)
		c.pop()
	}
	for i, v := range g.ValueInfo {
		c.push("value_info", i)
		if v == nil || v.Name == "" {
			c.fail("Field 'name' of 'value_info' is required to be non-empty.")
		}
		c.pop()
	}
	c.initializers(g)
	c.nodes(g.Nodes, g)
	for i, v := range g.Outputs {
		if v != nil && v.Name != "" && !c.scope.inThis(v.Name) {
			c.push("output", i)
			c.fail("Graph output %q is not an output of any node in graph.", v.Name)
			c.pop()
		}
	}
}

func (c *checker) initializers(g *Graph) {
	seen := make(map[string]bool, len(g.Initializers)+len(g.SparseInitializers))
	for i, t := range g.Initializers {
		c.push("initializer", i)
		switch {
		case t == nil:
			c.fail("tensor is nil")
		case t.Name == "":
			c.fail("Tensor initializers must have a non-empty name")
		case seen[t.Name]:
			c.fail("%q initializer name is not unique", t.Name)
		case c.ir <= 3 && !c.scope.inThis(t.Name):
			c.fail("%q in initializer but not in graph input", t.Name)
		}
		if t != nil {
			c.utf8("name", t.Name)
			c.tensor(t)
			seen[t.Name] = true
			if t.Name != "" {
				c.scope.add(t.Name)
			}
		}
		c.pop()
	}
	for i, s := range g.SparseInitializers {
		c.push("sparse_initializer", i)
		if s != nil && s.Values != nil {
			switch name := s.Values.Name; {
			case name == "":
				c.fail("Sparse tensor initializers must have a non-empty name")
			case seen[name]:
				c.fail("%q sparse initializer name is not unique across initializers and sparse_initializers", name)
			default:
				seen[name] = true
				c.scope.add(name)
			}
		}
		c.sparseTensor(s)
		c.pop()
	}
}

// nodes checks the nodes of graph g, or of a function if g is nil.
func (c *checker) nodes(list []*Node, g *Graph) {
	var order *order
	for i, n := range list {
		c.push("node", i)
		if n == nil {
			c.fail("node is nil")
			c.pop()
			continue
		}
		c.path[len(c.path)-1].label, c.path[len(c.path)-1].name = n.OpType, n.Name
		for j, name := range n.Inputs {
			if name == "" || c.scope.has(name) {
				continue
			}
			if c.full() {
				continue
			}
			if order == nil { // built for invalid graphs only
				order = newOrder(list)
			}
			c.push("input", j)
			what := "graph"
			if g == nil {
				what = "function"
			}
			c.fail("Nodes in a %s must be topologically sorted, however input %q is not output of any previous "+
				"nodes: %s", what, name, order.why(i, name))
			c.pop()
		}
		// Check the node before defining its outputs, since its subgraphs must not see them.
		c.node(n)
		for j, name := range n.Outputs {
			if name == "" {
				continue
			}
			c.utf8Output(j, name)
			if c.scope.has(name) {
				c.push("output", j)
				where := ""
				if !c.scope.inThis(name) {
					where = " (in a graph around this one)"
				}
				c.fail("Graph must be in single static assignment (SSA) form, however %q has been used as output "+
					"names multiple times%s.", name, where)
				c.pop()
			}
			c.scope.add(name)
		}
		c.pop()
	}
}

func (c *checker) utf8Output(j int, name string) {
	c.push("output", j)
	c.utf8("name", name)
	c.pop()
}

func (c *checker) node(n *Node) {
	if n.OpType == "" {
		c.fail("Field 'op_type' of 'node' is required to be non-empty.")
	}
	c.utf8("op_type", n.OpType)
	c.utf8("name", n.Name)
	if len(n.Inputs) == 0 && len(n.Outputs) == 0 {
		c.fail("NodeProto (name: %q, type: %q) has zero input and zero output.", n.Name, n.OpType)
	}
	domain := NormalizeDomain(n.Domain)
	opset, imported := c.opsets[domain]
	if !imported {
		c.fail("No opset import for domain %q", n.Domain)
	}
	c.attributes(n)
	if f := c.functions[calleeOf(n)]; f != nil {
		if len(n.Inputs) > len(f.Inputs) {
			c.fail("node has %d inputs, function %s takes at most %d", len(n.Inputs), idOf(f), len(f.Inputs))
		}
		if len(n.Outputs) > len(f.Outputs) {
			c.fail("node has %d outputs, function %s has %d", len(n.Outputs), idOf(f), len(f.Outputs))
		}
		return
	}
	if c.opts.Schema == nil || !imported || n.OpType == "" {
		return
	}
	schema, ok := c.opts.Schema(domain, n.OpType, opset)
	switch {
	case ok && schema.Deprecated:
		c.fail("Op registered for %s is deprecated in domain_version of %d", printable(n.OpType), opset)
	case ok:
		c.schema(n, &schema)
	case c.opts.CustomDomains || domain == "" || domain == "ai.onnx.ml" || domain == "ai.onnx.training" ||
		domain == "ai.onnx.preview.training":
		c.fail("No Op registered for %s with domain_version of %d", printable(n.OpType), opset)
	}
}

func (c *checker) schema(n *Node, s *Schema) {
	if got := len(n.Inputs); got < s.MinInputs || s.MaxInputs >= 0 && got > s.MaxInputs {
		c.fail("Node has input size %d not in range [min=%d, max=%s].", got, s.MinInputs, bound(s.MaxInputs))
	}
	if got := len(n.Outputs); got < s.MinOutputs || s.MaxOutputs >= 0 && got > s.MaxOutputs {
		c.fail("Node has output size %d not in range [min=%d, max=%s].", got, s.MinOutputs, bound(s.MaxOutputs))
	}
	given := make(map[string]bool, len(n.Attributes))
	for i, a := range n.Attributes {
		if a == nil {
			continue
		}
		given[a.Name] = true
		want, ok := s.Attributes[a.Name]
		c.pushAttribute(i, a)
		// Names that begin with two underscores are internal to tools. They are accepted, as in
		// ONNX.
		if !ok && !s.AnyAttributes && !strings.HasPrefix(a.Name, "__") {
			c.fail("Unrecognized attribute: %q for operator %s", a.Name, printable(n.OpType))
		}
		if ok && a.Type != want.Type && a.Type != AttrUndefined {
			c.fail("Mismatched attribute type: %q is %s, want %s", a.Name, a.Type, want.Type)
		}
		c.pop()
	}
	var missing []string
	for name, a := range s.Attributes {
		if a.Required && !given[name] {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	for _, name := range missing {
		c.fail("Required attribute %q is missing.", name)
	}
}

func bound(n int) string {
	if n < 0 {
		return "unlimited"
	}
	return strconv.Itoa(n)
}

// order maps values to the nodes that produce them, to explain why a value is not available.
type order struct {
	nodes    []*Node
	producer map[string]int32
	group    []int32 // index of each node's strongly connected component
}

func newOrder(nodes []*Node) *order {
	o := &order{nodes: nodes, producer: make(map[string]int32, len(nodes))}
	for i, n := range nodes {
		if n == nil {
			continue
		}
		for _, name := range n.Outputs {
			if _, ok := o.producer[name]; !ok && name != "" {
				o.producer[name] = int32(i)
			}
		}
	}
	o.components()
	return o
}

func (o *order) why(node int, name string) string {
	p, ok := o.producer[name]
	switch {
	case !ok:
		return "no node, input or initializer has that name"
	case int(p) == node:
		return "it is an output of the node itself, a cycle"
	case o.group[p] == o.group[node]:
		return fmt.Sprintf("it is an output of node %d, which depends on this node, a cycle", p)
	}
	return fmt.Sprintf("it is an output of node %d, which comes later", p)
}

// components finds the strongly connected components of the nodes with Tarjan's algorithm
// ("Depth-first search and linear graph algorithms", 1972). It is iterative, since chains can have
// a million nodes.
func (o *order) components() {
	n := len(o.nodes)
	index, low := make([]int32, n), make([]int32, n) // index 0: not visited
	onStack := make([]bool, n)
	o.group = make([]int32, n)
	stack := make([]int32, 0, n)
	type frame struct {
		node  int32
		input []string
	}
	var calls []frame
	next, groups := int32(1), int32(0)
	enter := func(v int32) {
		index[v], low[v] = next, next
		next++
		stack = append(stack, v)
		onStack[v] = true
		var in []string
		if node := o.nodes[v]; node != nil {
			in = uses(node)
		}
		calls = append(calls, frame{v, in})
	}
	for v := range int32(n) {
		if index[v] != 0 {
			continue
		}
		enter(v)
		for len(calls) > 0 {
			f := &calls[len(calls)-1]
			if len(f.input) > 0 {
				name := f.input[0]
				f.input = f.input[1:]
				if p, ok := o.producer[name]; ok {
					if index[p] == 0 {
						enter(p)
					} else if onStack[p] {
						low[f.node] = min(low[f.node], index[p])
					}
				}
				continue
			}
			w := f.node
			calls = calls[:len(calls)-1]
			if len(calls) > 0 {
				up := calls[len(calls)-1].node
				low[up] = min(low[up], low[w])
			}
			if low[w] == index[w] {
				groups++
				for {
					x := stack[len(stack)-1]
					stack = stack[:len(stack)-1]
					onStack[x] = false
					o.group[x] = groups
					if x == w {
						break
					}
				}
			}
		}
	}
}

// uses returns the values that a node and its subgraphs read.
func uses(n *Node) []string {
	in := n.Inputs
	for _, a := range n.Attributes {
		if a != nil && (a.G != nil || len(a.Graphs) > 0) {
			in = in[:len(in):len(in)]
			eachNode([]*Node{n}, func(m *Node) {
				if m != n {
					in = append(in, m.Inputs...)
				}
			})
			break
		}
	}
	return in
}
