package onward

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/tensor"
)

// Binding is memory that is bound to a session's inputs and outputs, as ONNX Runtime's
// IOBinding: runs read from it and write to it in place, on the CPU or on the device
// that the model runs on.
//
// What is bound is checked when it is bound. Inputs are read during
// [Session.RunBinding], so their contents may change between runs; only an input
// that is on another device than the model is copied there when it is bound. On the provider
// cpu such a run copies nothing, and once it has seen its shapes, allocates nothing.
//
// Memory that is given by its address must stay valid until it is no longer bound.
// Memory of outputs should not lie over that of inputs or other outputs.
//
// Several goroutines may use a binding; one of them at a time runs. Runs of several
// bindings of one session go side by side.
type Binding struct {
	session *Session
	mu      sync.Mutex
	in      []*OrtValue // per input of the session
	out     []boundOutput
	order   []int // outputs in the order of binding
	engine  driver.Binding
	options driver.RunOptions // of the run
	of      driver.Engine     // that made it
	ran     bool              // since the outputs were bound
	ready   bool              // what is bound is complete
	closed  bool
}

// boundOutput is how an output of the session is bound.
type boundOutput struct {
	bound  bool
	device Device
	given  *OrtValue // memory for the result, nil when the engine allocates it
}

// NewBinding returns a binding without inputs and outputs.
func (s *Session) NewBinding() (*Binding, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, errClosed()
	}
	b := &Binding{session: s, in: make([]*OrtValue, len(s.inputs)+len(s.defaults)), out: make([]boundOutput, len(s.outputs)), of: s.engine}
	var err error
	if e, ok := s.engine.(driver.Binder); ok {
		b.engine, err = e.NewBinding()
	} else {
		b.engine = newRequestBinding(s)
	}
	if err != nil {
		return nil, runStatus(err)
	}
	return b, nil
}

// NewOrtValue returns a copy of a tensor in the memory of a device that the session's
// provider works on. On the CPU the tensor is copied as well.
func (s *Session) NewOrtValue(t *tensor.Tensor, d Device) (*OrtValue, error) {
	if t == nil {
		return nil, statusf(InvalidArgument, "an OrtValue needs a tensor")
	}
	v, err := s.NewOrtValueOf(d, t.DType(), t.Shape()...)
	if err != nil {
		return nil, err
	}
	return v, v.UpdateInPlace(t)
}

// NewOrtValueOf returns a tensor of undefined contents in the memory of a device that
// the session's provider works on.
func (s *Session) NewOrtValueOf(d Device, dtype tensor.DType, shape ...int) (*OrtValue, error) {
	d, err := d.Resolve()
	if err != nil {
		return nil, err
	}
	if d.IsCPU() {
		return NewOrtValueOf(dtype, shape...)
	}
	if dtype == tensor.TypeString {
		return nil, statusf(InvalidArgument, "Creation of OrtValues is currently only supported from non-string element types")
	}
	if _, err := tensor.ByteLen(dtype, shape); err != nil {
		return nil, invalid(err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, errClosed()
	}
	a, ok := s.engine.(driver.Allocator)
	if !ok {
		return nil, s.noDevice(d)
	}
	t, err := a.Allocate(d, dtype, shape)
	if err != nil {
		return nil, runStatus(err)
	}
	return &OrtValue{device: t}, nil
}

func (s *Session) noDevice(d Device) error {
	return statusf(InvalidArgument, "provider %s works on the memory of the cpu, not of %s: open the session with a provider for that device, such as ort:%s", s.provider, d, d.Type)
}

// lock begins a change of the binding; the function that it returns ends it.
func (b *Binding) lock() (func(), error) {
	b.session.mu.RLock()
	b.mu.Lock()
	unlock := func() {
		b.mu.Unlock()
		b.session.mu.RUnlock()
	}
	if err := b.usable(); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

func (b *Binding) usable() error {
	switch {
	case b.session.closed:
		return errClosed()
	case b.closed:
		return &StatusError{Code: Fail, Message: "the binding is closed"}
	case b.of != b.session.engine:
		return &StatusError{Code: Fail, Message: "the session has changed its provider since the binding was made: make a new one"}
	}
	return nil
}

// BindCPUInput binds an input to a value on the CPU, which is not copied.
func (b *Binding) BindCPUInput(name string, v tensor.Value) error {
	if _, ok := b.session.inIndex[name]; !ok {
		return notInList(name)
	}
	o, err := NewOrtValue(v)
	if err != nil {
		return err
	}
	return b.BindInputValue(name, o)
}

func notInList(name string) error {
	return statusf(InvalidArgument, "Failed to find NodeArg with name: %s in the def list", name)
}

// BindInput binds an input to memory, which is not copied where it is on the device
// that reads it.
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
		return statusf(InvalidArgument, "Error when binding input: Failed to find input name in the mapping: %s", name)
	}
	if v == nil {
		return statusf(InvalidArgument, "input %s: there is no OrtValue", name)
	}
	v, err := checkBound(b.session.arg(i), v, "input")
	if err != nil {
		return err
	}
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := b.engine.BindInput(i, v.memory()); err != nil {
		return bindStatus("input", err)
	}
	b.in[i], b.ready = v, false
	return nil
}

