package ir

import "github.com/onward-ml/onward/tensor"

// Operator is one node's computation with its attributes bound. It is
// immutable and is run by many goroutines at once.
type Operator interface {
	// Infer says what it can about the outputs from what is known of the inputs.
	// It must set the element type of every wanted output, and it fails only
	// when the node cannot work for any run.
	Infer(c *InferContext) error

	// Run computes the outputs. Kinds and element types of the inputs are those
	// that Infer saw; ranks, dims and contents are the operator's to check.
	Run(c *Call) error
}

// View is implemented by operators whose output 0 may be the very memory of
// input ViewOf() under another shape. The outputs of all other operators are
// copied when they alias an input.
type View interface {
	Operator
	ViewOf() int
}

// Copying is implemented by operators with outputs that are no tensors, where
// these hold copies and never the tensors of the inputs.
type Copying interface {
	Operator
	Copying()
}

// Nondeterministic is implemented by operators whose results differ from run to
// run; they are neither folded nor merged.
type Nondeterministic interface {
	Operator
	Nondeterministic()
}

// Preparer is implemented by operators that can do work once per model, such as
// packing weights, when some inputs are constant.
type Preparer interface {
	Operator
	// Prepare returns an operator that equals the receiver for these constant
	// inputs, or nil when nothing can be gained. in[i] is nil for an input that is
	// not constant; types holds what is known of all inputs. The returned operator
	// gets the same inputs, but a constant input i that it lists in drop is not
	// kept for it and arrives as nil.
	Prepare(in []tensor.Value, types []Type) (op Operator, drop []int, err error)
}

// InferContext gives Infer the inputs of a node and takes its outputs.
type InferContext struct {
	node *Node
	in   []*Value // nil for an omitted input
	out  []Value
	// sub infers a subgraph for given input types.
	sub func(k int, in []Value) ([]Value, error)
}

// NewInferContext prepares the inference of one node; in holds nil for omitted
// inputs and sub infers the node's k-th subgraph.
func NewInferContext(n *Node, in []*Value, sub func(k int, in []Value) ([]Value, error)) *InferContext {
	return &InferContext{node: n, in: in, out: make([]Value, len(n.Out)), sub: sub}
}

// Results returns what Infer has set, one value per output of the node.
func (c *InferContext) Results() []Value { return c.out }

// NumIn returns the number of inputs, trailing omitted ones not counted.
func (c *InferContext) NumIn() int {
	n := len(c.in)
	for n > 0 && c.in[n-1] == nil {
		n--
	}
	return n
}

// NumOut returns the number of outputs of the node.
func (c *InferContext) NumOut() int { return len(c.out) }

// Has reports whether input i is given.
func (c *InferContext) Has(i int) bool { return i >= 0 && i < len(c.in) && c.in[i] != nil }

// Wants reports whether output i is used.
func (c *InferContext) Wants(i int) bool { return i < len(c.node.Out) && c.node.Out[i] != None }

// Type returns the type of input i, the zero Type when it is omitted.
func (c *InferContext) Type(i int) Type {
	if !c.Has(i) {
		return Type{}
	}
	return c.in[i].Type
}

// Elem returns the element type of input i.
func (c *InferContext) Elem(i int) tensor.DType { return c.Type(i).Elem }

// Shape returns the shape of input i, nil when the rank is unknown or the input
// omitted.
func (c *InferContext) Shape(i int) []Dim { return c.Type(i).Shape }

// Const returns the contents of input i when they are a known tensor, else nil.
func (c *InferContext) Const(i int) *tensor.Tensor {
	if !c.Has(i) {
		return nil
	}
	t, _ := c.in[i].Const.(*tensor.Tensor)
	return t
}

// Contents returns the elements of input i, an integer tensor of rank 0 or 1, as
// far as they are known; nil when not even their number is.
func (c *InferContext) Contents(i int) []Dim {
	if !c.Has(i) {
		return nil
	}
	return ContentsOf(c.in[i])
}

// ContentsOf returns the elements of an integer tensor of rank 0 or 1 from its
// constant, its recorded contents, or as unknown elements of a known number.
func ContentsOf(v *Value) []Dim {
	if v.Contents != nil {
		return v.Contents
	}
	const limit = tensor.MaxRank
	if t, ok := v.Const.(*tensor.Tensor); ok && t.Rank() <= 1 && t.Len() <= limit {
		var r []Dim
		switch t.DType() {
		case tensor.TypeInt64:
			r = make([]Dim, 0, t.Len())
			for _, x := range tensor.Of[int64](t) {
				r = append(r, Known(int(x)))
			}
		case tensor.TypeInt32:
			r = make([]Dim, 0, t.Len())
			for _, x := range tensor.Of[int32](t) {
				r = append(r, Known(int(x)))
			}
		}
		return r
	}
	if s := v.Type.Shape; v.Type.Kind == tensor.KindTensor && v.Type.Elem.IsInteger() {
		if len(s) == 0 && s != nil {
			return UnknownDims(1)
		}
		if len(s) == 1 {
			if n, ok := s[0].Value(); ok && n <= limit {
				return UnknownDims(n)
			}
		}
	}
	return nil
}

// SetOut sets the type of output i; outputs that nobody wants may be set too.
func (c *InferContext) SetOut(i int, t Type) {
	if i < len(c.out) {
		c.out[i].Type = t
	}
}

// SetContents sets the elements of output i, an integer tensor of rank 0 or 1.
func (c *InferContext) SetContents(i int, d []Dim) {
	if i < len(c.out) {
		c.out[i].Contents = d
	}
}

// GraphInputs returns what is known of the inputs of the node's k-th subgraph
// before that is inferred, nil when there is no such subgraph.
func (c *InferContext) GraphInputs(k int) []Type {
	if k < 0 || k >= len(c.node.Graphs) {
		return nil
	}
	g := c.node.Graphs[k]
	r := make([]Type, len(g.Inputs))
	for i, id := range g.Inputs {
		r[i] = g.Values[id].Type
	}
	return r
}

// InferGraph infers the node's k-th subgraph for inputs of the given types and
// returns its outputs.
func (c *InferContext) InferGraph(k int, in []Value) ([]Value, error) { return c.sub(k, in) }
