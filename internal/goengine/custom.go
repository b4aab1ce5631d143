package goengine

import (
	"context"
	"maps"
	"slices"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// checked is a custom operator and its parsed signature.
type checked struct {
	driver.CustomOperator
	sig *ir.Signature
}

// customDefs returns the function with which the frontend looks up the operators of list and
// the registered ones, or nil if there are none. It returns an error if a declaration is
// invalid.
func customDefs(list []driver.CustomOperator) (func(domain, opType string, opset int) *kit.Def, error) {
	type key struct{ domain, name string }
	keyOf := func(o driver.CustomOperator) key { return key{kit.NormalDomain(o.Domain), o.Name} }
	own := map[key]bool{}
	for _, o := range list {
		own[keyOf(o)] = true
	}
	list = slices.Clip(list)
	for _, o := range driver.RegisteredOperators() {
		if !own[keyOf(o)] {
			list = append(list, o)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	defs := map[key][]*checked{}
	for _, o := range list {
		c, err := check(o)
		if err != nil {
			return nil, err
		}
		k := keyOf(o)
		for _, d := range defs[k] {
			if d.Since == c.Since {
				return nil, driver.Errorf(driver.CodeInvalidArgument,
					"custom operator %s of version %d is registered twice", kit.QualifiedName(o.Domain, o.Name),
					c.Since)
			}
		}
		defs[k] = append(defs[k], c)
	}
	return func(domain, opType string, opset int) *kit.Def {
		var best *checked
		for _, c := range defs[key{domain, opType}] {
			if c.Since <= opset && (best == nil || c.Since > best.Since) {
				best = c
			}
		}
		if best == nil {
			return nil
		}
		return kit.NewDef(domain, opType, best.sig, best.build)
	}, nil
}

// check parses the declaration of a custom operator.
func check(o driver.CustomOperator) (*checked, error) {
	name := kit.QualifiedName(o.Domain, o.Name)
	if o.Name == "" || (o.Run == nil) == (o.Bind == nil) {
		return nil, driver.Errorf(driver.CodeInvalidArgument,
			"custom operator %q needs a name and either a function Run or a function Bind", name)
	}
	sig, err := ir.ParseSignature(o.Inputs, o.Outputs, o.Types)
	if err != nil {
		return nil, driver.Errorf(driver.CodeInvalidArgument, "custom operator %s: %w", name, err)
	}
	if len(sig.Out) == 0 {
		return nil, driver.Errorf(driver.CodeInvalidArgument, "custom operator %s has no outputs", name)
	}
	vars := map[string]tensor.Type{} // type variables of inputs, bound to any of their types
	for _, p := range sig.In {
		if ts := sig.Vars[p.Pattern]; len(ts) > 0 {
			vars[p.Pattern] = ts[0]
		}
	}
	for _, p := range sig.Out {
		if _, ok := sig.Resolve(p.Pattern, vars); !ok {
			return nil, driver.Errorf(driver.CodeInvalidArgument, "custom operator %s: the type %s of output %s is "+
				"neither a single type nor a type variable of an input", name, p.Pattern, p.Name)
		}
	}
	if o.Since == 0 {
		o.Since = 1
	}
	return &checked{CustomOperator: o, sig: sig}, nil
}

func (c *checked) build(a *kit.Attrs, opset int) kit.Operator {
	attrs := maps.Clone(a.All())
	for name, v := range attrs {
		switch v.(type) {
		case int64, float32, string, *tensor.Tensor, *tensor.Sparse, []int64, []float32, []string, []*tensor.Tensor:
		default:
			return a.Fail(fail.Errorf("attribute %s is a graph or a type, which custom operators do not support", name))
		}
	}
	op := &customOperator{checked: c, attrs: attrs, run: c.CustomOperator.Run}
	if c.Bind != nil {
		var err error
		if op.run, err = guarded("Bind", func() (customFunc, error) { return c.Bind(attrs) }); err != nil {
			return a.Fail(err)
		}
		if op.run == nil {
			return a.Fail(fail.Errorf("the custom operator's Bind returned no function"))
		}
	}
	return op
}

type customFunc = func(context.Context, driver.CustomCall) ([]tensor.Value, error)

// customOperator implements [kit.Operator] for one node of a custom operator.
type customOperator struct {
	*checked
	attrs map[string]any
	run   customFunc
}

// Nondeterministic keeps optimizations from folding and merging calls, since the Go
// function may have side effects.
func (c *customOperator) Nondeterministic() {}

// outputTypes returns the types of the n outputs for inputs of the given types.
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
			return nil, fail.Errorf("the type of output %d (%s) is not determined: no input binds %s", i,
				p.Name, p.Pattern)
		}
		r[i] = t
	}
	return r, nil
}

