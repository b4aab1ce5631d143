package onward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/goengine"
	"github.com/onward-ml/onward/tensor"
)

// Values maps names of inputs or outputs to their values.
type Values map[string]tensor.Value

// Session is a loaded model. It is safe for concurrent use by multiple goroutines.
//
// Close a session whose provider uses a native library, or that is opened with
// [SessionOptions.MapWeights], [SessionOptions.PrepackedWeights] or its own number of
// threads. The garbage collector frees other sessions.
type Session struct {
	signature
	source  source
	opts    SessionOptions
	options *driver.Options // the part of opts that providers receive
	log     *slog.Logger
	profile *recorder // nil if profiling is off

	requests sync.Pool // of empty *request

	mu sync.RWMutex // held for reading by Run, for writing by Close and SetProviders
	compiled
	closed bool

	fallback sync.Mutex // held by fallBack
}

// Close waits for active runs, writes the profile if profiling is on, and releases the
// resources of the session.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	_, err := s.endProfiling()
	return errors.Join(err, s.compiled.close())
}

// Inputs returns the model's inputs. Initializers are not included.
func (s *Session) Inputs() []NodeArg { return slices.Clone(s.inputs) }

// Outputs returns the model's outputs.
func (s *Session) Outputs() []NodeArg { return slices.Clone(s.outputs) }

// OverridableInitializers returns the inputs that have an initializer as default.
func (s *Session) OverridableInitializers() []NodeArg { return slices.Clone(s.defaults) }

// Metadata returns the metadata of the model.
func (s *Session) Metadata() ModelMetadata { return s.meta }

// Provider returns the name of the provider that runs the model.
func (s *Session) Provider() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.provider.Name
}

// Providers returns the names of the session's providers, as get_providers of ONNX
// Runtime does. A session has one: that of [Session.Provider].
func (s *Session) Providers() []string { return []string{s.Provider()} }

// ProviderOptions returns the options of the session's providers by provider name.
func (s *Session) ProviderOptions() map[string]map[string]string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	o := maps.Clone(s.provider.Options)
	if o == nil {
		o = map[string]string{}
	}
	return map[string]map[string]string{s.provider.Name: o}
}

// Options returns the options that the session was opened with.
func (s *Session) Options() SessionOptions { return s.opts }

