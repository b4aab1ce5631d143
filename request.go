package onward

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/goengine"
	"github.com/onward-ml/onward/tensor"
)

// This file follows a request from its feed to its results:
//
//   - the values of the feed and of adapters become the inputs of a driver.Request
//   - the engine of the session, or of the provider that replaces it, computes the outputs
//   - a request with values in the memory of a device, or with given memory for outputs, runs
//     through a Binding instead

// Run runs the model on the inputs in feed and returns the outputs that opts names, or all if opts
// or its list is nil; an empty list is an error. The caller owns the outputs. If ctx is done, the
// run stops. Errors are of type *[StatusError].
func (s *Session) Run(ctx context.Context, feed Values, opts *RunOptions) (Values, error) {
	if opts == nil {
		opts = &defaultRun
	}
	if opts.Into != nil {
		return s.runInto(ctx, feed, opts)
	}
	feed, err := opts.adapted(feed)
	if err != nil {
		return nil, err
	}
	req := s.request()
	defer s.putRequest(req)
	if err := s.setInputs(req.In, feed); err != nil {
		return nil, err
	}
	if req.Wanted, err = s.wanted(opts.Outputs); err != nil {
		return nil, err
	}
	if err := s.run(ctx, req, opts); err != nil {
		return nil, err
	}
	r := make(Values, len(req.Out))
	for i, v := range req.Out {
		if v != nil && (req.Wanted == nil || req.Wanted[i]) {
			r[s.outputs[i].Name] = v
		}
	}
	return r, nil
}

// RunAsync calls [Session.Run] in a new goroutine and returns at once. That goroutine
// calls callback exactly once with the results of Run, including errors for invalid
// inputs and for a closed session. The tensors in feed and opts must not change before.
func (s *Session) RunAsync(ctx context.Context, feed Values, opts *RunOptions, callback func(Values, error)) {
	feed = maps.Clone(feed)
	go func() {
		out, err := s.Run(ctx, feed, opts)
		callback(out, err)
	}()
}

// RunList is [Session.Run] with inputs and outputs by position. The inputs are those of
// [Session.Inputs], then those of [Session.OverridableInitializers], which may be left
// out. The outputs are those that opts names, or else those of [Session.Outputs].
func (s *Session) RunList(ctx context.Context, in []tensor.Value, opts *RunOptions) ([]tensor.Value, error) {
	if n := len(s.inputs) + len(s.defaults); len(in) > n {
		return nil, statusf(CodeInvalidArgument, "got %d inputs, the model has %d", len(in), n)
	}
	feed := make(Values, len(in))
	for i, v := range in {
		feed[s.arg(i).Name] = v
	}
	r, err := s.Run(ctx, feed, opts)
	if err != nil {
		return nil, err
	}
	names := s.outputNames(opts)
	out := make([]tensor.Value, len(names))
	for i, n := range names {
		out[i] = r[n]
	}
	return out, nil
}

// RunWithOrtValues is [Session.Run] for OrtValues, which may be in the memory of a
// device of the session's provider. The results are on the CPU; the caller owns them.
func (s *Session) RunWithOrtValues(ctx context.Context, feed map[string]*OrtValue,
	opts *RunOptions) (map[string]*OrtValue, error) {
	values := make(Values, len(feed))
	for name, v := range feed {
		if v == nil {
			continue
		}
		if sp, ok := v.value.(*tensor.Sparse); v.device != nil || ok && sp.Format != tensor.SparseCOO {
			return s.runBound(ctx, feed, opts)
		}
		values[name] = v.value
	}
	out, err := s.Run(ctx, values, opts)
	if err != nil {
		return nil, err
	}
	return ortValues(out), nil
}

func ortValues(values Values) map[string]*OrtValue {
	r := make(map[string]*OrtValue, len(values))
	for name, v := range values {
		r[name] = nil
		if v != nil {
			r[name] = &OrtValue{value: v}
		}
	}
	return r
}

// adapted returns a feed with the parameters of adapters. Earlier adapters take precedence over
// later ones, and all over the values of the feed, as in ONNX Runtime's Python API.
func (o *RunOptions) adapted(feed Values) (Values, error) {
	if len(o.Adapters) == 0 {
		return feed, nil
	}
	r := Values{}
	maps.Copy(r, feed)
	for i, a := range slices.Backward(o.Adapters) {
		if a == nil {
			return nil, statusf(CodeInvalidArgument, "RunOptions.Adapters[%d] is nil", i)
		}
		maps.Copy(r, a.Parameters)
	}
	return r, nil
}

