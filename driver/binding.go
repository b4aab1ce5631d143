package driver

import (
	"context"

	"github.com/onward-ml/onward/tensor"
)

// Binder is an [Engine] that works with bound memory. For other engines the session
// copies results to where they are bound.
type Binder interface {
	NewBinding() (Binding, error)
}

// Binding is memory that is bound to the inputs and outputs of an engine. One goroutine
// at a time uses it. Inputs and outputs are by position, as in a [Request]; the session
// has checked them against the model's declarations.
type Binding interface {
	// BindInput binds an input to a value. The zero Memory unbinds it.
	BindInput(i int, v Memory) error
	// BindOutput binds an output to the memory of a tensor, or for the zero Memory to
	// memory that the engine allocates on a device.
	BindOutput(i int, v Memory, d Device) error
	// ClearOutput unbinds an output.
	ClearOutput(i int)
	// SynchronizeInputs waits until copies of inputs to the device are done.
	SynchronizeInputs() error
	// SynchronizeOutputs waits until the device has written the outputs.
	SynchronizeOutputs() error
	// Run computes the bound outputs.
	Run(ctx context.Context, opts *RunOptions) error
	// Output returns an output of the last run, whose memory the next run may change.
	Output(i int) (Memory, error)
	// Close frees what the binding holds.
	Close() error
}

// Memory is a value that is bound: on the CPU, or a tensor on another device. At most
// one field is set. A sparse tensor has the format that it was made in.
type Memory struct {
	Value  tensor.Value
	Device DeviceTensor
}

// Allocator is an [Engine] with memory on devices other than the CPU.
type Allocator interface {
	// Allocate returns a tensor in the memory of a device, with undefined contents.
	Allocate(d Device, dtype tensor.DType, shape []int) (DeviceTensor, error)
}
