package backend

import (
	"context"
	"errors"
	"fmt"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Inputs are the inputs of a run: [List], [Named] or [One].
type Inputs interface {
	// bind returns the inputs by name; names are the model's, in order.
	bind(names []string) (onward.Values, error)
}

// List gives inputs by position. Nil leaves an optional input out.
type List []tensor.Value

// Named gives inputs by name.
type Named map[string]tensor.Value

func (l List) bind(names []string) (onward.Values, error) {
	if len(l) > len(names) {
		return nil, fmt.Errorf("backend: %d inputs, the model has %d", len(l), len(names))
	}
	r := make(onward.Values, len(l))
	for i, v := range l {
		if v != nil {
			r[names[i]] = v
		}
	}
	return r, nil
}

func (n Named) bind([]string) (onward.Values, error) { return onward.Values(n), nil }

type one struct{ v tensor.Value }

// One gives the only input of a model.
func One(v tensor.Value) Inputs { return one{v} }

func (o one) bind(names []string) (onward.Values, error) {
	if len(names) != 1 {
		return nil, fmt.Errorf("Expecting one input not %d.", len(names))
	}
	return onward.Values{names[0]: o.v}, nil
}

// Outputs are the results of a run, in the model's order and by name.
type Outputs struct {
	Names  []string
	Values []tensor.Value
}

// Get returns the output of that name, nil when there is none.
func (o *Outputs) Get(name string) tensor.Value {
	for i, n := range o.Names {
		if n == name {
			return o.Values[i]
		}
	}
	return nil
}

// Tensor returns output i as a tensor, nil when it is something else.
func (o *Outputs) Tensor(i int) *tensor.Tensor {
	if i < 0 || i >= len(o.Values) {
		return nil
	}
	t, _ := o.Values[i].(*tensor.Tensor)
	return t
}

// Rep is a model that is ready to run (BackendRep). It is safe for concurrent
// use.
type Rep struct {
	Session *onward.Session // nil with [Options.SkipRun]
	Model   *onnx.Model     // nil for a Rep made from a session, and after [Rep.ReduceSize]
	Device  Device
	Backend Backend

	opts    Options
	profile *profile // nil without Options.Profile
}

// Close closes the session.
func (r *Rep) Close() error {
	if r.Session == nil {
		return nil
	}
	return r.Session.Close()
}

// Run runs the model. Outputs are in the order of the graph, or as opts names
// them.
func (r *Rep) Run(ctx context.Context, in Inputs, opts *onward.RunOptions) (*Outputs, error) {
	if r.profile != nil {
		opts = r.profile.observe(opts)
	}
	feed, err := r.bind(in)
	if err != nil {
		return nil, err
	}
	res, err := r.Session.Run(ctx, feed, opts)
	if err != nil {
		return nil, err
	}
	o := &Outputs{}
	if opts != nil && opts.Outputs != nil {
		o.Names = opts.Outputs
	} else {
		for _, a := range r.Session.Outputs() {
			o.Names = append(o.Names, a.Name)
		}
	}
	for _, n := range o.Names {
		o.Values = append(o.Values, res[n])
	}
	return o, nil
}

var errSkipRun = errors.New("backend: the model was loaded with SkipRun: it cannot be run")

// bind gives the inputs of a run their names.
func (r *Rep) bind(in Inputs) (onward.Values, error) {
	if r.Session == nil {
		return nil, errSkipRun
	}
	if in == nil {
		return onward.Values{}, nil
	}
	args := r.Session.Inputs()
	if _, ok := in.(List); ok {
		args = append(args, r.Session.OverridableInitializers()...)
	}
	names := make([]string, len(args))
	for i, a := range args {
		names[i] = a.Name
	}
	return in.bind(names)
}