// Run runs the model on the inputs in feed and returns the outputs that opts names, or
// all if opts is nil or names none. The caller owns the outputs. If ctx is done, the run
// stops. Errors are of type *[StatusError].
func (s *Session) Run(ctx context.Context, feed Values, opts *RunOptions) (Values, error) {
	if opts == nil {
		opts = &defaultRun
	}
	req := s.request()
	defer s.putRequest(req)
	feed, err := opts.adapted(feed)
	if err != nil {
		return nil, err
	}
	if opts.Into != nil {
		return s.runInto(ctx, feed, opts)
	}
	if err := s.bind(req.In, feed); err != nil {
		return nil, err
	}
	wanted, err := s.wanted(opts.Outputs)
	if err != nil {
		return nil, err
	}
	req.Wanted = wanted
	if err := s.run(ctx, req, opts); err != nil {
		return nil, err
	}
	r := make(Values, len(req.Out))
	for i, v := range req.Out {
		if v != nil && (wanted == nil || wanted[i]) {
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
	if len(in) > len(s.inputs)+len(s.defaults) {
		return nil, statusf(InvalidArgument, "got %d inputs, the model has %d", len(in), len(s.inputs)+len(s.defaults))
	}
	feed := make(Values, len(in))
	for i, v := range in {
		if i < len(s.inputs) {
			feed[s.inputs[i].Name] = v
		} else {
			feed[s.defaults[i-len(s.inputs)].Name] = v
		}
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
	r := &request{Request: driver.Request{In: make([]tensor.Value, len(s.inputs)+len(s.defaults)), Out: make([]tensor.Value, len(s.outputs))}}
	r.Options = &r.options
	return r
}

func (s *Session) putRequest(r *request) {
	clear(r.In)
	clear(r.Out)
	r.Wanted, r.options = nil, driver.RunOptions{}
	s.requests.Put(r)
}

func (s *Session) run(ctx context.Context, req *request, opts *RunOptions) error {
	for {
		used, err := s.runOnce(ctx, req, opts)
		if err == nil || !s.opts.FallbackOnFailure || !errors.Is(err, ErrExecution) || ctx.Err() != nil {
			return err
		}
		if changed, e := s.fallBack(ctx, used, err); e != nil {
			return &StatusError{Code: ExecutionProvider, Message: fmt.Sprintf("%v; the next provider cannot take over: %v", err, e), Err: errors.Join(err, e)}
		} else if !changed {
			return err
		}
		clear(req.Out)
	}
}

// runOnce runs the session's engine and returns it.
func (s *Session) runOnce(ctx context.Context, req *request, opts *RunOptions) (driver.Engine, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, errClosed()
	}
	if err := s.observable(opts); err != nil {
		return s.engine, err
	}
	opts.fill(&req.options)
	done := s.watch(ctx, &req.options)
	err := s.engine.Run(ctx, &req.Request)
	if done != nil {
		done(err)
	}
	return s.engine, runStatus(err)
}

// fallBack changes the session from a failed engine to the next of its providers. It
// reports whether the session has another engine now, which another run may have set.
func (s *Session) fallBack(ctx context.Context, failed driver.Engine, why error) (bool, error) {
	s.fallback.Lock()
	defer s.fallback.Unlock()
	s.mu.RLock()
	same, name, next := s.engine == failed, s.provider.Name, s.next
	s.mu.RUnlock()
	if !same {
		return true, nil
	}
	if len(next) == 0 {
		return false, nil
	}
	s.log.Warn("provider failed, changing to the next", "provider", name, "next", next[0].Name, "reason", why.Error())
	return true, s.SetProviders(ctx, next)
}

// SetDynamicOptions sets options of the session's provider that may change while the
// session is in use, such as OpenVINO's ep.dynamic.workload_type. It returns
// NOT_IMPLEMENTED if the provider has none.
func (s *Session) SetDynamicOptions(options map[string]string) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return errClosed()
	}
	d, ok := s.engine.(driver.DynamicOptions)
	if !ok {
		return statusf(NotImplemented, "provider %s has no options that can be changed while the session is in use", s.provider.Name)
	}
	return runStatus(d.SetDynamicOptions(options))
}

// observable returns an error if the options ask a provider for its nodes that does not report
// them.
func (s *Session) observable(opts *RunOptions) error {
	if opts.Observe == nil || driver.TraitsOf(driver.Lookup(s.provider.Name)).Operators {
		return nil
	}
	return statusf(NotImplemented, "provider %s does not report the nodes of a run to RunOptions.Observe; a backend.Rep returns their results and times", s.provider.Name)
}

func errClosed() error { return &StatusError{Code: Fail, Message: "the session is closed"} }

var defaultRun RunOptions

// wanted returns the mask of the named outputs, or nil if names is nil, which stands for
// all outputs.
func (s *Session) wanted(names []string) ([]bool, error) {
	if names == nil {
		return nil, nil
	}
	if len(names) == 0 {
		return nil, statusf(InvalidArgument, "At least one output should be requested.")
	}
	w := make([]bool, len(s.outputs))
	for _, n := range names {
		i, ok := s.outIndex[n]
		if !ok {
			return nil, hinted(statusf(InvalidArgument, "Invalid output name:%s", n), driver.Suggest(n, s.outputNames(nil)))
		}
		w[i] = true
	}
	return w, nil
}

