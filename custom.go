package onward

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/tensor"
)

// CustomOperator is an operator written in Go, for the sessions whose options list
// it. It takes the place of an operator of the same domain and name.
type CustomOperator struct {
	Domain string // "" for ai.onnx
	Name   string
	Since  int // first version of the domain that has it; default 1

	// Inputs and Outputs declare the parameters: "x:T, bias:T?, rest:any*" has an
	// optional second and any number of further ones. A type is one of ONNX's
	// element types (float, int64), composed (seq(float), map(string,float)), any, or
	// a variable that Types explains. The type of an output is concrete, or a
	// variable that an input binds.
	Inputs, Outputs string
	// Types says what each variable stands for, in words: {"T": "float double"}. The
	// groups @float, @int, @number and @all stand for many.
	Types map[string]string

	// Infer returns the shapes of the outputs, nil for one whose rank is not known.
	// Without Infer no shape is known before the run.
	Infer func(CustomShapes) ([][]Dim, error)

	// Run computes the outputs: as many as the node has, nil for those that it does
	// not want (an empty name). It is called by many goroutines at once and must not
	// keep or change the inputs. A panic becomes an error of the run.
	Run func(ctx context.Context, call CustomCall) ([]tensor.Value, error)
}

// CustomShapes is what is known of a node's inputs before it runs.
type CustomShapes struct {
	Shapes     [][]Dim // nil for an omitted input and for an unknown rank
	Attributes map[string]any
}

// CustomCall is one run of a node with a custom operator.
type CustomCall struct {
	Node string // the node's name, may be empty
	// Attributes holds int64, float32, string, *tensor.Tensor, *tensor.Sparse, and
	// slices of these.
	Attributes map[string]any
	In         []tensor.Value // nil for an omitted input
	Outputs    int            // how many are asked for, omitted ones counted
}

// checked is a custom operator with its signature.
type checked struct {
	CustomOperator
	sig *ir.Signature
}

// customDefs makes what the frontend looks operators up in; nil for none.
func customDefs(list []CustomOperator) (func(domain, opType string, opset int) *ops.Def, error) {
	if len(list) == 0 {
		return nil, nil
	}
	type key struct{ domain, name string }
	defs := map[key][]*checked{}
	for _, o := range list {
		c, err := o.check()
		if err != nil {
			return nil, err
		}
		k := key{ops.NormalDomain(o.Domain), o.Name}
		for _, d := range defs[k] {
			if d.Since == c.Since {
				return nil, statusf(InvalidArgument, "custom operator %s of version %d is registered twice", ops.QualifiedName(o.Domain, o.Name), c.Since)
			}
		}
		defs[k] = append(defs[k], c)
	}
	return func(domain, opType string, opset int) *ops.Def {
		var best *checked
		for _, c := range defs[key{domain, opType}] {
			if c.Since <= opset && (best == nil || c.Since > best.Since) {
				best = c
			}
		}
		if best == nil {
			return nil
		}
		return ops.NewDef(domain, opType, best.sig, best.build)
	}, nil
}

// check reads the declaration of an operator.
func (o CustomOperator) check() (*checked, error) {
	name := ops.QualifiedName(o.Domain, o.Name)
	if o.Name == "" || o.Run == nil {
		return nil, statusf(InvalidArgument, "custom operator %q needs a name and a function Run", name)
	}
	sig, err := ir.ParseSignature(o.Inputs, o.Outputs, o.Types)
	if err != nil {
		return nil, statusf(InvalidArgument, "custom operator %s: %w", name, err)
	}
	if len(sig.Out) == 0 {
		return nil, statusf(InvalidArgument, "custom operator %s has no outputs", name)
	}
	vars := map[string]tensor.Type{} // those that inputs bind, by any of their types
	for _, p := range sig.In {
		if ts := sig.Vars[p.Pattern]; len(ts) > 0 {
			vars[p.Pattern] = ts[0]
		}
	}
	for _, p := range sig.Out {
		if _, ok := sig.Resolve(p.Pattern, vars); !ok {
			return nil, statusf(InvalidArgument, "custom operator %s: the type %s of output %s is neither one type nor bound by an input", name, p.Pattern, p.Name)
		}
	}
	if o.Since == 0 {
		o.Since = 1
	}
	return &checked{CustomOperator: o, sig: sig}, nil
}

func (c *checked) build(a *ops.Attrs, opset int) (ops.Operator, error) {
	attrs := maps.Clone(a.All())
	for name, v := range attrs {
		switch v.(type) {
		case int64, float32, string, *tensor.Tensor, *tensor.Sparse, []int64, []float32, []string, []*tensor.Tensor:
		default:
			return nil, fmt.Errorf("attribute %s holds a graph or a type, which custom operators do not take", name)
		}
	}
	return &customOperator{checked: c, attrs: attrs}, nil
}

