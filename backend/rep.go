package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Inputs are the inputs of a run: [List], [Named] or [One].
type Inputs interface {
	// Bind returns the values by name. Its arguments are the required inputs of the model and its
	// overridable initializers, in the order of the graph.
	Bind(inputs, initializers []onward.NodeArg) (onward.Values, error)
}

// List gives inputs by position, then values of overridable initializers. Nil leaves
// an optional input out.
type List []tensor.Value

// Bind implements [Inputs].
func (l List) Bind(inputs, initializers []onward.NodeArg) (onward.Values, error) {
	args := slices.Concat(inputs, initializers)
	if len(l) > len(args) {
		return nil, invalid("got %d inputs, the model has %d", len(l), len(args))
	}
	r := make(onward.Values, len(l))
	for i, v := range l {
		if v != nil {
			r[args[i].Name] = v
		}
	}
	return r, nil
}

// Named gives inputs by name.
type Named map[string]tensor.Value

// Bind implements [Inputs].
func (n Named) Bind(_, _ []onward.NodeArg) (onward.Values, error) { return onward.Values(n), nil }

type one struct{ v tensor.Value }

// One gives the only input of a model.
func One(v tensor.Value) Inputs { return one{v} }

func (o one) Bind(inputs, _ []onward.NodeArg) (onward.Values, error) {
	if len(inputs) != 1 {
		return nil, fmt.Errorf("Expecting one input not %d.", len(inputs))
	}
	return onward.Values{inputs[0].Name: o.v}, nil
}

// Outputs holds the results of a run, by default in the order of the graph.
type Outputs struct {
	Names  []string
	Values []tensor.Value
}

// Get returns the output with the given name, or nil.
func (o *Outputs) Get(name string) tensor.Value {
	for i, n := range o.Names {
		if n == name {
			return o.Values[i]
		}
	}
	return nil
}

// Tensor returns output i if it is a tensor, else nil.
func (o *Outputs) Tensor(i int) *tensor.Tensor {
	if i < 0 || i >= len(o.Values) {
		return nil
	}
	t, _ := o.Values[i].(*tensor.Tensor)
	return t
}

// Rep is a prepared model, the BackendRep of onnx.backend. It is safe for concurrent use.
type Rep struct {
	Session *onward.Session // nil with [Options.SkipRun]
	Model   *onnx.Model     // nil for a Rep made from a session, and after [Rep.ReduceSize]
	Device  Device
	Backend Backend

	opts    Options
	profile *profile // nil without Options.Profile
	wide    widened  // for the results of nodes with a native library
}

// NewRep returns a Rep that runs an open session. The model may be nil; then the
// methods that read or change it return an error.
func NewRep(s *onward.Session, m *onnx.Model, b Backend, d Device) *Rep {
	opts := s.Options()
	return &Rep{Session: s, Model: m, Device: d, Backend: b, opts: Options{Session: &opts}}
}

// Inputs returns the model's inputs.
func (r *Rep) Inputs() []onward.NodeArg {
	if r.Session == nil {
		return r.describe().Inputs
	}
	return r.Session.Inputs()
}

// Outputs returns the model's outputs.
func (r *Rep) Outputs() []onward.NodeArg {
	if r.Session == nil {
		return r.describe().Outputs
	}
	return r.Session.Outputs()
}

// describe describes the model of a Rep without a session.
func (r *Rep) describe() *onward.Description {
	d, err := onward.Describe(r.Model)
	if err != nil {
		return &onward.Description{} // after ReduceSize
	}
	return d
}

// Close closes the session.
func (r *Rep) Close() error {
	if r.Session == nil {
		return nil
	}
	return errors.Join(r.Session.Close(), r.wide.close(), r.profile.close())
}

// Run runs the model. Outputs are in the order of the graph, or as opts names
// them.
//
// With a native library, Observe of the options gets the results of the nodes of the main graph
// without times, after the run. They come from a second session, of the model with all results
// as outputs. A result that the library cannot return is an error, NOT_IMPLEMENTED.
func (r *Rep) Run(ctx context.Context, in Inputs, opts *onward.RunOptions) (*Outputs, error) {
	feed, err := r.bind(in)
	if err != nil {
		return nil, err
	}
	if r.profile != nil && r.profile.dir == "" {
		opts = r.profile.observe(opts)
	}
	run := r.Session.Run
	if opts != nil && opts.Observe != nil && !r.reports() {
		run = r.observed
	}
	res, err := run(ctx, feed, opts)
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

var errSkipRun = invalid("the Rep was prepared with SkipRun and cannot run")

// bind returns the inputs of a run by name.
func (r *Rep) bind(in Inputs) (onward.Values, error) {
	if r.Session == nil {
		return nil, errSkipRun
	}
	if in == nil {
		return onward.Values{}, nil
	}
	return in.Bind(r.Session.Inputs(), r.Session.OverridableInitializers())
}
