package ir

import (
	"context"
	"fmt"

	"github.com/onward-ml/onward/tensor"
)

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

// Env is what an engine gives a running operator.
type Env interface {
	// Context is cancelled when the run must stop.
	Context() context.Context
	// Alloc returns a tensor for output i of the call; contents are undefined for
	// numbers, empty for strings. It fails when the run would exceed its memory
	// limit.
	Alloc(c *Call, i int, dtype tensor.DType, shape []int) (*tensor.Tensor, error)
	// Scratch returns n bytes, 64-byte aligned with undefined contents, that are
	// valid until the call ends.
	Scratch(c *Call, n int) ([]byte, error)
	// Reserve charges n bytes to the run's memory limit until the call ends.
	Reserve(c *Call, n int64) error
	// Parallel calls fn over ranges that cover [0, n), at least grain long but for
	// the last, maybe on several threads at once.
	Parallel(n, grain int, fn func(lo, hi int))
	// RunGraph runs the call's k-th subgraph.
	RunGraph(c *Call, k int, in []tensor.Value) ([]tensor.Value, error)
	// Release tells that a result of RunGraph is no longer used.
	Release(c *Call, v tensor.Value)
	// Seed returns a fresh seed for an operator that has none of its own.
	Seed() uint64
}

// Call is one run of one node.
type Call struct {
	In  []tensor.Value // nil for an omitted input
	Out []tensor.Value // set by Output or Set; a wanted output must be set

	// Generic asks for the plain kernels: the reference engine's calls do.
	Generic bool

	// Repeatable says that the engine can use what the operator offers to Repeat.
	Repeatable bool

	Node  *Node
	Index int   // position of the node in its plan
	Held  int64 // bytes charged to this call by the engine
	Env   Env

	again []func()
	reads []*tensor.Tensor
	parts []Part // what Parallel was called for
	only  bool   // the call consists of them
	spent bool   // it took scratch memory, which others have when it is repeated
	dims  []int  // of Output, so that its argument need not escape
	par   func(n int, fn func(lo, hi int))
}

// Part is the arguments of one call of [Call.Parallel].
type Part struct {
	N, Grain int
	Fn       func(lo, hi int)
}

// Repeat offers fn, which computes what the call has just computed once more, from
// and to the same memory, for other contents of the given tensors. Engines use it
// to run small graphs again without looking at shapes. fn must not fail, allocate
// from the call or take long; whatever else the result depends on must be constant
// inputs. Several offers of one call are run in order. A call that takes scratch memory
// is not repeated.
func (c *Call) Repeat(fn func(), reads ...*tensor.Tensor) {
	if !c.Repeatable {
		return
	}
	c.again = append(c.again, fn)
	c.reads = append(c.reads, reads...)
}

// Replay is Repeat for a call that does nothing but allocate its outputs and call
// Parallel: the engine makes the calls of Parallel that follow again, in their order,
// for other contents of any input. Parallel must not be called within itself, and a call
// that takes scratch memory is not repeated.
func (c *Call) Replay() { c.only = c.Repeatable }

// Inner runs another operator as a part of the call, with in as its inputs where that is
// not nil. What that operator offers to repeat is not all that the call does, so the
// call is not repeated.
func (c *Call) Inner(op Operator, in ...tensor.Value) error {
	c.Repeatable = false
	if in != nil {
		outer := c.In
		defer func() { c.In = outer }()
		c.In = in
	}
	return op.Run(c)
}

// Start makes the call ready for a run, forgetting what the last one offered.
func (c *Call) Start(repeatable bool) {
	c.Repeatable = repeatable
	c.again, c.reads, c.parts, c.only, c.spent = nil, nil, nil, false, false
}

// Replays returns the calls of Parallel that can be made again, nil when Replay was
// not called.
func (c *Call) Replays() []Part {
	if !c.only || c.spent || !c.Repeatable {
		return nil
	}
	return c.parts
}

