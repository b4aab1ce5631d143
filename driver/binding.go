package driver

import (
	"context"
	"unsafe"

	"github.com/onward-ml/onward/tensor"
)

// Binder is an [Engine] that reads and writes bound memory itself. For other engines
// the session copies results to the bound memory.
type Binder interface {
	// NewBinding returns an empty binding of the engine.
	NewBinding() (Binding, error)
}

// Binding binds memory to the inputs and outputs of an engine. Its methods are not
// called concurrently. Inputs and outputs have the positions of a [Request]. The
// session has checked their types and shapes against the model's declarations.
type Binding interface {
	// BindInput binds an input to a value. The zero Memory unbinds it.
	BindInput(i int, v Memory) error
	// BindOutput binds an output to the memory of a tensor. For the zero Memory, the
	// engine allocates the memory on device d.
	BindOutput(i int, v Memory, d Device) error
	// ClearOutput unbinds an output.
	ClearOutput(i int)
	// SynchronizeInputs waits until the copies of inputs to the device are complete.
	SynchronizeInputs() error
	// SynchronizeOutputs waits until the device has written the outputs.
	SynchronizeOutputs() error
	// Run computes the bound outputs.
	Run(ctx context.Context, opts *RunOptions) error
	// Output returns an output of the last run. The next run may change its memory.
	Output(i int) (Memory, error)
	// Close releases the resources of the binding.
	Close() error
}

// StateBinder is a [Binding] that keeps states itself: outputs that are inputs of the next run. For
// other bindings, the session copies the output to the input after each run.
type StateBinder interface {
	Binding
	// BindState makes output o the value of input i in the next run. The first value is a copy of
	// the tensor bound to the input. BindInput copies another value to the state. ClearOutput, and
	// BindInput with the zero Memory, end the state; the input is then bound to its last value.
	// A run that fails leaves the state as it is, but elements that an operator overwrites in place
	// are undefined.
	BindState(o, i int) error
	// State returns a copy of the state of input i.
	State(i int) (*tensor.Tensor, error)
	// TruncateState keeps the first n elements along an axis of the state of input i. A negative
	// axis counts from the last one.
	TruncateState(i, axis, n int) error
}

// Memory is the value bound to an input or output: a value on the CPU, or a tensor on
// another device. At most one field is set. A sparse tensor has its original format.
type Memory struct {
	Value  tensor.Value
	Device DeviceTensor
}

// Allocator is an [Engine] with memory on devices other than the CPU.
type Allocator interface {
	// Allocate returns a tensor in the memory of a device, with undefined contents.
	Allocate(d Device, dtype tensor.DType, shape []int) (DeviceTensor, error)
	// Wrap returns a tensor over memory of the caller on a device. The memory must stay
	// valid while the tensor is in use.
	Wrap(d Device, dtype tensor.DType, shape []int, p unsafe.Pointer) (DeviceTensor, error)
}
