package onward

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/tensor"
)

// Binding binds memory to the inputs and outputs of a session, like ONNX Runtime's
// IOBinding. Runs read and write the bound memory in place, on the CPU or on the
// device that the model runs on.
//
// Types and shapes are checked when a value is bound. [Session.RunBinding] reads the
// inputs, so their contents may change between runs. The exception is an input on a
// device other than the model's: it is copied when it is bound. On the provider cpu
// a run with a binding copies nothing, and allocates nothing once it has run with
// the same shapes before.
//
// Memory that is given by its address must stay valid until it is unbound. The memory
// of an output should not overlap that of an input or of another output.
//
// A Binding is safe for concurrent use, but its runs are serialized. Runs of different
// bindings of one session are concurrent.
type Binding struct {
	session *Session
	mu      sync.Mutex
	in      []*OrtValue // per input of the session
	out     []boundOutput
	order   []int       // bound outputs in the order in which they were bound
	states  map[int]int // per input with a state: its output
	engine  driver.StateBinder
	options driver.RunOptions // of the current run, kept here to avoid an allocation
	of      *compiled         // the owner of the engine that made the driver's binding
	ran     bool              // a run has succeeded since an output was bound
	ready   bool              // complete has succeeded since the last change
	closed  bool
}

// boundOutput describes how an output of the session is bound.
type boundOutput struct {
	bound  bool
	device Device
	given  *OrtValue // memory for the result; nil if the engine allocates it
}

// NewBinding returns an empty binding, to which inputs and outputs can be bound.
func (s *Session) NewBinding() (*Binding, error) {
	c, err := s.use()
	if err != nil {
		return nil, err
	}
	defer c.release()
	b := &Binding{session: s, in: make([]*OrtValue, len(s.inputs)+len(s.defaults)),
		out: make([]boundOutput, len(s.outputs)), of: c}
	var engine driver.Binding
	if e, ok := c.engine.(driver.Binder); ok {
		engine, err = e.NewBinding()
	} else {
		engine = newRequestBinding(c)
	}
	if err != nil {
		return nil, runStatus(err)
	}
	if b.engine, _ = engine.(driver.StateBinder); b.engine == nil {
		b.engine = newCopiedStates(engine, len(b.in))
	}
	return b, nil
}

// lock locks the binding and keeps its engine open until unlock. It fails if the binding or its
// session is closed, or if the session has changed its provider.
func (b *Binding) lock() error {
	c, err := b.session.use()
	if err != nil {
		return err
	}
	b.mu.Lock()
	switch {
	case b.closed:
		err = &StatusError{Code: CodeFail, Message: "the binding is closed"}
	case b.of != c:
		err = &StatusError{Code: CodeFail,
			Message: "the session has changed its provider since the binding was created: create a new binding"}
	default:
		return nil
	}
	b.mu.Unlock()
	c.release()
	return err
}

func (b *Binding) unlock() {
	b.mu.Unlock()
	b.of.release()
}

// BindCPUInput binds an input to a value on the CPU. The value is not copied.
func (b *Binding) BindCPUInput(name string, v tensor.Value) error {
	if _, ok := b.session.inIndex[name]; !ok {
		return b.session.notInList(name)
	}
	o, err := NewOrtValue(v)
	if err != nil {
		return err
	}
	return b.BindInputValue(name, o)
}

// notInList returns the error for a name that is neither an input nor an output.
func (s *Session) notInList(name string) error {
	err := s.unknownInput(name, "Failed to find NodeArg with name: %s in the def list")
	err.Hint = fmt.Sprintf("inputs: %s; outputs: %s", err.Hint, driver.Suggest(name, s.outputNames(nil)))
	return err
}

// BindInput binds an input to memory of the caller. The memory is copied only if it is
// not on the device that the model runs on.
func (b *Binding) BindInput(name string, m Buffer) error {
	v, err := OrtValueOfBuffer(m)
	if err != nil {
		return err
	}
	return b.BindInputValue(name, v)
}

