package ir

import "github.com/onward-ml/onward/tensor"

// Operator is the computation of a node, including its attributes. It is immutable and is run by
// many goroutines concurrently.
type Operator interface {
	// Infer derives types, shapes and known values of the outputs from the inputs. It must set the
	// element type of each used output. It fails only if the node cannot work in any run.
	Infer(c *InferContext) error

	// Run computes the outputs. Kinds and element types of the inputs are those of Infer. The
	// operator must check ranks, dimensions and contents.
	Run(c *Call) error
}

// View is implemented by operators whose output 0 may be the memory of input ViewOf() with another
// shape. Outputs of other operators are copied if they alias an input.
type View interface {
	Operator
	ViewOf() int
}

// Copying is implemented by operators with outputs other than tensors that contain copies of the
// inputs, never the inputs themselves.
type Copying interface {
	Operator
	Copying()
}

// Carrying is implemented by Iterating operators whose body's results are inputs of the next
// iteration.
type Carrying interface {
	Iterating
	// CarriedTo returns the input of the next iteration that output i of the body becomes, or −1.
	CarriedTo(i int) int
}

// Growing is implemented by operators whose result is input 0, a sequence, with other items. If
// [Call.Grows] is set, the result may share the memory of the items of the input.
type Growing interface {
	Operator
	// Grows is a marker.
	Grows()
}

// Iterating is implemented by operators that run their subgraphs with [Call.RunBody] alone.
type Iterating interface {
	Operator
	Iterates()
}

// Nondeterministic is implemented by operators whose results differ between runs. They are neither
// folded nor merged.
type Nondeterministic interface {
	Operator
	Nondeterministic()
}

// ShapeReader is implemented by operators whose results depend on the shapes of their inputs, not
// on the contents.
type ShapeReader interface {
	Operator
	ReadsShapes()
}

// Appender is implemented by operators that can extend a state in place, by [Call.Extend].
type Appender interface {
	Operator
	// Extends returns the input that output out begins with, or has the shape of, and the axis
	// along which the output is longer, counted from the last one if it is negative. ok is false if
	// the output has memory of its own.
	Extends(out int) (in, axis int, ok bool)
}

// CacheReader is implemented by operators that read states extended in place, by [Call.Cache].
type CacheReader interface {
	Operator
	// ReadsCache reports whether input i may be one whose axis of growth is axis, not negative.
	ReadsCache(i, axis int) bool
}

// Preparer is implemented by operators that can do work once per model, such as packing weights, if
// some inputs are constant.
type Preparer interface {
	Operator
	// Prepare returns an operator that is equivalent to the receiver for these constant inputs, or
	// nil if preparation is not useful. in[i] is nil unless input i is constant; types holds the
	// types of all inputs. The returned operator has the same inputs, except that constant inputs
	// listed in drop are freed and nil when it runs.
	Prepare(in []tensor.Value, types []Type) (op Operator, drop []int, err error)
}

// Threaded is implemented by operators whose preparation depends on the number of threads.
type Threaded interface {
	Preparer
	// SetThreads is called before Prepare. The plans of a model have the same number of threads.
	SetThreads(n int)
}

// Rounder is implemented by operators with a variant that rounds GEMM operands to bfloat16.
type Rounder interface {
	Operator
	// Rounded returns that variant, or nil if it would not be faster. It is called after Prepare.
	Rounded() Operator
}

// Recurrent is implemented by operators that update a state step by step. Neither their subgraphs
// nor the products that feed them round to bfloat16.
type Recurrent interface {
	Operator
	Recurrent()
}

// InferContext gives Infer access to the inputs of a node and collects its outputs. Its methods are
// not inlined: every Infer calls them, and the copies would take 90 kB of a program.
type InferContext struct {
	node *Node
	in   []*Value // nil for an omitted input
	out  []Value
	// sub infers a subgraph for given input types.
	sub func(k int, in []Value) ([]Value, error)
}

// NewInferContext returns the context for the inference of one node. in holds nil for omitted
// inputs, and sub infers the k-th subgraph.
func NewInferContext(n *Node, in []*Value, sub func(k int, in []Value) ([]Value, error)) *InferContext {
	return &InferContext{node: n, in: in, out: make([]Value, len(n.Out)), sub: sub}
}

// Results returns the results of Infer, one value per output.
func (c *InferContext) Results() []Value { return c.out }

// NumIn returns the number of inputs, without trailing omitted ones.
func (c *InferContext) NumIn() int {
	n := len(c.in)
	for n > 0 && c.in[n-1] == nil {
		n--
	}
	return n
}

// NumOut returns the number of outputs of the node.
func (c *InferContext) NumOut() int { return len(c.out) }

// Has reports whether input i is present.
//
//go:noinline
func (c *InferContext) Has(i int) bool { return i >= 0 && i < len(c.in) && c.in[i] != nil }

// Wants reports whether output i is used.
//
//go:noinline
func (c *InferContext) Wants(i int) bool { return i < len(c.node.Out) && c.node.Out[i] != None }

// Type returns the type of input i, or the zero Type if it is omitted.
func (c *InferContext) Type(i int) Type {
	if !c.Has(i) {
		return Type{}
	}
	return c.in[i].Type
}

// Elem returns the element type of input i.
//
//go:noinline
func (c *InferContext) Elem(i int) tensor.DType { return c.Type(i).Elem }

// Shape returns the shape of input i, or nil if the rank is unknown or the input is omitted.
//
//go:noinline
func (c *InferContext) Shape(i int) []Dim { return c.Type(i).Shape }

// Const returns the contents of input i if it is a constant tensor, else nil.
func (c *InferContext) Const(i int) *tensor.Tensor {
	if !c.Has(i) {
		return nil
	}
	t, _ := c.in[i].Const.(*tensor.Tensor)
	return t
}

// Contents returns the elements of input i, an integer tensor of rank 0 or 1, as far as they are
// known; nil if their number is unknown.
func (c *InferContext) Contents(i int) []Dim {
	if !c.Has(i) {
		return nil
	}
	return ContentsOf(c.in[i])
}

// ContentsOf returns the elements of an integer tensor of rank 0 or 1: from its constant, from its
// recorded contents, or unknown elements if only their number is known.
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
			for _, x := range tensor.MustData[int64](t) {
				r = append(r, Known(int(x)))
			}
		case tensor.TypeInt32:
			r = make([]Dim, 0, t.Len())
			for _, x := range tensor.MustData[int32](t) {
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

// SetOut sets the type of output i, which may be an unused one.
//
//go:noinline
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

// GraphInputs returns the types of the inputs of the k-th subgraph before its inference, or nil
// without such a subgraph.
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

// InferGraph infers the k-th subgraph for inputs of the given types and returns its outputs.
func (c *InferContext) InferGraph(k int, in []Value) ([]Value, error) { return c.sub(k, in) }