// setInputs stores the values of a feed in in, in the order of the model's inputs. It checks
// every value against its declaration, with ONNX Runtime's messages.
func (s *Session) setInputs(in []tensor.Value, feed Values) error {
	for name, v := range feed {
		i, ok := s.inIndex[name]
		if !ok {
			return s.unknownInput(name, "Invalid input name: %s")
		}
		if v != nil {
			in[i] = v
		}
	}
	if err := missing(s, in); err != nil {
		for i := range s.inputs {
			if v, ok := feed[s.inputs[i].Name]; ok && v == nil {
				return hinted(err, fmt.Sprintf("the value of %.200q is nil", s.inputs[i].Name))
			}
		}
		return err
	}
	for i, v := range in {
		arg := s.arg(i)
		if v == nil {
			if i < len(s.inputs) {
				in[i] = &tensor.Optional{Elem: *arg.typ.Of}
			}
			continue
		}
		w, err := arg.check(v)
		if err != nil {
			return err
		}
		if sp, ok := w.(*tensor.Sparse); ok && sp.Format != tensor.SparseCOO {
			if w, err = sp.COO(); err != nil {
				return invalid(err)
			}
		}
		in[i] = w
	}
	return nil
}

// unknownInput returns the error for a name that is no input. The format is that of its message.
func (s *Session) unknownInput(name, format string) *StatusError {
	names := make([]string, len(s.inputs)+len(s.defaults))
	for i := range names {
		names[i] = s.arg(i).Name
	}
	return hinted(statusf(CodeInvalidArgument, format, name), driver.Suggest(name, names))
}

// missing returns the error for required inputs without a value, or nil. in holds a value for each
// input and default.
func missing[V comparable](s *Session, in []V) *StatusError {
	var none V
	required := func(i int) bool { return i < len(s.inputs) && s.inputs[i].typ.Kind != tensor.KindOptional }
	complete := true
	for i, v := range in {
		complete = complete && (v != none || !required(i))
	}
	if complete {
		return nil
	}
	var absent, present []string
	for i, v := range in {
		name := s.arg(i).Name
		switch {
		case v != none:
			present = append(present, name)
		case required(i):
			absent = append(absent, name)
		}
	}
	slices.Sort(present)
	return statusf(CodeInvalidArgument, "Required inputs (%s) are missing from input feed (%s).",
		listed(absent), listed(present))
}

// listed returns names as a list of Python.
func listed(names []string) string {
	if len(names) == 0 {
		return "[]"
	}
	return "['" + fail.Join(names, "', '") + "']"
}

// hinted adds a hint to an error.
func hinted(err *StatusError, hint string) *StatusError {
	err.Hint = hint
	return err
}

// Check returns nil if v is a valid value for the argument, else the error that a run
// would return. It does not check the sizes of dimensions that are not fixed.
func (a NodeArg) Check(v tensor.Value) error {
	if tensor.IsNil(v) {
		return statusf(CodeInvalidArgument, "Required inputs (['%s']) are missing from input feed ([]).", a.Name)
	}
	_, err := a.check(v)
	return err
}

// check returns the value to pass for the argument, or an error if v is not valid. It
// wraps v in an optional if the argument is an optional and v is not.
func (a *NodeArg) check(v tensor.Value) (tensor.Value, error) {
	if tensor.IsNil(v) {
		return nil, statusf(CodeInvalidArgument, "the value of %q is a nil %T", a.Name, v)
	}
	got := v.Type()
	if a.typ.Kind == tensor.KindOptional && got.Kind != tensor.KindOptional {
		v = &tensor.Optional{Elem: *a.typ.Of, Value: v}
		got = tensor.OptionalOf(got)
	}
	if !got.Equal(a.typ) && !goengine.EmptyOf(v, a.typ) {
		err := statusf(CodeInvalidArgument, "Unexpected input data type. Actual: (%s) , expected: (%s)", got, a.typ)
		return nil, hinted(err, a.typeHint(got))
	}
	if t, ok := v.(*tensor.Tensor); ok && a.Shape != nil {
		return v, a.checkShape(t.Shape(), "input", "inputs")
	}
	return v, nil
}

