package ort

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/provider/internal/native"
	"github.com/onward-ml/onward/tensor"
)

// binding is an OrtIoBinding. ONNX Runtime reads bound inputs and writes bound outputs
// without copies if their memory is on the device of the execution provider.
type binding struct {
	s       *session
	io      uintptr
	st      state // scratch memory, on the heap with the binding
	in      []driver.Memory
	out     []boundOutput
	order   []int // indices of the bound outputs in ONNX Runtime's order
	arrived bool  // the inputs bound so far are on the device of the execution provider
	refresh bool  // an input has changed, so ONNX Runtime must allocate the outputs again
	cleanup runtime.Cleanup
}

// none is the memory of an input or output that is not bound.
var none driver.Memory

type boundOutput struct {
	bound  bool
	device driver.Device
	given  driver.Memory  // memory bound by the caller
	own    *tensor.Tensor // tensor allocated here that ONNX Runtime writes to, with the shape of the previous run
	copied bool           // the result is copied from ONNX Runtime's memory after each run
	result driver.Memory
	shared bool // the caller has the result
}

// replace sets the result and frees the memory of the previous one on a device unless it
// is shared. The garbage collector would free it too late: it does not know its size.
func (o *boundOutput) replace(v driver.Memory) {
	if old := o.result.Device; old != nil && !o.shared && o.given == none {
		old.Close()
	}
	o.result, o.shared = v, false
}

// ioBinding holds what the cleanup of a binding releases if Close is not called.
type ioBinding struct {
	s  *session
	io uintptr
}

func (b ioBinding) release() {
	b.s.release(fnReleaseIoBinding, b.io)
	b.s.drop()
}

// NewBinding implements [driver.Binder].
func (s *session) NewBinding() (driver.Binding, error) {
	b := &binding{s: s, in: make([]driver.Memory, len(s.in)), out: make([]boundOutput, len(s.out))}
	if err := s.do(fnCreateIoBinding, s.handle, uintptr(unsafe.Pointer(&b.io))); err != nil {
		return nil, err
	}
	s.users.Add(1)
	b.cleanup = runtime.AddCleanup(b, ioBinding.release, ioBinding{s, b.io})
	return b, nil
}

// Close releases the OrtIoBinding.
func (b *binding) Close() error {
	if b.io != 0 {
		b.cleanup.Stop()
		for i := range b.out {
			b.out[i].replace(none)
		}
		ioBinding{b.s, b.io}.release()
		b.io = 0
	}
	return nil
}

// BindInput binds memory to an input; ONNX Runtime reads it without a copy. Memory on
// another device than the one that reads it is copied once.
func (b *binding) BindInput(i int, v driver.Memory) error {
	b.refresh = b.refresh || !sameKind(v, b.in[i])
	if o, ok := v.Value.(*tensor.Optional); v != none && !(ok && o.Value == nil) {
		if err := b.input(i, v); err != nil {
			return err
		}
		b.in[i] = v
		return nil
	}
	if b.in[i] == none {
		return nil
	}
	b.in[i] = none
	b.s.release(fnClearBoundInputs, b.io)
	for k, v := range b.in {
		if v == none {
			continue
		}
		if err := b.input(k, v); err != nil {
			return err
		}
	}
	return nil
}

// sameKind reports whether two values are tensors of the same type and shape, for which the
// outputs mostly have the same shapes, too.
func sameKind(a, b driver.Memory) bool {
	if a.Device != nil && b.Device != nil {
		return a.Device.DType() == b.Device.DType() && slices.Equal(a.Device.Shape(), b.Device.Shape())
	}
	x, ok := a.Value.(*tensor.Tensor)
	y, ok2 := b.Value.(*tensor.Tensor)
	return ok && ok2 && x.DType() == y.DType() && slices.Equal(x.Shape(), y.Shape())
}

func (b *binding) input(i int, v driver.Memory) error {
	r := b.s.lib
	h, err := r.ortValue(&b.st, v, b.s.in[i].ElementType())
	if err != nil {
		return err
	}
	defer r.release(fnReleaseValue, h)
	b.arrived = false
	return b.s.do(fnBindInput, b.io, uintptr(unsafe.Pointer(b.s.inNames[i])), h)
}

// BindOutput binds output i to v, or to memory that ONNX Runtime allocates on d if v is
// none.
func (b *binding) BindOutput(i int, v driver.Memory, d driver.Device) error {
	var err error
	if v != none {
		err = b.outputTo(i, v)
	} else {
		err = b.outputOn(i, d)
	}
	if err != nil {
		return err
	}
	if !slices.Contains(b.order, i) {
		b.order = append(b.order, i)
	}
	// Only numeric tensors are reused: some kernels (StringConcat) append to the strings
	// that an output already holds.
	typ := b.s.out[i].ElementType()
	b.out[i].replace(none)
	b.out[i] = boundOutput{bound: true, device: d, given: v, copied: typ.Kind != tensor.KindTensor ||
		typ.Elem == tensor.TypeString || b.s.input[i] >= 0}
	return nil
}