// BindInputValue binds an input to an OrtValue.
func (b *Binding) BindInputValue(name string, v *OrtValue) error {
	i, ok := b.session.inIndex[name]
	if !ok {
		return b.session.unknownInput(name, "Error when binding input: Failed to find input name in the mapping: %s")
	}
	if v == nil {
		return statusf(CodeInvalidArgument, "input %s: the OrtValue is nil", name)
	}
	v, err := checkBound(b.session.arg(i), v, "input")
	if err != nil {
		return err
	}
	if err := b.lock(); err != nil {
		return err
	}
	defer b.unlock()
	if v, err = b.of.wrap(v); err == nil {
		err = b.engine.BindInput(i, v.memory())
	}
	if err != nil {
		return bindStatus("input", err)
	}
	b.in[i], b.ready = v, false
	return nil
}

// bindStatus wraps an error of an engine that cannot bind a value, in the form of ONNX
// Runtime's messages. what is "input" or "output".
func bindStatus(what string, err error) error {
	code, msg, hint := CodeInvalidArgument, err.Error(), ""
	var st *StatusError
	if errors.As(err, &st) {
		code, msg, hint = st.Code, st.Message, st.Hint
	}
	return &StatusError{Code: code, Message: fmt.Sprintf("Error when binding %s: %s", what, msg), Err: err, Hint: hint}
}

// checkBound checks a value against the declaration of an input or output and returns
// the value to bind. what is "input" or "output".
func checkBound(a *NodeArg, v *OrtValue, what string) (*OrtValue, error) {
	if v.device == nil && what == "input" {
		w, err := a.check(v.value)
		if err != nil {
			return nil, err
		}
		return &OrtValue{value: frozen(w)}, nil
	}
	got := v.Type()
	want := a.typ
	if want.Kind == tensor.KindOptional && got.Kind != tensor.KindOptional {
		want = *want.Of
	}
	if !got.Equal(want) {
		return nil, statusf(CodeInvalidArgument, "Unexpected %s data type. Actual: (%s) , expected: (%s)",
			what, got, a.typ)
	}
	if a.Shape == nil || !v.IsTensor() {
		return v, nil
	}
	return v, a.checkShape(v.Shape(), what, "inputs/outputs")
}

// frozen returns a tensor over the same memory with its own type and shape, so that the
// caller cannot change them after the check. It returns other values unchanged.
func frozen(v tensor.Value) tensor.Value {
	t, ok := v.(*tensor.Tensor)
	if !ok || t.DType() == tensor.TypeString {
		return v
	}
	c := new(tensor.Tensor)
	c.Reset(t.DType(), t.Bytes(), t.Shape())
	return c
}

// BindOutput binds an output to memory:
//   - the zero Buffer: memory on the CPU that the first run allocates. Later runs reuse it
//     while the shape stays the same.
//   - a Buffer of which only the device is set: memory that the run allocates there.
//   - another Buffer: memory of the caller, into which the run writes.
func (b *Binding) BindOutput(name string, to Buffer) error {
	d, err := to.Device.Resolve()
	if err != nil {
		return err
	}
	if to.Pointer == nil && to.Type == 0 && to.Shape == nil {
		i, ok := b.session.outIndex[name]
		if !ok {
			err := statusf(CodeInvalidArgument, "Invalid output name: %s", name)
			return hinted(err, driver.Suggest(name, b.session.outputNames(nil)))
		}
		return b.bindOutput(i, boundOutput{bound: true, device: d})
	}
	if to.Type == 0 || to.Shape == nil {
		return statusf(CodeInvalidArgument,
			"`element_type` and `shape` are to be provided if pre-allocated memory is provided")
	}
	if _, ok := b.session.outIndex[name]; !ok {
		return b.session.notInList(name)
	}
	v, err := OrtValueOfBuffer(to)
	if err != nil {
		return err
	}
	return b.BindOutputValue(name, v)
}