// bindStatus gives an error of an engine that cannot bind a value ONNX Runtime's
// words.
func bindStatus(what string, err error) error {
	code, msg := InvalidArgument, err.Error()
	var st *StatusError
	if errors.As(err, &st) {
		code, msg = st.Code, st.Message
	}
	return &StatusError{Code: code, Message: fmt.Sprintf("Error when binding %s: %s", what, msg), Err: err}
}

// checkBound checks a value against the declaration of an input or output.
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
		return nil, statusf(InvalidArgument, "Unexpected %s data type. Actual: (%s) , expected: (%s)", what, got, a.typ)
	}
	shape := v.Shape()
	if a.Shape == nil || !v.IsTensor() {
		return v, nil
	}
	if len(shape) != len(a.Shape) {
		return nil, statusf(InvalidArgument, "Invalid rank for %s: %s Got: %d Expected: %d Please fix either the inputs/outputs or the model.", what, a.Name, len(shape), len(a.Shape))
	}
	bad := ""
	for i, d := range a.Shape {
		if d.Value >= 0 && int64(shape[i]) != d.Value {
			bad += fmt.Sprintf("\n index: %d Got: %d Expected: %d", i, shape[i], d.Value)
		}
	}
	if bad != "" {
		return nil, statusf(InvalidArgument, "Got invalid dimensions for %s: %s for the following indices%s\n Please fix either the inputs/outputs or the model.", what, a.Name, bad)
	}
	return v, nil
}

// frozen returns a tensor over the same memory whose type and shape nobody else can
// change: they have been checked.
func frozen(v tensor.Value) tensor.Value {
	t, ok := v.(*tensor.Tensor)
	if !ok || t.DType() == tensor.TypeString {
		return v
	}
	c := new(tensor.Tensor)
	c.Reset(t.DType(), t.Bytes(), t.Shape())
	return c
}

// BindOutput asks for an output on the CPU. Its memory is allocated by the first run
// and used again by later ones as long as the shape stays the same.
func (b *Binding) BindOutput(name string) error { return b.BindOutputTo(name, Device{}) }

// BindOutputTo asks for an output on a device, where the run allocates its memory.
func (b *Binding) BindOutputTo(name string, d Device) error {
	d, err := d.Resolve()
	if err != nil {
		return err
	}
	i, ok := b.session.outIndex[name]
	if !ok {
		return statusf(InvalidArgument, "Invalid output name: %s", name)
	}
	return b.bindOutput(i, boundOutput{bound: true, device: d})
}

// BindOutputBuffer asks for an output in memory of the caller, which the run writes.
// A buffer without a pointer asks for memory that the run allocates on its device.
func (b *Binding) BindOutputBuffer(name string, m Buffer) error {
	if m.Pointer == nil && m.Type == 0 && m.Shape == nil {
		return b.BindOutputTo(name, m.Device)
	}
	if _, err := m.Device.Resolve(); err != nil {
		return err
	}
	if m.Type == 0 || m.Shape == nil {
		return statusf(InvalidArgument, "`element_type` and `shape` are to be provided if pre-allocated memory is provided")
	}
	if _, ok := b.session.outIndex[name]; !ok {
		return notInList(name)
	}
	v, err := OrtValueOfBuffer(m)
	if err != nil {
		return err
	}
	return b.BindOutputValue(name, v)
}

// BindOutputTensor asks for an output in the memory of a tensor on the CPU, which
// the run fills in place.
func (b *Binding) BindOutputTensor(name string, t *tensor.Tensor) error {
	v, err := NewOrtValue(t)
	if err != nil {
		return err
	}
	return b.BindOutputValue(name, v)
}