func (b *binding) outputTo(i int, v driver.Memory) error {
	r := b.s.lib
	h, err := r.ortValue(&b.st, v, b.s.out[i].ElementType())
	if err != nil {
		return err
	}
	defer r.release(fnReleaseValue, h)
	return b.s.do(fnBindOutput, b.io, uintptr(unsafe.Pointer(b.s.outName[i])), h)
}

func (b *binding) outputOn(i int, d driver.Device) error {
	r := b.s.lib
	info, err := r.memoryInfo(d)
	if err != nil {
		return err
	}
	return r.do(fnBindOutputToDevice, b.io, uintptr(unsafe.Pointer(b.s.outName[i])), info)
}

// ClearOutput unbinds output i. ONNX Runtime can only unbind all outputs, so the others
// are bound again.
func (b *binding) ClearOutput(i int) {
	b.out[i].replace(none)
	b.out[i] = boundOutput{}
	b.s.release(fnClearBoundOutputs, b.io)
	order := b.order
	b.order = nil
	for _, k := range order {
		if o := b.out[k]; o.bound && b.BindOutput(k, o.given, o.device) != nil {
			b.out[k] = boundOutput{} // it was bound before, so only a lack of memory can fail here
		}
	}
}

func (b *binding) SynchronizeInputs() error  { return b.s.do(fnSynchronizeBoundInputs, b.io) }
func (b *binding) SynchronizeOutputs() error { return b.s.do(fnSynchronizeBoundOutputs, b.io) }