// BindCPUOutput binds an output to a tensor on the CPU, which the run fills in
// place.
func (b *Binding) BindCPUOutput(name string, t *tensor.Tensor) error {
	v, err := NewOrtValue(t)
	if err != nil {
		return err
	}
	return b.BindOutputValue(name, v)
}

// BindOutputValue binds an output to the memory of an OrtValue, which must be a dense
// tensor and not one of strings.
func (b *Binding) BindOutputValue(name string, v *OrtValue) error {
	i, ok := b.session.outIndex[name]
	if !ok {
		return b.session.notInList(name)
	}
	if v == nil {
		return statusf(CodeInvalidArgument, "output %s: the OrtValue is nil", name)
	}
	switch {
	case !v.IsTensor() || v.value != nil && v.value.Type().Kind != tensor.KindTensor:
		return statusf(CodeInvalidArgument, "Only binding Tensors is currently supported")
	case v.ElementType() == tensor.TypeString:
		return statusf(CodeInvalidArgument, "Only binding non-string Tensors is currently supported")
	}
	v, err := checkBound(&b.session.outputs[i], v, "output")
	if err != nil {
		return err
	}
	if v.device == nil {
		v = &OrtValue{value: frozen(v.value)}
	}
	return b.bindOutput(i, boundOutput{bound: true, device: v.Device(), given: v})
}

func (b *Binding) bindOutput(i int, o boundOutput) error {
	if err := b.lock(); err != nil {
		return err
	}
	defer b.unlock()
	for in, k := range b.states {
		if k == i {
			return statusf(CodeInvalidArgument, "Error when binding output: %s is the state of input %s",
				b.session.outputs[i].Name, b.session.arg(in).Name)
		}
	}
	var err error
	if o.given != nil {
		o.given, err = b.of.wrap(o.given)
	}
	if err == nil {
		err = b.engine.BindOutput(i, o.given.memory(), o.device)
	}
	if err != nil {
		return bindStatus("output", err)
	}
	if !b.out[i].bound {
		b.order = append(b.order, i)
	}
	b.out[i], b.ran, b.ready = o, false, false
	return nil
}

// SynchronizeInputs waits until the copies of inputs to a device are complete.
func (b *Binding) SynchronizeInputs() error {
	if err := b.lock(); err != nil {
		return err
	}
	defer b.unlock()
	return runStatus(b.engine.SynchronizeInputs())
}

// SynchronizeOutputs waits until the device has written the outputs.
func (b *Binding) SynchronizeOutputs() error {
	if err := b.lock(); err != nil {
		return err
	}
	defer b.unlock()
	return runStatus(b.engine.SynchronizeOutputs())
}

// ClearInputs unbinds all inputs and ends all states.
func (b *Binding) ClearInputs() error {
	if err := b.lock(); err != nil {
		return err
	}
	defer b.unlock()
	var err error
	for i, v := range b.in {
		if v != nil {
			err = errors.Join(err, b.engine.BindInput(i, driver.Memory{}))
		}
	}
	clear(b.in)
	b.endStates()
	b.ready = false
	return err
}

// endStates unbinds the outputs of all states. Their inputs are bound to their last values.
func (b *Binding) endStates() {
	for _, o := range b.states {
		b.engine.ClearOutput(o)
	}
	clear(b.states)
}

// ClearOutputs unbinds all outputs and ends all states. The inputs of states are bound to their
// last values.
func (b *Binding) ClearOutputs() error {
	if err := b.lock(); err != nil {
		return err
	}
	defer b.unlock()
	for _, i := range b.order {
		b.engine.ClearOutput(i)
	}
	b.endStates()
	clear(b.out)
	b.order, b.ran, b.ready = nil, false, false
	return nil
}

// OutputNames returns the names of the bound outputs in the order in which they were
// bound.
func (b *Binding) OutputNames() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := make([]string, len(b.order))
	for k, i := range b.order {
		names[k] = b.session.outputs[i].Name
	}
	return names
}

