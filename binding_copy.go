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

// boundShape returns the error for a result whose type or shape differs from that of
// the memory bound to it.
func boundShape(name string, got tensor.Value, want *tensor.Tensor) error {
	s := got.Type().String()
	if t, ok := got.(*tensor.Tensor); ok {
		s = t.String()
	}
	return statusf(CodeInvalidArgument, "output %s is %s, but the memory bound to it is for %s", name, s, want)
}
