package onward

import (
	"context"
	"slices"
	"unsafe"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/tensor"
)

// requestBinding implements [driver.Binding] for engines that do not implement
// [driver.Binder]. It copies a result to the bound memory if the engine has not written
// it there.
type requestBinding struct {
	of     *compiled
	req    driver.Request
	given  []*tensor.Tensor // per output, the bound memory or nil
	result []tensor.Value   // per output, the result of the last run
}

func newRequestBinding(c *compiled) *requestBinding {
	s := c.session
	n := len(s.outputs)
	return &requestBinding{of: c, given: make([]*tensor.Tensor, n), result: make([]tensor.Value, n),
		req: driver.Request{In: make([]tensor.Value, len(s.inputs)+len(s.defaults)), Out: make([]tensor.Value, n),
			Wanted: make([]bool, n)}}
}

func (b *requestBinding) BindInput(i int, v driver.Memory) error {
	if v.Device != nil {
		return b.of.noDevice(v.Device.Device())
	}
	if s, ok := v.Value.(*tensor.Sparse); ok {
		coo, err := s.COO()
		if err != nil {
			return err
		}
		v.Value = coo
	}
	b.req.In[i] = v.Value
	return nil
}

func (b *requestBinding) BindOutput(i int, v driver.Memory, d Device) error {
	if !d.IsCPU() {
		return b.of.noDevice(d)
	}
	b.result[i], b.req.Wanted[i] = nil, true
	b.given[i], _ = v.Value.(*tensor.Tensor)
	return nil
}

func (b *requestBinding) ClearOutput(i int) {
	b.given[i], b.result[i], b.req.Wanted[i] = nil, nil, false
}

func (b *requestBinding) SynchronizeInputs() error  { return nil }
func (b *requestBinding) SynchronizeOutputs() error { return nil }
func (b *requestBinding) Close() error              { return nil }

func (b *requestBinding) Run(ctx context.Context, opts *driver.RunOptions) error {
	b.req.Options = opts
	for i := range b.req.Out {
		b.req.Out[i] = b.result[i]
		if b.given[i] != nil {
			b.req.Out[i] = frozen(b.given[i]) // the engine may change its shape
		}
	}
	if err := b.of.engine.Run(ctx, &b.req); err != nil {
		return err
	}
	for i, v := range b.req.Out {
		g := b.given[i]
		if g == nil || !b.req.Wanted[i] {
			b.result[i] = v
			continue
		}
		t, ok := v.(*tensor.Tensor)
		if !ok || t.DType() != g.DType() || !slices.Equal(t.Shape(), g.Shape()) {
			return boundShape(b.of.session.outputs[i].Name, v, g)
		}
		if unsafe.SliceData(t.Bytes()) != unsafe.SliceData(g.Bytes()) {
			copy(g.Bytes(), t.Bytes())
		}
		b.result[i] = g
	}
	return nil
}

func (b *requestBinding) Output(i int) (driver.Memory, error) {
	return driver.Memory{Value: b.result[i]}, nil
}

// copiedStates implements [driver.StateBinder] for engines whose bindings do not: it copies outputs
// to inputs after each run.
type copiedStates struct {
	driver.Binding
	in     []tensor.Value // bound to inputs on the CPU
	states []copiedState
}

// copiedState is an output o whose value is that of input i in the next run.
type copiedState struct {
	o, i   int
	memory []byte // of the value, maybe longer
	value  *tensor.Tensor
}

func newCopiedStates(b driver.Binding, inputs int) *copiedStates {
	return &copiedStates{Binding: b, in: make([]tensor.Value, inputs)}
}

func (c *copiedStates) state(i int) *copiedState {
	k := slices.IndexFunc(c.states, func(s copiedState) bool { return s.i == i })
	if k < 0 {
		return nil
	}
	return &c.states[k]
}

// set copies a value to the state and binds it to the input.
func (c *copiedStates) set(s *copiedState, t *tensor.Tensor) error {
	n := len(t.Bytes())
	if len(s.memory) < n {
		s.memory = make([]byte, max(n, 2*len(s.memory)))
	}
	copy(s.memory, t.Bytes())
	if s.value != nil && slices.Equal(s.value.Shape(), t.Shape()) &&
		unsafe.SliceData(s.value.Bytes()) == unsafe.SliceData(s.memory) {
		return nil
	}
	s.value = new(tensor.Tensor)
	s.value.Reset(t.DType(), s.memory[:n:n], t.Shape())
	return c.Binding.BindInput(s.i, driver.Memory{Value: s.value})
}

func (c *copiedStates) BindState(o, i int) error {
	t, ok := c.in[i].(*tensor.Tensor)
	if !ok {
		return statusf(CodeInvalidArgument, "the first value of a state must be on the CPU")
	}
	if err := c.Binding.BindOutput(o, driver.Memory{}, Device{}); err != nil {
		return err
	}
	s := copiedState{o: o, i: i}
	if err := c.set(&s, t); err != nil {
		return err
	}
	c.states = append(c.states, s)
	return nil
}

func (c *copiedStates) State(i int) (*tensor.Tensor, error) { return c.state(i).value.Clone(), nil }

func (c *copiedStates) TruncateState(i, axis, n int) error {
	s := c.state(i)
	t, err := s.value.Slice(axis, 0, n)
	if err != nil {
		return err
	}
	return c.set(s, t)
}

func (c *copiedStates) BindInput(i int, v driver.Memory) error {
	if s := c.state(i); s != nil {
		if t, ok := v.Value.(*tensor.Tensor); ok {
			return c.set(s, t)
		}
		c.states = slices.DeleteFunc(c.states, func(x copiedState) bool { return x.i == i })
	}
	c.in[i] = v.Value
	return c.Binding.BindInput(i, v)
}

func (c *copiedStates) ClearOutput(o int) {
	c.states = slices.DeleteFunc(c.states, func(x copiedState) bool { return x.o == o })
	c.Binding.ClearOutput(o)
}

func (c *copiedStates) Run(ctx context.Context, opts *driver.RunOptions) error {
	if err := c.Binding.Run(ctx, opts); err != nil {
		return err
	}
	for k := range c.states {
		s := &c.states[k]
		m, err := c.Output(s.o)
		if err != nil {
			return err
		}
		t, ok := m.Value.(*tensor.Tensor)
		if !ok {
			return statusf(CodeFail, "the state of output %d is not a tensor on the CPU", s.o)
		}
		if err := c.set(s, t); err != nil {
			return err
		}
	}
	return nil
}

// boundShape returns the error for a result whose type or shape differs from that of
// the memory bound to it.
func boundShape(name string, got tensor.Value, want *tensor.Tensor) error {
	s := got.Type().String()
	if t, ok := got.(*tensor.Tensor); ok {
		s = t.String()
	}
	return statusf(CodeInvalidArgument, "output %s is %s, but the memory bound to it is for %s", name, s, want)
}