// bind stores the values of a feed in in, in the order of the model's inputs. It checks
// every value against its declaration, with ONNX Runtime's messages.
func (s *Session) bind(in []tensor.Value, feed Values) error {
	for name, v := range feed {
		i, ok := s.inIndex[name]
		if !ok {
			return s.unknownInput(name, "Invalid input name: %s")
		}
		if v == nil {
			continue
		}
		in[i] = v
	}
	var missing []string
	for i := range s.inputs {
		a := &s.inputs[i]
		if in[i] == nil && !strings.HasPrefix(a.Type, "optional(") {
			missing = append(missing, "'"+a.Name+"'")
		}
	}
	if missing != nil {
		err := statusf(InvalidArgument, "Required inputs ([%s]) are missing from input feed ([%s]).", strings.Join(missing, ", "), quoted(feed))
		for i := range s.inputs {
			if v, ok := feed[s.inputs[i].Name]; ok && v == nil {
				return hinted(err, fmt.Sprintf("the value of %q is nil", s.inputs[i].Name))
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

// hinted adds a hint to an error.
func hinted(err *StatusError, hint string) *StatusError {
	err.Hint = hint
	return err
}

// unknownInput returns the error for a name that is no input. The format is that of its message.
func (s *Session) unknownInput(name, format string) *StatusError {
	names := make([]string, 0, len(s.inputs)+len(s.defaults))
	for _, a := range slices.Concat(s.inputs, s.defaults) {
		names = append(names, a.Name)
	}
	return hinted(statusf(InvalidArgument, format, name), driver.Suggest(name, names))
}

// quoted returns the names of a feed's values, sorted and in quotes.
func quoted(feed Values) string {
	names := make([]string, 0, len(feed))
	for n, v := range feed {
		if v != nil {
			names = append(names, "'"+n+"'")
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Check returns nil if v is a valid value for the argument, else the error that a run
// would return. It does not check the sizes of dimensions that are not fixed.
func (a NodeArg) Check(v tensor.Value) error {
	if tensor.IsNil(v) {
		return statusf(InvalidArgument, "Required inputs (['%s']) are missing from input feed ([]).", a.Name)
	}
	_, err := a.check(v)
	return err
}

// check returns the value to pass for the argument, or an error if v is not valid. It
// wraps v in an optional if the argument is an optional and v is not.
func (a *NodeArg) check(v tensor.Value) (tensor.Value, error) {
	if tensor.IsNil(v) {
		return nil, statusf(InvalidArgument, "the value of %q is a nil %T", a.Name, v)
	}
	got := v.Type()
	if a.typ.Kind == tensor.KindOptional && got.Kind != tensor.KindOptional {
		v = &tensor.Optional{Elem: *a.typ.Of, Value: v}
		got = tensor.OptionalOf(got)
	}
	if !got.Equal(a.typ) && !goengine.EmptyOf(v, a.typ) {
		return nil, hinted(statusf(InvalidArgument, "Unexpected input data type. Actual: (%s) , expected: (%s)", got, a.typ), a.typeHint(got))
	}
	t, ok := v.(*tensor.Tensor)
	if !ok || a.Shape == nil {
		return v, nil
	}
	if t.Rank() != len(a.Shape) {
		return nil, statusf(InvalidArgument, "Invalid rank for input: %s Got: %d Expected: %d Please fix either the inputs/outputs or the model.", a.Name, t.Rank(), len(a.Shape))
	}
	bad := ""
	for i, d := range a.Shape {
		if d.Value >= 0 && int64(t.Dim(i)) != d.Value {
			bad += fmt.Sprintf("\n index: %d Got: %d Expected: %d", i, t.Dim(i), d.Value)
		}
	}
	if bad != "" {
		return nil, statusf(InvalidArgument, "Got invalid dimensions for input: %s for the following indices%s\n Please fix either the inputs or the model.", a.Name, bad)
	}
	return v, nil
}

// typeHint names the argument and, of tensors, the Go types of the elements.
func (a *NodeArg) typeHint(got tensor.Type) string {
	if got.Kind != tensor.KindTensor || a.typ.Kind != tensor.KindTensor {
		return fmt.Sprintf("%q is to be a %s", a.Name, a.typ)
	}
	return fmt.Sprintf("the elements of %q are %s in Go, those of the value %s; tensor.Convert converts them", a.Name, goType(a.typ.Elem), goType(got.Elem))
}

// goType returns the Go type of the elements of a tensor, or ONNX's name if Go has none.
func goType(d tensor.DType) string {
	switch d {
	case tensor.TypeFloat32, tensor.TypeFloat64, tensor.TypeInt8, tensor.TypeInt16, tensor.TypeInt32, tensor.TypeInt64,
		tensor.TypeUint8, tensor.TypeUint16, tensor.TypeUint32, tensor.TypeUint64, tensor.TypeComplex64, tensor.TypeComplex128, tensor.TypeBool:
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