// BindOutputValue asks for an output in the memory of an OrtValue, a tensor of
// numbers.
func (b *Binding) BindOutputValue(name string, v *OrtValue) error {
	i, ok := b.session.outIndex[name]
	if !ok {
		return notInList(name)
	}
	if v == nil {
		return statusf(InvalidArgument, "output %s: there is no OrtValue", name)
	}
	switch {
	case !v.IsTensor() || v.value != nil && v.value.Type().Kind != tensor.KindTensor:
		return statusf(InvalidArgument, "Only binding Tensors is currently supported")
	case v.ElementType() == tensor.TypeString:
		return statusf(InvalidArgument, "Only binding non-string Tensors is currently supported")
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
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := b.engine.BindOutput(i, o.given.memory(), o.device); err != nil {
		return bindStatus("output", err)
	}
	if !b.out[i].bound {
		b.order = append(b.order, i)
	}
	b.out[i], b.ran, b.ready = o, false, false
	return nil
}

// SynchronizeInputs waits until inputs that are copied to a device are there.
func (b *Binding) SynchronizeInputs() error {
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return runStatus(b.engine.SynchronizeInputs())
}

// SynchronizeOutputs waits until a device has written the outputs.
func (b *Binding) SynchronizeOutputs() error {
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return runStatus(b.engine.SynchronizeOutputs())
}

// ClearInputs unbinds all inputs.
func (b *Binding) ClearInputs() error {
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	for i, v := range b.in {
		if v != nil {
			err = errors.Join(err, b.engine.BindInput(i, driver.Memory{}))
		}
	}
	clear(b.in)
	b.ready = false
	return err
}

// ClearOutputs unbinds all outputs.
func (b *Binding) ClearOutputs() error {
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	for _, i := range b.order {
		b.engine.ClearOutput(i)
	}
	clear(b.out)
	b.order, b.ran, b.ready = nil, false, false
	return nil
}

// OutputNames returns the bound outputs in the order in which they were bound.
func (b *Binding) OutputNames() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := make([]string, len(b.order))
	for k, i := range b.order {
		names[k] = b.session.outputs[i].Name
	}
	return names
}

// Outputs returns the bound outputs of the last run, in the order in which they were
// bound. Their memory is the binding's: the next run may change it.
func (b *Binding) Outputs() ([]*OrtValue, error) {
	unlock, err := b.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	return b.outputs()
}

func (b *Binding) outputs() ([]*OrtValue, error) {
	if !b.ran {
		return nil, &StatusError{Code: Fail, Message: "there are no outputs: the binding has not run since they were bound"}
	}
	r := make([]*OrtValue, len(b.order))
	for k, i := range b.order {
		m, err := b.engine.Output(i)
		if err != nil {
			return nil, runStatus(fmt.Errorf("output %s: %w", b.session.outputs[i].Name, err))
		}
		r[k] = &OrtValue{value: m.Value, device: m.Device}
	}
	return r, nil
}

// CopyOutputsToCPU returns copies of the bound outputs of the last run, in the order
// in which they were bound. They belong to the caller.
func (b *Binding) CopyOutputsToCPU() ([]tensor.Value, error) {
	unlock, err := b.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	out, err := b.outputs()
	if err != nil {
		return nil, err
	}
	r := make([]tensor.Value, len(out))
	for k, v := range out {
		x, err := v.Value()
		if err != nil {
			return nil, runStatus(fmt.Errorf("output %s: %w", b.session.outputs[b.order[k]].Name, err))
		}
		if v.device == nil {
			x = tensor.Clone(x)
		}
		r[k] = x
	}
	return r, nil
}

// Close frees what the binding holds. The memory that was bound stays.
func (b *Binding) Close() error {
	b.session.mu.RLock()
	defer b.session.mu.RUnlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	return b.engine.Close()
}

// RunBinding computes the outputs that are bound, from the inputs that are, and
// leaves them where they are bound: [Binding.Outputs] returns them. A cancelled
// context stops the run; the contents of the outputs are undefined then. opts may
// be nil; it cannot name outputs. Errors are of type *[StatusError].
func (s *Session) RunBinding(ctx context.Context, b *Binding, opts *RunOptions) error {
	if b == nil || b.session != s {
		return statusf(InvalidArgument, "IOBinding must be used with the session that created it.")
	}
	if opts == nil {
		opts = &defaultRun
	} else if opts.Outputs != nil {
		return statusf(InvalidArgument, "a bound run computes the outputs that are bound, RunOptions.Outputs must be nil")
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.usable(); err != nil {
		return err
	}
	if !b.ready {
		if err := b.complete(); err != nil {
			return err
		}
		b.ready = true
	}
	opts.fill(&b.options)
	done := s.watch(ctx, &b.options)
	err := b.engine.Run(ctx, &b.options)
	if done != nil {
		done(err)
	}
	if err != nil {
		return runStatus(err)
	}
	b.ran = true
	return nil
}

// complete checks that enough is bound, and binds inputs that may be absent.
func (b *Binding) complete() error {
	s := b.session
	if len(b.order) == 0 {
		return statusf(InvalidArgument, "At least one output should be requested.")
	}
	var missing []string
	for i := range s.inputs {
		a := &s.inputs[i]
		if b.in[i] != nil {
			continue
		}
		if !strings.HasPrefix(a.Type, "optional(") {
			missing = append(missing, "'"+a.Name+"'")
			continue
		}
		if err := b.engine.BindInput(i, driver.Memory{Value: &tensor.Optional{Elem: *a.typ.Of}}); err != nil {
			return bindStatus("input", err)
		}
	}
	if missing != nil {
		feed := Values{}
		for i, v := range b.in {
			if v != nil {
				feed[s.arg(i).Name] = nil
			}
		}
		return statusf(InvalidArgument, "Required inputs ([%s]) are missing from input feed ([%s]).", strings.Join(missing, ", "), quoted(feed))
	}
	return nil
}