// checkShape compares a shape with the declared one. what is "input" or "output"; fix names what
// the caller can change.
func (a *NodeArg) checkShape(shape []int, what, fix string) error {
	if len(shape) != len(a.Shape) {
		return statusf(CodeInvalidArgument, "Invalid rank for %s: %s Got: %d Expected: %d "+
			"Please fix either the inputs/outputs or the model.", what, a.Name, len(shape), len(a.Shape))
	}
	bad := ""
	for i, d := range a.Shape {
		if d.Value >= 0 && int64(shape[i]) != d.Value {
			bad += fmt.Sprintf("\n index: %d Got: %d Expected: %d", i, shape[i], d.Value)
		}
	}
	if bad != "" {
		return statusf(CodeInvalidArgument, "Got invalid dimensions for %s: %s for the following indices%s\n "+
			"Please fix either the %s or the model.", what, a.Name, bad, fix)
	}
	return nil
}

// typeHint names the argument and, of tensors, the Go types of the elements.
func (a *NodeArg) typeHint(got tensor.Type) string {
	if got.Kind != tensor.KindTensor || a.typ.Kind != tensor.KindTensor {
		return fmt.Sprintf("%.200q is to be a %s", a.Name, a.typ)
	}
	return fmt.Sprintf("the elements of %.200q are %s in Go, those of the value %s; tensor.Convert converts them",
		a.Name, goType(a.typ.Elem), goType(got.Elem))
}

// goType returns the Go type of the elements of a tensor, or ONNX's name if Go has none.
func goType(d tensor.DType) string {
	switch d {
	case tensor.TypeFloat32, tensor.TypeFloat64, tensor.TypeInt8, tensor.TypeInt16, tensor.TypeInt32, tensor.TypeInt64,
		tensor.TypeUint8, tensor.TypeUint16, tensor.TypeUint32, tensor.TypeUint64, tensor.TypeComplex64,
		tensor.TypeComplex128, tensor.TypeBool:
		return d.NumPy()
	case tensor.TypeString:
		return "string"
	case tensor.TypeFloat16:
		return "tensor.Float16"
	case tensor.TypeBFloat16:
		return "tensor.BFloat16"
	}
	return d.String()
}

// outputNames returns the names of the outputs that a run returns.
func (s *Session) outputNames(opts *RunOptions) []string {
	if opts != nil && opts.Outputs != nil {
		return opts.Outputs
	}
	names := make([]string, len(s.outputs))
	for i, o := range s.outputs {
		names[i] = o.Name
	}
	return names
}

// wanted returns the mask of the named outputs, or nil if names is nil, which stands for
// all outputs.
func (s *Session) wanted(names []string) ([]bool, error) {
	if names == nil {
		return nil, nil
	}
	if len(names) == 0 {
		return nil, statusf(CodeInvalidArgument, "At least one output should be requested.")
	}
	w := make([]bool, len(s.outputs))
	for _, n := range names {
		i, ok := s.outIndex[n]
		if !ok {
			return nil, hinted(statusf(CodeInvalidArgument, "Invalid output name:%s", n),
				driver.Suggest(n, s.outputNames(nil)))
		}
		w[i] = true
	}
	return w, nil
}

// request is a request and its options, in one allocation.
type request struct {
	driver.Request
	options driver.RunOptions
}

// request returns an empty request from the pool; putRequest returns it.
func (s *Session) request() *request {
	if r, ok := s.requests.Get().(*request); ok {
		return r
	}
	r := &request{Request: driver.Request{In: make([]tensor.Value, len(s.inputs)+len(s.defaults)),
		Out: make([]tensor.Value, len(s.outputs))}}
	r.Options = &r.options
	return r
}

func (s *Session) putRequest(r *request) {
	clear(r.In)
	clear(r.Out)
	r.Wanted, r.options = nil, driver.RunOptions{}
	s.requests.Put(r)
}

// run runs the session's engine and, if it fails and the options say so, the next ones.
func (s *Session) run(ctx context.Context, req *request, opts *RunOptions) error {
	for {
		used, err := s.runOnce(ctx, req, opts)
		if err == nil || !s.opts.FallbackOnFailure || !errors.Is(err, ErrExecution) || ctx.Err() != nil {
			return err
		}
		if changed, e := s.fallBack(ctx, used, err); e != nil {
			return &StatusError{Code: CodeExecutionProvider,
				Message: fmt.Sprintf("%v; the next provider cannot take over: %v", err, e), Err: errors.Join(err, e)}
		} else if !changed {
			return err
		}
		clear(req.Out)
	}
}