// Outputs returns the bound outputs of the last run in the order in which they were
// bound. The binding owns their memory, and the next run may change it.
func (b *Binding) Outputs() ([]*OrtValue, error) {
	if err := b.lock(); err != nil {
		return nil, err
	}
	defer b.unlock()
	return b.outputs()
}

func (b *Binding) outputs() ([]*OrtValue, error) {
	if !b.ran {
		return nil, &StatusError{Code: CodeFail, Message: "the binding has not run since its outputs were bound"}
	}
	r := make([]*OrtValue, len(b.order))
	for k, i := range b.order {
		m, err := b.engine.Output(i)
		if err != nil {
			return nil, runStatus(fail.Errorf("output %s: %w", b.session.outputs[i].Name, err))
		}
		r[k] = &OrtValue{value: m.Value, device: m.Device}
	}
	return r, nil
}

// CopyOutputsToCPU copies the bound outputs of the last run to the CPU and returns the
// copies in the order in which the outputs were bound.
func (b *Binding) CopyOutputsToCPU() ([]tensor.Value, error) {
	if err := b.lock(); err != nil {
		return nil, err
	}
	defer b.unlock()
	out, err := b.outputs()
	if err != nil {
		return nil, err
	}
	r := make([]tensor.Value, len(out))
	for k, v := range out {
		x, err := v.Value()
		if err != nil {
			return nil, runStatus(fail.Errorf("output %s: %w", b.session.outputs[b.order[k]].Name, err))
		}
		if v.device == nil {
			x = tensor.Clone(x)
		}
		r[k] = x
	}
	return r, nil
}

// Close releases the resources of the binding. It does not free memory that the caller
// has bound.
func (b *Binding) Close() error {
	if b.of.acquire() {
		defer b.of.release()
	} else {
		<-b.of.ended
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	return b.engine.Close()
}

// RunBinding runs the model on the bound inputs and writes the bound outputs to their
// memory. [Binding.Outputs] returns them. If ctx is done, the run stops and the
// contents of the outputs are undefined. opts may be nil; its fields Outputs and
// Adapters must be nil. Errors are of type *[StatusError].
func (s *Session) RunBinding(ctx context.Context, b *Binding, opts *RunOptions) error {
	if b == nil || b.session != s {
		return statusf(CodeInvalidArgument, "IOBinding must be used with the session that created it.")
	}
	if opts == nil {
		opts = &defaultRun
	} else if opts.Outputs != nil {
		return statusf(CodeInvalidArgument,
			"RunOptions.Outputs must be nil: a run with a binding computes the bound outputs")
	} else if opts.Into != nil {
		return statusf(CodeInvalidArgument,
			"RunOptions.Into must be nil: bind the tensors to the outputs of these names")
	} else if opts.Adapters != nil {
		return statusf(CodeInvalidArgument,
			"RunOptions.Adapters must be nil: bind the adapter's parameters to the inputs of these names")
	}
	if err := b.lock(); err != nil {
		return err
	}
	defer b.unlock()
	if !b.ready {
		if err := b.complete(); err != nil {
			return err
		}
		b.ready = true
	}
	done, err := b.of.start(ctx, opts, &b.options)
	if err != nil {
		return err
	}
	err = b.engine.Run(ctx, &b.options)
	b.options = driver.RunOptions{} // fill and watch expect the zero value
	if done != nil {
		done(err)
	}
	if err != nil {
		return runStatus(err)
	}
	b.ran = true
	return nil
}

// complete checks that an output and all required inputs are bound. It binds unbound
// inputs of an optional type to an empty optional.
func (b *Binding) complete() error {
	s := b.session
	if len(b.order)+len(b.states) == 0 {
		return statusf(CodeInvalidArgument, "At least one output should be requested.")
	}
	if err := missing(s, b.in); err != nil {
		return err
	}
	for i := range s.inputs {
		if b.in[i] != nil {
			continue
		}
		if err := b.engine.BindInput(i, driver.Memory{Value: &tensor.Optional{Elem: *s.inputs[i].typ.Of}}); err != nil {
			return bindStatus("input", err)
		}
	}
	return nil
}
