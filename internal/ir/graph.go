// Package ir is Onward's typed graph: what a model becomes after its names,
// opset versions, functions and scopes have been resolved, and what passes and
// engines work on.
package ir

import (
	"github.com/onward-ml/onward/tensor"
)

// ValueID names a value of one graph: an index into Graph.Values.
type ValueID int32

// None stands for an omitted optional input or output.
const None ValueID = -1

// Value is an edge of a graph: a graph input, a constant, or a node's output.
type Value struct {
	Name  string
	Type  Type
	Const tensor.Value // the contents, when they are known before running
	Owned bool         // no one but this value holds the memory of Const: a pass may write there

	// Contents holds the elements of an integer tensor of rank 0 or 1 when
	// some are known or symbolic, as shape arithmetic makes them; nil otherwise.
	Contents []Dim
}

// Capture binds a value of a subgraph to one of the graph around it.
type Capture struct {
	Outer ValueID // in the graph that holds the node
	Inner ValueID // in the subgraph
}

// Node is one application of an operator.
type Node struct {
	Name   string // as in the file, may be empty
	OpType string
	Domain string // "" for ai.onnx
	Opset  int    // version of the domain that the model imports
	Op     Operator
	Sig    *Signature // nil: not checked
	In     []ValueID  // None for an omitted optional input
	Out    []ValueID  // None for an output that nobody wants
	Graphs []*Graph   // subgraphs, numbered as the operator knows them
	Source *Source    // nil unless the graph is to be written as ONNX
}

// Source is a node as its model has it. It holds as long as the node's Op is Op:
// passes that change what a node computes set another one.
type Source struct {
	OpType string
	Domain string
	Opset  int
	Op     Operator
	Attrs  map[string]any // as operators read them
	Extra  []int          // inputs that are attributes in the file
}

// FromSource reports whether the node still computes what its Source says.
func (n *Node) FromSource() bool { return n.Source != nil && SameOperator(n.Op, n.Source.Op) }

// SameOperator compares operators by identity, also those of types that cannot be
// compared.
func SameOperator(a, b Operator) (same bool) {
	defer func() {
		if recover() != nil {
			same = false
		}
	}()
	return a == b
}

// Graph is a list of nodes in an order in which they can run.
type Graph struct {
	Name     string
	Values   []Value
	Nodes    []*Node
	Inputs   []ValueID
	Outputs  []ValueID
	Captures []Capture // values of the enclosing graph that a subgraph uses

	// Declared is what a subgraph's file says of the types of its outputs: the shapes
	// of what no iteration of a loop makes.
	Declared []Type

	// Defaults holds the contents of inputs that the caller may omit
	// (overridable initializers).
	Defaults map[ValueID]tensor.Value
}

// NewValue appends a value and returns its id.
func (g *Graph) NewValue(name string, t Type) ValueID {
	g.Values = append(g.Values, Value{Name: name, Type: t})
	return ValueID(len(g.Values) - 1)
}

// NewConst appends a constant and returns its id.
func (g *Graph) NewConst(name string, v tensor.Value) ValueID {
	id := g.NewValue(name, TypeOf(v))
	g.Values[id].Const = v
	return id
}

// Value returns the value of an id; the pointer is valid until a value is
// added.
func (g *Graph) Value(id ValueID) *Value { return &g.Values[id] }

// Producers returns, for every value, the index of the node that makes it, or
// −1.
func (g *Graph) Producers() []int {
	p := make([]int, len(g.Values))
	for i := range p {
		p[i] = -1
	}
	for i, n := range g.Nodes {
		for _, o := range n.Out {
			if o != None {
				p[o] = i
			}
		}
	}
	return p
}

// Uses returns, for every value, how often nodes, subgraphs and graph outputs
// use it.
func (g *Graph) Uses() []int {
	u := make([]int, len(g.Values))
	for _, n := range g.Nodes {
		n.EachUse(func(id ValueID) { u[id]++ })
	}
	for _, o := range g.Outputs {
		u[o]++
	}
	return u
}

// EachUse calls fn for every value that the node reads, its subgraphs'
// captures included.
func (n *Node) EachUse(fn func(ValueID)) {
	for _, id := range n.In {
		if id != None {
			fn(id)
		}
	}
	for _, s := range n.Graphs {
		for _, c := range s.Captures {
			fn(c.Outer)
		}
	}
}

// Label names a node in messages: its name, or its operator and first output.
func (n *Node) Label(g *Graph) string {
	if n.Name != "" {
		return n.Name
	}
	for _, o := range n.Out {
		if o != None {
			return n.OpType + " -> " + g.Values[o].Name
		}
	}
	return n.OpType
}