// runOnce runs the session's engine and returns it.
func (s *Session) runOnce(ctx context.Context, req *request, opts *RunOptions) (driver.Engine, error) {
	c, err := s.use()
	if err != nil {
		return nil, err
	}
	defer c.release()
	done, err := c.start(ctx, opts, &req.options)
	if err != nil {
		return c.engine, err
	}
	err = c.engine.Run(ctx, &req.Request)
	if done != nil {
		done(err)
	}
	return c.engine, runStatus(err)
}

var defaultRun RunOptions

// start sets the driver's options of a run, and sets up its logging and profiling. The caller calls
// the function that it returns, if any, with the error of the run.
func (c *compiled) start(ctx context.Context, opts *RunOptions, d *driver.RunOptions) (func(error), error) {
	if opts.Observe != nil && !driver.TraitsOf(driver.Lookup(c.provider.Name)).Operators {
		return nil, statusf(CodeNotImplemented,
			"provider %s does not report the nodes of a run to RunOptions.Observe; "+
				"a backend.Rep returns their results and times", c.provider.Name)
	}
	opts.fill(d)
	return c.watch(ctx, d), nil
}

// fallBack changes the session from a failed engine to the next of its providers. It
// reports whether the session has another engine now, which another run may have set.
func (s *Session) fallBack(ctx context.Context, failed driver.Engine, why error) (bool, error) {
	s.fallback.Lock()
	defer s.fallback.Unlock()
	c := s.current.Load()
	if c.engine != failed {
		return true, nil
	}
	if len(c.next) == 0 {
		return false, nil
	}
	s.log.Warn("provider failed, changing to the next", "provider", c.provider.Name, "next", c.next[0].Name,
		"reason", why.Error())
	return true, s.SetProviders(ctx, c.next)
}

// runInto runs the model once through a binding, with its outputs in the memory of opts.Into.
func (s *Session) runInto(ctx context.Context, feed Values, opts *RunOptions) (Values, error) {
	out, err := s.runBound(ctx, ortValues(feed), opts)
	if err != nil {
		return nil, err
	}
	r := make(Values, len(out))
	for name, v := range out {
		if r[name] = v.value; opts.Into[name] != nil {
			r[name] = opts.Into[name]
		}
	}
	return r, nil
}

// runBound runs the model once through a binding: its inputs may be in the memory of a device, its
// outputs in the memory of opts.Into.
func (s *Session) runBound(ctx context.Context, feed map[string]*OrtValue,
	opts *RunOptions) (map[string]*OrtValue, error) {
	if opts == nil {
		opts = &defaultRun
	}
	parameters, err := opts.adapted(nil)
	if err != nil {
		return nil, err
	}
	in := ortValues(parameters)
	for name, v := range feed {
		if _, ok := in[name]; !ok {
			in[name] = v
		}
	}
	b, err := s.NewBinding()
	if err != nil {
		return nil, err
	}
	defer b.Close()
	for name, v := range in {
		if _, ok := s.inIndex[name]; !ok {
			return nil, s.unknownInput(name, "Invalid input name: %s")
		}
		if v == nil {
			continue
		}
		if err := b.BindInputValue(name, v); err != nil {
			return nil, err
		}
	}
	if _, err := s.wanted(opts.Outputs); err != nil {
		return nil, err
	}
	names := s.outputNames(opts)
	for name, t := range opts.Into {
		if !slices.Contains(names, name) {
			return nil, hinted(statusf(CodeInvalidArgument, "Invalid output name:%s", name),
				driver.Suggest(name, names))
		}
		if t == nil {
			return nil, statusf(CodeInvalidArgument,
				"RunOptions.Into[%q] is nil, want a tensor that receives the output",
				name)
		}
	}
	for _, name := range names {
		if t := opts.Into[name]; t != nil {
			err = b.BindCPUOutput(name, t)
		} else {
			err = b.BindOutput(name, Buffer{})
		}
		if err != nil {
			return nil, err
		}
	}
	bound := *opts
	bound.Outputs, bound.Into, bound.Adapters = nil, nil, nil // they are bound
	if err := s.RunBinding(ctx, b, &bound); err != nil {
		return nil, err
	}
	out, err := b.Outputs()
	if err != nil {
		return nil, err
	}
	r := make(map[string]*OrtValue, len(out))
	for k, name := range b.OutputNames() {
		r[name] = out[k]
	}
	return r, nil
}