// Infer infers types from the declaration, and shapes with the operator's Infer.
func (c *customOperator) Infer(ic *ir.InferContext) error {
	in := make([]tensor.Type, ic.NumIn())
	s := driver.CustomShapes{Shapes: make([][]driver.Dim, len(in)), Attributes: c.attrs}
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
	var shapes [][]driver.Dim
	if c.CustomOperator.Infer != nil {
		if shapes, err = guarded("Infer", func() ([][]driver.Dim, error) {
			return c.CustomOperator.Infer(s)
		}); err != nil {
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
	in := driver.CustomCall{Node: call.Node.Name, In: call.In[:call.NumIn()], Outputs: len(call.Out),
		Reserve: call.Reserve}
	out, err := c.call(call.Context(), in, call.Wants)
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

// call calls the operator's function and checks that the wanted outputs have the declared
// types. The other outputs that it returns are nil.
func (c *customOperator) call(ctx context.Context, call driver.CustomCall,
	wants func(int) bool) ([]tensor.Value, error) {
	n := call.Outputs
	bases := make([]tensor.Type, len(call.In))
	for i, v := range call.In {
		if v != nil {
			bases[i] = v.Type()
		}
	}
	types, err := c.outputTypes(bases, n)
	if err != nil {
		return nil, err
	}
	call.Attributes, call.In = c.attrs, slices.Clone(call.In)
	out, err := guarded("Run", func() ([]tensor.Value, error) { return c.run(ctx, call) })
	if err != nil {
		return nil, err
	}
	if len(out) < n {
		return nil, fail.Errorf("the custom operator returned %d outputs, want %d", len(out), n)
	}
	r := make([]tensor.Value, n)
	for i := range r {
		if !wants(i) {
			continue
		}
		if absent(out[i]) {
			return nil, fail.Errorf("the custom operator returned no output %d", i)
		}
		if got := out[i].Type(); !got.Equal(types[i]) && !EmptyOf(out[i], types[i]) {
			return nil, fail.Errorf("the custom operator returned %s as output %d, which is declared as %s",
				got, i, types[i])
		}
		r[i] = out[i]
	}
	return r, nil
}

// EmptyOf reports whether v is an empty sequence or optional without an element type, and
// want is a type of the same kind.
func EmptyOf(v tensor.Value, want tensor.Type) bool {
	switch v := v.(type) {
	case *tensor.Sequence:
		return want.Kind == tensor.KindSequence && len(v.Items) == 0 && v.Elem.Kind == tensor.KindInvalid
	case *tensor.Optional:
		return want.Kind == tensor.KindOptional &&
			(v.Value == nil && v.Elem.Kind == tensor.KindInvalid || v.Value != nil && EmptyOf(v.Value, *want.Of))
	}
	return false
}

// absent reports whether v is nil or an interface that holds a nil pointer.
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

// guarded calls a function of the user and returns a panic in it as an error.
func guarded[T any](what string, fn func() (T, error)) (r T, err error) {
	defer func() {
		if e := recover(); e != nil {
			err = fail.Errorf("the custom operator's %s panicked: %v", what, e)
		}
	}()
	return fn()
}