// customOperator is one node of a custom operator.
type customOperator struct {
	*checked
	attrs map[string]any
}

// Nondeterministic keeps calls from being folded and merged: what a Go function
// does is not known.
func (c *customOperator) Nondeterministic() {}

func (c *customOperator) outputTypes(in []tensor.Type, n int) ([]tensor.Type, error) {
	bound, err := c.sig.Bind(in, n)
	if err != nil {
		return nil, err
	}
	r := make([]tensor.Type, n)
	for i := range r {
		p := c.sig.Out[min(i, len(c.sig.Out)-1)]
		t, ok := c.sig.Resolve(p.Pattern, bound)
		if !ok {
			return nil, fmt.Errorf("the type of output %d (%s) is not determined: no input binds %s", i, p.Name, p.Pattern)
		}
		r[i] = t
	}
	return r, nil
}

// Infer takes types from the declaration and shapes from the operator's Infer.
func (c *customOperator) Infer(ic *ir.InferContext) error {
	in := make([]tensor.Type, ic.NumIn())
	s := CustomShapes{Shapes: make([][]Dim, len(in)), Attributes: c.attrs}
	for i := range in {
		t := ic.Type(i)
		in[i] = t.Base()
		if t.Ranked() {
			s.Shapes[i] = dimsOf(t.Shape)
		}
	}
	types, err := c.outputTypes(in, ic.NumOut())
	if err != nil {
		return err
	}
	var shapes [][]Dim
	if c.CustomOperator.Infer != nil {
		if shapes, err = guarded("Infer", func() ([][]Dim, error) { return c.CustomOperator.Infer(s) }); err != nil {
			return err
		}
	}
	for i, t := range types {
		r := ir.FromTensorType(t)
		if i < len(shapes) && shapes[i] != nil && t.Kind == tensor.KindTensor {
			r.Shape = make([]ir.Dim, len(shapes[i]))
			for k, d := range shapes[i] {
				switch {
				case d.Value >= 0:
					r.Shape[k] = ir.Known(int(d.Value))
				case d.Param != "":
					r.Shape[k] = ir.Symbol(d.Param)
				}
			}
		}
		ic.SetOut(i, r)
	}
	return nil
}

// Run calls the operator's function.
func (c *customOperator) Run(call *ir.Call) error {
	out, err := c.call(call.Context(), call.Node.Name, call.In[:call.NumIn()], len(call.Out), call.Wants)
	if err != nil {
		return err
	}
	for i, v := range out {
		if v != nil {
			call.Set(i, v)
		}
	}
	return nil
}

// call calls the operator's function for n outputs and checks what it returns:
// values of the declared types for the wanted ones, nil for the others.
func (c *customOperator) call(ctx context.Context, node string, in []tensor.Value, n int, wants func(int) bool) ([]tensor.Value, error) {
	bases := make([]tensor.Type, len(in))
	for i, v := range in {
		if v != nil {
			bases[i] = v.Type()
		}
	}
	types, err := c.outputTypes(bases, n)
	if err != nil {
		return nil, err
	}
	out, err := guarded("Run", func() ([]tensor.Value, error) {
		return c.CustomOperator.Run(ctx, CustomCall{Node: node, Attributes: c.attrs, In: slices.Clone(in), Outputs: n})
	})
	if err != nil {
		return nil, err
	}
	if len(out) < n {
		return nil, fmt.Errorf("the custom operator returned %d outputs, want %d", len(out), n)
	}
	r := make([]tensor.Value, n)
	for i := range r {
		if !wants(i) {
			continue
		}
		if absent(out[i]) {
			return nil, fmt.Errorf("the custom operator returned no output %d", i)
		}
		if got := out[i].Type(); !got.Equal(types[i]) && !emptyOf(out[i], types[i]) {
			return nil, fmt.Errorf("the custom operator returned %s as output %d, which is declared as %s", got, i, types[i])
		}
		r[i] = out[i]
	}
	return r, nil
}

// absent reports whether a value is nil, or a nil pointer in an interface.
func absent(v tensor.Value) bool {
	if v == nil {
		return true
	}
	switch v := v.(type) {
	case *tensor.Tensor:
		return v == nil
	case *tensor.Sequence:
		return v == nil
	case *tensor.Map:
		return v == nil
	case *tensor.Optional:
		return v == nil
	case *tensor.Sparse:
		return v == nil
	}
	return false
}

// guarded calls a function of the user; a panic in it is its error.
func guarded[T any](what string, fn func() (T, error)) (r T, err error) {
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("the custom operator's %s panicked: %v", what, e)
		}
	}()
	return fn()
}
