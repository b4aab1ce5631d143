// Package ir defines Onward's typed graph, the form of a model in which names, opset versions,
// functions and scopes have been resolved. Passes and engines work on it.
package ir

import (
	"fmt"

	"github.com/onward-ml/onward/tensor"
)

// ValueID identifies a value of a graph: an index into Graph.Values.
type ValueID int32

// None is the id of an omitted optional input or output.
const None ValueID = -1

// Value is an edge of a graph: a graph input, a constant, or a node's output.
type Value struct {
	Name  string
	Type  Type
	Const tensor.Value // the contents, if known before running
	Owned bool         // the memory of Const belongs to this value alone: a pass may overwrite it
	Local bool         // Name is that of a value in the body of an inlined function: other values may have it

	// Contents holds the elements of an integer tensor of rank 0 or 1, as computed by shape
	// arithmetic, if some are known or symbolic; otherwise nil.
	Contents []Dim
}

// Capture binds a value of a subgraph to a value of the enclosing graph.
type Capture struct {
	Outer ValueID // in the graph that holds the node
	Inner ValueID // in the subgraph
}

// Node is one application of an operator.
type Node struct {
	Name   string // name in the file, may be empty
	OpType string
	Domain string // "" for ai.onnx
	Opset  int    // version of the domain that the model imports
	Op     Operator
	Sig    *Signature // nil: not checked
	In     []ValueID  // None for an omitted optional input
	Out    []ValueID  // None for an unused output
	Graphs []*Graph   // subgraphs, by the index that the operator uses
	Source *Source    // nil unless the graph will be exported
}

// Source is a node as in its model. It is valid while the node's Op is Op: a pass that changes the
// computation of a node replaces Op.
type Source struct {
	OpType string
	Domain string
	Opset  int
	Op     Operator
	Attrs  map[string]any // in the form that operators read
	Extra  []int          // inputs that are attributes in the file
}

// FromSource reports whether Source is valid.
func (n *Node) FromSource() bool { return n.Source != nil && SameOperator(n.Op, n.Source.Op) }

// SameOperator compares operators by identity, including those of types that are not comparable.
func SameOperator(a, b Operator) (same bool) {
	defer func() {
		if recover() != nil {
			same = false
		}
	}()
	return a == b
}

// Graph is a list of nodes in topological order.
type Graph struct {
	Name     string
	Values   []Value
	Nodes    []*Node
	Inputs   []ValueID
	Outputs  []ValueID
	Captures []Capture // values of the enclosing graph that a subgraph uses

	// Declared holds the declared types of a subgraph's outputs, which determine the shapes of loop
	// outputs without iterations.
	Declared []Type

	// Defaults holds the contents of inputs that the caller may omit
	// (overridable initializers).
	Defaults map[ValueID]tensor.Value

	Shared bool // other graphs have the same constants, so that freeing one releases no memory
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

// Value returns the value of an id. The pointer is valid until a value is added.
func (g *Graph) Value(id ValueID) *Value { return &g.Values[id] }

// Producers returns, for each value, the index of the node that computes it, or −1.
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

// Uses returns, for each value, the number of its uses by nodes, subgraphs and graph outputs.
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

// EachUse calls fn for each value that the node reads, including captures of its subgraphs.
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

// Label returns the name of a node for messages, or its operator and first output if it has no
// name.
func (n *Node) Label(g *Graph) string {
	if n.Name != "" {
		return n.Name
	}
	for _, o := range n.Out {
		if o != None {
			return fmt.Sprintf("%.200s -> %.200s", n.OpType, g.Values[o].Name)
		}
	}
	return n.OpType
}
