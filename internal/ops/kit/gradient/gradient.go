// Package gradient describes how operators are differentiated, and builds the nodes that compute
// gradients. Package kit refers to it in the definitions of operators, so it imports nothing of
// kit. Operators and package autodiff import it.
package gradient

import (
	"maps"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
)

// Domain is the domain of operators that gradient rules and passes add to graphs. No model file
// contains them.
const Domain = "onward"

// Gradient says how an operator is differentiated in reverse mode: which nodes compute the
// gradients of its inputs from the gradients of its outputs. Package autodiff applies it.
// Exactly one of Rule, Decompose and Subgraphs is set, unless the operator is always Flat.
type Gradient struct {
	// Rule emits nodes that compute the gradients of the inputs and returns their names,
	// "" for an input without a gradient. gs holds the gradients of the outputs, "" for an
	// output that the result does not depend on. Rules for inputs that need no gradient
	// cost only nodes that nothing uses.
	Rule func(b *Builder, n *Node, gs []string) ([]string, error)

	// Outputs is how many outputs Rule differentiates; 0 means all of them.
	Outputs int

	// Decompose emits nodes that are equivalent to the operator and returns the names of the
	// outputs, or of the first few. The gradients of these nodes are the operator's.
	Decompose func(b *Builder, n *Node) ([]string, error)

	// Flat reports that the outputs are piecewise constant or do not depend on the inputs,
	// so that no gradient passes through the node. nil means that it is not flat.
	Flat func(n *Node) bool

	// Subgraphs marks control flow, whose rule is in package autodiff: it differentiates
	// the nodes of subgraphs.
	Subgraphs bool
}

// None is for operators that are always flat.
var None = &Gradient{Flat: func(*Node) bool { return true }}

// Rule is the gradient of an operator of which the first output is
// differentiated; g is the gradient of that output.
func Rule(rule func(b *Builder, n *Node, g string) ([]string, error)) *Gradient {
	return &Gradient{Outputs: 1, Rule: func(b *Builder, n *Node, gs []string) ([]string, error) {
		return rule(b, n, gs[0])
	}}
}

// Derivative is the gradient of a function of the first input: d gets the input x, the
// output y and the gradient g of y, and returns that of x. Further inputs have no gradient.
func Derivative(d func(b *Builder, x, y, g string) string) *Gradient {
	return Rule(func(b *Builder, n *Node, g string) ([]string, error) {
		return n.First(d(b, n.Inputs[0], n.Outputs[0], g)), nil
	})
}

// Derivatives is the gradient of a function of two inputs that broadcast: dx and dy
// return the gradients of x and y in the shape of the output z.
func Derivatives(dx, dy func(b *Builder, x, y, z, g string) string) *Gradient {
	return Rule(func(b *Builder, n *Node, g string) ([]string, error) {
		if len(n.Inputs) != 2 {
			return nil, fail.Errorf("node has %d inputs, want 2", len(n.Inputs))
		}
		x, y, z := n.Inputs[0], n.Inputs[1], n.Outputs[0]
		return []string{b.SumTo(dx(b, x, y, z, g), x), b.SumTo(dy(b, x, y, z, g), y)}, nil
	})
}

// Decomposition is the gradient of an operator whose first output other nodes compute.
func Decomposition(f func(b *Builder, n *Node) (string, error)) *Gradient {
	return &Gradient{Decompose: func(b *Builder, n *Node) ([]string, error) {
		y, err := f(b, n)
		return []string{y}, err
	}}
}

// DecomposedFunction is Decomposition for a function of the first input.
func DecomposedFunction(f func(b *Builder, n *Node, x string) string) *Gradient {
	return Decomposition(func(b *Builder, n *Node) (string, error) { return f(b, n, n.Inputs[0]), nil })
}

// Move is the gradient of an operator that only moves the elements of its first
// input. The operator is applied to the numbers of the elements, which gives the origin of
// each element of the output, for every attribute and opset; the gradient is added there.
var Move = Rule(MovedBack)

// MovedBack is the rule of [Move].
func MovedBack(b *Builder, n *Node, g string) ([]string, error) {
	x := n.Inputs[0]
	return n.First(b.ScatterBack(1, g, b.Again(n, b.Positions(x, 1))[0], x)), nil
}

// Reshape is the gradient of an operator that only changes the shape of its first
// input.
var Reshape = Derivative(func(b *Builder, x, y, g string) string {
	return b.Op("onward.ReshapeTo", g, x)
})

// Node is a node of a model as gradient rules see it, or one that they emit.
type Node struct {
	OpType, Domain  string
	Inputs, Outputs []string // names of values, "" for those that are omitted
	Attrs           Attrs
}

// Attrs holds attributes: an int64, float32, string or []int64 each. Values of
// other types come from the model, and rules may only pass them on.
type Attrs map[string]any

// First returns the gradients of the inputs when only the first one has a gradient, g.
func (n *Node) First(g string) []string {
	r := make([]string, len(n.Inputs))
	r[0] = g
	return r
}

// Input returns input i, "" if it is omitted.
func (n *Node) Input(i int) string {
	if i < len(n.Inputs) {
		return n.Inputs[i]
	}
	return ""
}

// WithInputs returns a copy of the node whose first inputs are in.
func (n *Node) WithInputs(in ...string) *Node {
	r := *n
	r.Inputs = slices.Clone(n.Inputs)
	copy(r.Inputs, in)
	return &r
}

// With returns a copy of the attributes in which one has another value.
func (a Attrs) With(name string, value any) Attrs {
	r := maps.Clone(a)
	if r == nil {
		r = Attrs{}
	}
	r[name] = value
	return r
}

// Without returns a copy of the attributes that lacks one.
func (a Attrs) Without(name string) Attrs {
	r := maps.Clone(a)
	delete(r, name)
	return r
}

// Only returns a copy of the attributes that has one at most.
func (a Attrs) Only(name string) Attrs {
	r := Attrs{}
	if v, ok := a[name]; ok {
		r[name] = v
	}
	return r
}

// Has reports whether an attribute is given.
func (a Attrs) Has(name string) bool { return a[name] != nil }

func attrOr[T any](a Attrs, name string, def T) T {
	v, ok := a[name]
	if !ok {
		return def
	}
	t, _ := v.(T)
	return t
}

// Int returns an attribute, or def if it is not given.
func (a Attrs) Int(name string, def int64) int64 { return attrOr(a, name, def) }

// Float returns an attribute, or def if it is not given.
func (a Attrs) Float(name string, def float32) float32 { return attrOr(a, name, def) }

// Ints returns an attribute, or def if it is not given.
func (a Attrs) Ints(name string, def []int64) []int64 { return attrOr(a, name, def) }

// Text returns an attribute, or "" if it is not given.
func (a Attrs) Text(name string) string { return attrOr(a, name, "") }
