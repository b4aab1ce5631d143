package onward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Values are inputs or outputs by name.
type Values map[string]tensor.Value

// Session is a loaded model. Any number of goroutines may call Run at the same
// time. A session holds no resources that the garbage collector does not free,
// unless its provider is a native one or [SessionOptions.MapWeights] is set: then call
// Close.
type Session struct {
	model    *onnx.Model // while it is opened, and to be closed with the session
	inputs   []NodeArg
	outputs  []NodeArg
	defaults []NodeArg
	inIndex  map[string]int
	outIndex map[string]int
	meta     ModelMetadata
	engine   Engine
	provider ProviderConfig
	opts     SessionOptions
	log      *slog.Logger
	profile  *recorder // nil unless the session profiles itself
	reload   func([]ProviderConfig) (*onnx.Model, string, error)

	requests sync.Pool // *Request, empty

	mu     sync.RWMutex // held for reading by Run, for writing by Close
	closed bool
}

// Open loads the model in a file. External data is read from the file's folder.
// Errors are of type *[StatusError].
func Open(path string, opts *SessionOptions) (*Session, error) {
	o := orDefault(opts)
	m, err := onnx.ReadFile(path, o.readOptions(o.Providers))
	if err != nil {
		return nil, loadStatus(err)
	}
	if o.PrepackedWeights != nil {
		if o, err = o.hashedFile(path); err != nil {
			m.Close()
			return nil, loadStatus(err)
		}
	}
	s, err := openModel(context.Background(), path, m, o)
	if err != nil {
		m.Close()
		return nil, err
	}
	s.model = m
	return s, nil
}

// OpenBytes loads a model from memory. The bytes must not change while the
// session is in use. Such a model has no external data.
func OpenBytes(data []byte, opts *SessionOptions) (*Session, error) {
	o := orDefault(opts)
	m, err := onnx.Unmarshal(data, nil)
	if err != nil {
		return nil, loadStatus(err)
	}
	if o.PrepackedWeights != nil {
		o, _ = o.hashed(bytes.NewReader(data)) // memory does not fail
	}
	s, err := OpenModel(m, o)
	if err == nil {
		m.Graph, m.Functions = nil, nil
	}
	return s, err
}

// OpenModel makes a session for a model, which must not change or be closed while
// the session is in use. Closing the session leaves the model open.
func OpenModel(m *onnx.Model, opts *SessionOptions) (*Session, error) {
	return OpenModelContext(context.Background(), m, opts)
}

// OpenModelContext is [OpenModel] with a context that bounds the loading.
func OpenModelContext(ctx context.Context, m *onnx.Model, opts *SessionOptions) (*Session, error) {
	return openModel(ctx, "", m, opts)
}

// openModel makes a session for a model, and for the file that it was read from
// unless path is empty.
func openModel(ctx context.Context, path string, m *onnx.Model, opts *SessionOptions) (*Session, error) {
	o := orDefault(opts)
	s := &Session{model: m, opts: *o, log: o.Log()}
	if o.EnableProfiling {
		s.profile = newRecorder(o.ProfilePrefix)
	}
	if err := s.describe(); err != nil {
		return nil, loadStatus(err)
	}
	s.reload = modelSource(path, m, o)
	if _, _, err := prepareModel(m, o); err != nil {
		return nil, err
	}
	var err error
	if s.engine, s.provider, err = s.open(ctx, path, m, o.Providers); err != nil {
		return nil, err
	}
	s.model = nil // the engine has what it needs; the caller may drop the rest
	return s, nil
}

func orDefault(opts *SessionOptions) *SessionOptions {
	if opts == nil {
		return &SessionOptions{}
	}
	return opts
}

// Close frees what the session holds, after the runs that are active, and ends its
// profile.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	_, err := s.endProfiling()
	err = errors.Join(err, s.engine.Close())
	if s.model != nil {
		err = errors.Join(err, s.model.Close())
	}
	return err
}

// Inputs returns the model's inputs. Initializers are none.
func (s *Session) Inputs() []NodeArg { return slices.Clone(s.inputs) }

// Outputs returns the model's outputs.
func (s *Session) Outputs() []NodeArg { return slices.Clone(s.outputs) }

// OverridableInitializers returns the inputs that have a default.
func (s *Session) OverridableInitializers() []NodeArg { return slices.Clone(s.defaults) }

// Metadata returns what the model says about itself.
func (s *Session) Metadata() ModelMetadata { return s.meta }

// Provider returns the name of the provider that runs the model.
func (s *Session) Provider() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.provider.Name
}

