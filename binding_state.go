package onward

import (
	"slices"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/tensor"
)

// BindState makes an output the value of an input in the next run, such as the caches of a decoder
// and the states of recurrent networks. The first value is a copy of the tensor that is bound to
// the input, for a cache mostly one of length 0; binding the input again copies another value to
// the state. [Binding.State] returns the value; the output is not part of [Binding.Outputs].
//
// On the provider cpu, operators extend caches in place: attention operators with a past, Concat
// whose first input is the past, and TensorScatter. A cache that grows has room for twice its
// length. If its length does not change because it is a buffer of fixed size, the elements after
// the new ones keep their values, as with shared buffers of ONNX Runtime. Other states use two
// memories in turn. No state is copied between runs. On other providers, the output is copied to
// the input on the CPU after each run.
//
// A run that fails leaves the states as they were, except for elements of a buffer of fixed size
// that an operator has overwritten.
func (b *Binding) BindState(output, input string) error {
	s := b.session
	o, ok := s.outIndex[output]
	if !ok {
		return hinted(statusf(CodeInvalidArgument, "Invalid output name: %s", output),
			driver.Suggest(output, s.outputNames(nil)))
	}
	i, ok := s.inIndex[input]
	if !ok {
		return s.unknownInput(input, "Error when binding state: Failed to find input name in the mapping: %s")
	}
	to, from := &s.outputs[o], s.arg(i)
	if to.typ.Kind != tensor.KindTensor || !to.typ.Equal(from.typ) {
		return statusf(CodeInvalidArgument, "state: output %s is %s and input %s is %s, want tensors of one type",
			output, to.typ, input, from.typ)
	}
	if !compatible(to.Shape, from.Shape) {
		return statusf(CodeInvalidArgument, "state: output %s has shape %v and input %s has shape %v, which differ",
			output, to.Shape, input, from.Shape)
	}
	if err := b.lock(); err != nil {
		return err
	}
	defer b.unlock()
	if b.in[i] == nil {
		return statusf(CodeInvalidArgument, "state: input %s is not bound: bind its first value first", input)
	}
	for k, p := range b.states {
		if k == i || p == o {
			return statusf(CodeInvalidArgument, "state: output %s is the state of input %s already", s.outputs[p].Name,
				s.arg(k).Name)
		}
	}
	if !b.in[i].IsTensor() || b.in[i].ElementType().Bits()%8 != 0 || b.in[i].ElementType() == tensor.TypeString {
		return statusf(CodeInvalidArgument, "state: input %s is %s, want a tensor of numbers of whole bytes", input,
			b.in[i].Type())
	}
	if err := b.engine.BindState(o, i); err != nil {
		return bindStatus("state", err)
	}
	b.order = slices.DeleteFunc(b.order, func(k int) bool { return k == o })
	b.out[o] = boundOutput{}
	if b.states == nil {
		b.states = map[int]int{}
	}
	b.states[i], b.ready = o, false
	return nil
}

// compatible reports whether no dimension that both shapes know differs.
func compatible(a, b []Dim) bool {
	if a == nil || b == nil {
		return true
	}
	return slices.EqualFunc(a, b, func(x, y Dim) bool { return x.Value < 0 || y.Value < 0 || x.Value == y.Value })
}

// State returns a copy of the state of an input. It may be saved; [Binding.BindCPUInput] sets it.
func (b *Binding) State(input string) (*tensor.Tensor, error) {
	var t *tensor.Tensor
	err := b.withState(input, func(e driver.StateBinder, i int) (err error) {
		t, err = e.State(i)
		return err
	})
	return t, err
}

// TruncateState keeps the first length elements along an axis of the state of an input, so that
// later tokens are forgotten. A negative axis counts from the last one.
func (b *Binding) TruncateState(input string, axis, length int) error {
	return b.withState(input, func(e driver.StateBinder, i int) error {
		if err := e.TruncateState(i, axis, length); err != nil {
			return statusf(CodeInvalidArgument, "state of input %s: %s", input, err)
		}
		return nil
	})
}

// withState calls fn with the index of an input that has a state.
func (b *Binding) withState(input string, fn func(e driver.StateBinder, i int) error) error {
	i, ok := b.session.inIndex[input]
	if !ok {
		return b.session.unknownInput(input, "Failed to find input name in the mapping: %s")
	}
	if err := b.lock(); err != nil {
		return err
	}
	defer b.unlock()
	if _, ok := b.states[i]; !ok {
		return statusf(CodeInvalidArgument, "input %s has no state: call BindState first", input)
	}
	return runStatus(fn(b.engine, i))
}

// Fork returns a new binding with copies of the states, the same inputs, and the same outputs. It
// shares the memory that the caller has bound: bind other memory before the bindings run
// concurrently. Other outputs have memory of their own.
func (b *Binding) Fork() (*Binding, error) {
	f, err := b.session.NewBinding()
	if err != nil {
		return nil, err
	}
	if err := b.forkTo(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (b *Binding) forkTo(f *Binding) error {
	if err := b.lock(); err != nil {
		return err
	}
	defer b.unlock()
	for i, v := range b.in {
		if v == nil {
			continue
		}
		name := b.session.arg(i).Name
		if _, ok := b.states[i]; ok {
			t, err := b.engine.State(i)
			if err != nil {
				return err
			}
			v = &OrtValue{value: t}
		}
		if err := f.BindInputValue(name, v); err != nil {
			return err
		}
	}
	for _, k := range b.order {
		if err := f.bindOutput(k, b.out[k]); err != nil {
			return err
		}
	}
	for i, o := range b.states {
		if err := f.BindState(b.session.outputs[o].Name, b.session.arg(i).Name); err != nil {
			return err
		}
	}
	return nil
}
