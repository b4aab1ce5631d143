package onward

import (
	"context"
	"errors"
	"slices"

	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/tensor"
)

// NewBinding implements [Binder].
func (e *engine) NewBinding() (EngineBinding, error) {
	return &nativeBinding{e: e, bound: e.plan.NewBound()}, nil
}

// nativeBinding is a binding of the pure Go engines.
type nativeBinding struct {
	e     *engine
	bound *exec.Bound
}

func (b *nativeBinding) device(d Device) error {
	return statusf(InvalidArgument, "the pure Go engines work on the memory of the cpu, not of %s: open the session with a provider for that device, such as ort:%s", d, d.Type)
}

func (b *nativeBinding) BindInput(i int, v *OrtValue) error {
	k := slices.Index(b.e.order(), i)
	if v == nil {
		b.bound.SetInput(k, nil)
		return nil
	}
	if v.device != nil {
		return b.device(v.Device())
	}
	b.bound.SetInput(k, v.value)
	return nil
}

func (b *nativeBinding) BindOutput(i int, v *OrtValue, d Device) error {
	if !d.IsCPU() {
		return b.device(d)
	}
	var t *tensor.Tensor
	if v != nil {
		t = v.value.(*tensor.Tensor)
	}
	b.bound.SetOutput(i, t)
	return nil
}

func (b *nativeBinding) ClearOutput(i int)         { b.bound.ClearOutput(i) }
func (b *nativeBinding) SynchronizeInputs() error  { return nil }
func (b *nativeBinding) SynchronizeOutputs() error { return nil }

func (b *nativeBinding) Close() error {
	b.bound = nil
	return nil
}

func (b *nativeBinding) Run(ctx context.Context, opts *RunOptions) error {
	r := exec.Request{MemoryLimit: b.e.limit, Seed: opts.Seed}
	if fn := opts.Observe; fn != nil {
		r.Observe = observer(fn)
	}
	err := b.bound.Run(ctx, &r)
	if errors.Is(err, exec.ErrBoundShape) {
		return &StatusError{Code: InvalidArgument, Message: err.Error(), Err: err}
	}
	return err
}

func (b *nativeBinding) Output(i int) (*OrtValue, error) {
	return &OrtValue{value: b.bound.Result(i)}, nil
}