// Run computes the bound outputs. Outputs that ONNX Runtime allocates on the CPU are
// copied to tensors, which later runs write to while the shape stays the same.
func (b *binding) Run(ctx context.Context, opts *driver.RunOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s := b.s; s.graph != "" {
		onCPU := slices.ContainsFunc(b.in, func(m driver.Memory) bool { return m.Device == nil })
		if onCPU || slices.ContainsFunc(b.order, func(i int) bool { return b.out[i].given.Device == nil }) {
			return s.needsDeviceMemory()
		}
	}
	again := false // some output reuses the memory of the previous run
	for _, i := range b.order {
		o := &b.out[i]
		if o.given != none {
			continue
		}
		if b.refresh || o.copied {
			if err := b.outputOn(i, o.device); err != nil {
				return err
			}
			o.own = nil
			continue
		}
		again = again || o.result != none
	}
	err := b.run(ctx, opts)
	if err != nil && again && ctx.Err() == nil {
		// The run fails if an output's shape depends on input values and has changed since the
		// previous run. Let ONNX Runtime allocate the outputs and try again.
		if b.release() == nil && b.run(ctx, opts) == nil {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	b.refresh = false
	return b.collect()
}

// release unbinds the tensors of the previous run, so that ONNX Runtime allocates the
// outputs of the next run.
func (b *binding) release() error {
	for _, i := range b.order {
		o := &b.out[i]
		if o.given != none {
			continue
		}
		if err := b.outputOn(i, o.device); err != nil {
			return err
		}
		o.copied = o.copied || o.result != none
		o.own = nil
	}
	return nil
}

// run calls OrtApi::RunWithBinding.
func (b *binding) run(ctx context.Context, opts *driver.RunOptions) error {
	s, st := b.s, &b.st
	defer func() {
		s.lib.release(fnReleaseRunOptions, st.opts)
		st.opts = 0
	}()
	if err := s.runOptions(st, opts); err != nil {
		return err
	}
	if !b.arrived {
		// A copy to the device runs on a stream of its own, for which the run does not wait.
		if err := b.SynchronizeInputs(); err != nil {
			return err
		}
		b.arrived = true
	}
	err := s.watched(ctx, st, func() error { return s.lib.do(fnRunWithBinding, s.handle, st.opts, b.io) })
	runtime.KeepAlive(b) // ONNX Runtime reads and writes the tensors that b holds
	return err
}

// collect sets the results, and takes those that ONNX Runtime allocated.
func (b *binding) collect() error {
	r, st := b.s.lib, &b.st
	allocated := false
	for _, i := range b.order {
		o := &b.out[i]
		switch {
		case o.given != none:
			o.result = o.given
			if k := b.s.input[i]; k >= 0 && b.in[k] != none {
				if err := copyMemory(o.given, b.in[k]); err != nil {
					return fmt.Errorf("output %s: %w", b.s.out[i].Name, err)
				}
			}
		case o.own == nil:
			allocated = true
		}
	}
	if !allocated {
		return nil
	}
	if err := r.do(fnGetBoundOutputValues, b.io, r.allocator, uintptr(unsafe.Pointer(&st.res)),
		uintptr(unsafe.Pointer(&st.res2))); err != nil {
		return err
	}
	list, n := st.res, int(st.res2)
	handles := slices.Clone(unsafe.Slice((*uintptr)(dl.Pointer(list)), n))
	defer func() {
		for _, h := range handles {
			b.s.release(fnReleaseValue, h)
		}
	}()
	if err := r.do(fnAllocatorFree, r.allocator, list); err != nil {
		return err
	}
	if n != len(b.order) {
		return fmt.Errorf("ONNX Runtime reports %d bound outputs, want %d", n, len(b.order))
	}
	for k, i := range b.order {
		o := &b.out[i]
		if o.given != none || o.own != nil {
			continue
		}
		var d driver.Device
		if typ := b.s.out[i].ElementType(); !o.device.IsCPU() && typ.Kind == tensor.KindTensor {
			var err error
			if d, err = r.location(st, handles[k]); err != nil {
				return err
			}
		}
		if !d.IsCPU() {
			t, err := b.s.deviceTensor(handles[k], d, nil)
			if err != nil {
				return err
			}
			handles[k] = 0
			o.replace(driver.Memory{Device: t})
			continue
		}
		v, err := r.result(st, handles[k], b.s.out[i].ElementType(), nil)
		if err != nil {
			return fmt.Errorf("output %s: %w", b.s.out[i].Name, err)
		}
		o.replace(driver.Memory{Value: v})
		if t, ok := v.(*tensor.Tensor); ok && !o.copied && o.device.IsCPU() && len(t.Bytes()) > 0 {
			if err := b.outputTo(i, o.result); err != nil {
				return err
			}
			o.own = t
		}
	}
	return nil
}

// copyMemory copies an input to the memory bound for the output that it is, which ONNX Runtime
// does not write to.
func copyMemory(dst, src driver.Memory) error {
	to, _ := dst.Value.(*tensor.Tensor)
	from, _ := src.Value.(*tensor.Tensor)
	switch {
	case dst.Device != nil && src.Device != nil:
		return dst.Device.CopyFromDevice(src.Device)
	case dst.Device != nil && from != nil:
		return dst.Device.CopyFrom(from)
	case to != nil && src.Device != nil:
		return src.Device.CopyTo(to)
	case to == nil || from == nil || to.DType() != from.DType() || !sameShape(to.Shape(), from.Shape()):
		return native.Invalid("it is the graph input %v, want memory of that type and shape, got %v",
			src.Value, dst.Value)
	case to.DType() == tensor.TypeString:
		copy(tensor.MustData[string](to), tensor.MustData[string](from))
	default:
		copy(to.Bytes(), from.Bytes())
	}
	return nil
}

// Output returns output i of the last run.
func (b *binding) Output(i int) (driver.Memory, error) {
	if b.out[i].result == none {
		return none, errors.New("the output has not been computed yet")
	}
	b.out[i].shared = true
	return b.out[i].result, nil
}

// ortValue creates an OrtValue for bound memory. Numeric tensors share the memory, which
// the caller must keep alive. Strings, sequences, maps and sparse tensors are copied.
func (r *library) ortValue(st *state, v driver.Memory, typ tensor.Type) (uintptr, error) {
	if t := v.Device; t != nil {
		return r.wrap(st, t.Device(), t.DType(), t.Shape(), uintptr(t.Pointer()))
	}
	x := v.Value
	if o, ok := x.(*tensor.Optional); ok {
		x = o.Value
	}
	if s, ok := x.(*tensor.Sparse); ok {
		return r.sparseOf(st, s)
	}
	return r.value(st, v.Value, typ)
}

// sparseOf creates a sparse OrtValue in the format of s; ONNX Runtime copies the data.
func (r *library) sparseOf(st *state, s *tensor.Sparse) (uintptr, error) {
	if s.Format == tensor.SparseCOO {
		return r.sparseValue(st, s)
	}
	if s.Values.DType() == tensor.TypeString {
		return 0, errors.New("sparse tensors of strings cannot be passed to ONNX Runtime")
	}
	elem, err := r.elementType(s.Values.DType())
	if err != nil {
		return 0, err
	}
	dims := st.shape(s.Shape)
	st.res = 0
	if err := r.do(fnCreateSparseTensorAsOrtValue, r.allocator, uintptr(dl.Array(dims)), uintptr(len(dims)), elem,
		uintptr(unsafe.Pointer(&st.res))); err != nil {
		return 0, err
	}
	h := st.res
	shape := slices.Clone(st.shape(s.Values.Shape()))
	data := unsafe.Pointer(&noData)
	if len(s.Values.Bytes()) > 0 {
		data = dl.Array(s.Values.Bytes())
	}
	ix := tensor.MustData[int64](s.Indices)
	if s.Format == tensor.SparseCSR {
		outer := tensor.MustData[int64](s.Outer)
		err = r.do(fnFillSparseTensorCsr, h, r.cpu, uintptr(dl.Array(shape)), uintptr(len(shape)), uintptr(data),
			uintptr(dl.Array(ix)), uintptr(len(ix)), uintptr(dl.Array(outer)), uintptr(len(outer)))
	} else {
		indices := make([]int32, len(ix))
		for i, n := range ix {
			indices[i] = int32(n)
		}
		dims := []int64{2, int64(len(ix) / 2)}
		err = r.do(fnFillSparseTensorBlockSparse, h, r.cpu, uintptr(dl.Array(shape)),
			uintptr(len(shape)), uintptr(data),
			uintptr(dl.Array(dims)), uintptr(len(dims)), uintptr(dl.Array(indices)))
	}
	runtime.KeepAlive(s)
	if err != nil {
		r.release(fnReleaseValue, h)
		return 0, err
	}
	return h, nil
}
