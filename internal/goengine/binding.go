package goengine

import (
	"context"
	"errors"
	"slices"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/tensor"
)

// NewBinding implements [driver.Binder].
func (e *engine) NewBinding() (driver.Binding, error) {
	return &binding{e: e, bound: e.general.plan.NewBound()}, nil
}

// binding implements [driver.Binding] for the Go engine.
type binding struct {
	e     *engine
	bound *exec.Bound
}

// device returns the error for memory on a device other than the CPU.
func (b *binding) device(d driver.Device) error {
	return driver.Errorf(driver.CodeInvalidArgument, "the Go engine works on the memory of the cpu, not of %s: open "+
		"the session with a provider for that device, such as ort:%s", d, d.Type)
}

func (b *binding) BindInput(i int, v driver.Memory) error {
	if v.Device != nil {
		return b.device(v.Device.Device())
	}
	if s, ok := v.Value.(*tensor.Sparse); ok {
		coo, err := s.COO()
		if err != nil {
			return err
		}
		v.Value = coo
	}
	b.bound.SetInput(b.input(i), v.Value)
	return nil
}

func (b *binding) BindOutput(i int, v driver.Memory, d driver.Device) error {
	if !d.IsCPU() {
		return b.device(d)
	}
	t, _ := v.Value.(*tensor.Tensor)
	b.bound.SetOutput(i, t)
	return nil
}

// input returns the position of input i in the graph.
func (b *binding) input(i int) int { return slices.Index(b.e.order(), i) }

// BindState implements [driver.StateBinder].
func (b *binding) BindState(o, i int) error { return b.bound.SetState(o, b.input(i)) }

// State implements [driver.StateBinder].
func (b *binding) State(i int) (*tensor.Tensor, error) { return b.bound.State(b.input(i)), nil }

// TruncateState implements [driver.StateBinder].
func (b *binding) TruncateState(i, axis, n int) error {
	return b.bound.TruncateState(b.input(i), axis, n)
}

func (b *binding) ClearOutput(i int)         { b.bound.ClearOutput(i) }
func (b *binding) SynchronizeInputs() error  { return nil }
func (b *binding) SynchronizeOutputs() error { return nil }

func (b *binding) Close() error {
	b.bound = nil
	return nil
}

func (b *binding) Run(ctx context.Context, opts *driver.RunOptions) error {
	r := exec.Request{MemoryLimit: b.e.limit, Budget: b.e.budget, Seed: opts.Seed, Serial: opts.Serial}
	p := b.e.general
	if !b.bound.Grows() { // otherwise each run has other shapes
		p = b.e.program(ctx, b.bound.Inputs())
	}
	b.bound.Use(p.plan)
	if fn := opts.Observe; fn != nil {
		r.Observe = observer(fn, b.e.planName(p))
	}
	err := b.bound.Run(ctx, &r)
	if errors.Is(err, exec.ErrBoundShape) {
		return &driver.StatusError{Code: driver.CodeInvalidArgument, Message: err.Error(), Err: err}
	}
	return err
}

func (b *binding) Output(i int) (driver.Memory, error) {
	return driver.Memory{Value: b.bound.Result(i)}, nil
}