// Repeats returns what was offered since Start: one function for all, nil when nothing
// was, and the tensors that it reads.
func (c *Call) Repeats() (fn func(), reads []*tensor.Tensor) {
	again, reads := c.again, c.reads
	switch {
	case len(again) == 0 || c.spent || !c.Repeatable:
		return nil, nil
	case len(again) == 1:
		return again[0], reads
	}
	return func() {
		for _, f := range again {
			f()
		}
	}, reads
}

// NumIn returns the number of inputs, trailing omitted ones not counted.
func (c *Call) NumIn() int {
	n := len(c.In)
	for n > 0 && c.In[n-1] == nil {
		n--
	}
	return n
}

// Has reports whether input i is given.
func (c *Call) Has(i int) bool { return i < len(c.In) && c.In[i] != nil }

// Wants reports whether output i is used.
func (c *Call) Wants(i int) bool { return i < len(c.Node.Out) && c.Node.Out[i] != None }

// Tensor returns input i, nil when it is omitted. The engine has checked that
// the input is a tensor where the operator's signature says so.
func (c *Call) Tensor(i int) *tensor.Tensor {
	if !c.Has(i) {
		return nil
	}
	t, _ := c.In[i].(*tensor.Tensor)
	return t
}

// Output allocates output i. The contents are undefined for numbers: the
// operator must write every element.
func (c *Call) Output(i int, dtype tensor.DType, shape ...int) (*tensor.Tensor, error) {
	c.dims = append(c.dims[:0], shape...)
	t, err := c.Env.Alloc(c, i, dtype, c.dims)
	if err != nil {
		return nil, err
	}
	if i < len(c.Out) {
		c.Out[i] = t
	}
	return t, nil
}

// Set makes v output i. Values that share memory with inputs are allowed only
// for operators that are a [View] or whose outputs are not tensors; the engine
// copies others.
func (c *Call) Set(i int, v tensor.Value) {
	if i < len(c.Out) {
		c.Out[i] = v
	}
}

// Context returns the run's context.
func (c *Call) Context() context.Context { return c.Env.Context() }

// Err returns an error once the run must stop; loops that can take long check it.
func (c *Call) Err() error { return c.Env.Context().Err() }

// Scratch returns n bytes, 64-byte aligned, with undefined contents, valid until
// the call ends.
func (c *Call) Scratch(n int) ([]byte, error) {
	c.spent = true
	return c.Env.Scratch(c, n)
}

// ScratchOf returns n elements of scratch memory with undefined contents. T must
// hold no pointers.
func ScratchOf[T any](c *Call, n int) ([]T, error) {
	var z [1]T
	size := len(tensor.AsBytes(z[:]))
	if n < 0 || n > (1<<62)/size {
		return nil, fmt.Errorf("scratch of %d elements overflows", n)
	}
	b, err := c.Scratch(n * size)
	if err != nil {
		return nil, err
	}
	return tensor.FromRaw[T](b), nil
}

// Reserve charges n bytes that the operator allocates itself to the run's memory
// limit, before it allocates them.
func (c *Call) Reserve(n int64) error { return c.Env.Reserve(c, n) }

// Parallel calls fn over ranges that cover [0, n), maybe on several threads.
// Ranges are at least grain long but for the last. Results must not depend on
// how the ranges are cut.
func (c *Call) Parallel(n, grain int, fn func(lo, hi int)) {
	if c.only {
		c.parts = append(c.parts, Part{n, grain, fn})
	}
	c.Env.Parallel(n, grain, fn)
}

// Par is Parallel with ranges of any length, as a function value.
func (c *Call) Par() func(n int, fn func(lo, hi int)) {
	if c.par == nil {
		c.par = func(n int, fn func(lo, hi int)) { c.Parallel(n, 1, fn) }
	}
	return c.par
}

// RunGraph runs the node's k-th subgraph on inputs and returns its outputs.
func (c *Call) RunGraph(k int, in []tensor.Value) ([]tensor.Value, error) {
	return c.Env.RunGraph(c, k, in)
}

// Release tells that a result of RunGraph is not used any more, so that loops
// stay within the memory limit.
func (c *Call) Release(v tensor.Value) { c.Env.Release(c, v) }