// Run computes the model's outputs from inputs by name. It returns the outputs
// that opts names, or all. The values returned belong to the caller. A cancelled
// context stops the run. Errors are of type *[StatusError].
func (s *Session) Run(ctx context.Context, feed Values, opts *RunOptions) (Values, error) {
	req := s.request()
	defer s.putRequest(req)
	if err := s.bind(req.In, feed); err != nil {
		return nil, err
	}
	var names []string
	if opts != nil {
		names = opts.Outputs
	}
	wanted, err := s.wanted(names)
	if err != nil {
		return nil, err
	}
	req.Wanted, req.Options = wanted, opts
	if err := s.run(ctx, req); err != nil {
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

// RunList is Run with inputs and outputs by position; trailing inputs that have
// defaults may be missing.
func (s *Session) RunList(ctx context.Context, in []tensor.Value, opts *RunOptions) ([]tensor.Value, error) {
	if len(in) > len(s.inputs)+len(s.defaults) {
		return nil, statusf(InvalidArgument, "%d inputs, the model has %d", len(in), len(s.inputs)+len(s.defaults))
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

// request returns an empty request; putRequest takes it back.
func (s *Session) request() *Request {
	if r, ok := s.requests.Get().(*Request); ok {
		return r
	}
	return &Request{In: make([]tensor.Value, len(s.inputs)+len(s.defaults)), Out: make([]tensor.Value, len(s.outputs))}
}

func (s *Session) putRequest(r *Request) {
	clear(r.In)
	clear(r.Out)
	r.Wanted, r.Options = nil, nil
	s.requests.Put(r)
}

func (s *Session) run(ctx context.Context, req *Request) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return &StatusError{Code: Fail, Message: "the session is closed"}
	}
	if req.Options == nil {
		req.Options = &defaultRun
	}
	opts, done := s.watch(ctx, req.Options)
	req.Options = opts
	err := s.engine.Run(ctx, req)
	if done != nil {
		done(err)
	}
	return runStatus(err)
}

var defaultRun RunOptions

// wanted turns output names into a mask; nil for all.
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
			return nil, statusf(InvalidArgument, "Invalid output name:%s", n)
		}
		w[i] = true
	}
	return w, nil
}

// bind puts a feed into the order of the model's inputs and checks every value
// against its declaration, with ONNX Runtime's messages.
func (s *Session) bind(in []tensor.Value, feed Values) error {
	for name, v := range feed {
		i, ok := s.inIndex[name]
		if !ok {
			return statusf(InvalidArgument, "Invalid input name: %s", name)
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
		return statusf(InvalidArgument, "Required inputs ([%s]) are missing from input feed ([%s]).", strings.Join(missing, ", "), quoted(feed))
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
		in[i] = w
	}
	return nil
}

func (s *Session) arg(i int) *NodeArg {
	if i < len(s.inputs) {
		return &s.inputs[i]
	}
	return &s.defaults[i-len(s.inputs)]
}

func quoted(feed Values) string {
	names := make([]string, 0, len(feed))
	for n := range feed {
		names = append(names, "'"+n+"'")
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Check returns nil when v may be passed for the argument, else the error that a run
// with it would give. Only the sizes of dimensions without a number stay open.
func (a NodeArg) Check(v tensor.Value) error {
	if v == nil {
		return statusf(InvalidArgument, "Required inputs (['%s']) are missing from input feed ([]).", a.Name)
	}
	_, err := a.check(v)
	return err
}

// check reports whether v may be passed for the argument. A value for an
// optional argument may be given without its wrapping.
func (a *NodeArg) check(v tensor.Value) (tensor.Value, error) {
	got := v.Type()
	if a.typ.Kind == tensor.KindOptional && got.Kind != tensor.KindOptional {
		v = &tensor.Optional{Elem: *a.typ.Of, Value: v}
		got = tensor.OptionalOf(got)
	}
	if !got.Equal(a.typ) && !emptyOf(v, a.typ) {
		return nil, statusf(InvalidArgument, "Unexpected input data type. Actual: (%s) , expected: (%s)", got, a.typ)
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

// emptyOf reports whether v is an empty sequence or optional that does not know
// its element type.
func emptyOf(v tensor.Value, want tensor.Type) bool {
	switch v := v.(type) {
	case *tensor.Sequence:
		return want.Kind == tensor.KindSequence && len(v.Items) == 0 && v.Elem.Kind == tensor.KindInvalid
	case *tensor.Optional:
		return want.Kind == tensor.KindOptional && (v.Value == nil && v.Elem.Kind == tensor.KindInvalid || v.Value != nil && emptyOf(v.Value, *want.Of))
	}
	return false
}
