package ort

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// memoryNames maps device types to ONNX Runtime's names of their memory
// (onnxruntime/core/framework/allocator.h).
var memoryNames = map[string]string{"cuda": "Cuda", "cann": "Cann", "dml": "DML", "webgpu": "WebGPU_Buffer"}

// memoryInfo returns the OrtMemoryInfo of a device's memory, which is never released.
func (r *library) memoryInfo(d driver.Device) (uintptr, error) {
	if d.IsCPU() {
		return r.cpu, nil
	}
	if h, ok := r.infos.Load(d); ok {
		return h.(uintptr), nil
	}
	name, ok := memoryNames[d.Type]
	if !ok {
		return 0, &driver.StatusError{Code: driver.NotImplemented, Message: fmt.Sprintf("memory of device type %s cannot be bound: ONNX Runtime has no name for it", d.Type)}
	}
	const deviceAllocator, memTypeDefault = 0, 0
	out := new(uintptr)
	if err := r.do(fnCreateMemoryInfo, uintptr(unsafe.Pointer(dl.CString(name))), deviceAllocator, uintptr(d.ID), memTypeDefault, uintptr(unsafe.Pointer(out))); err != nil {
		return 0, err
	}
	h, loaded := r.infos.LoadOrStore(d, *out)
	if loaded {
		r.release(fnReleaseMemoryInfo, *out)
	}
	return h.(uintptr), nil
}

// deviceTensor is an OrtValue in the memory of a device.
type deviceTensor struct {
	s      *session
	h      uintptr
	device driver.Device
	dtype  tensor.DType
	shape  []int
	ptr    uintptr
}

// deviceMemory holds the ONNX Runtime resources that the cleanup of a deviceTensor
// releases.
type deviceMemory struct {
	s     *session
	h     uintptr
	alloc *allocator // allocator of the memory; nil for the result of a run
}

func (m deviceMemory) release() {
	m.s.lib.release(fnReleaseValue, m.h)
	m.alloc.drop(m.s.lib)
	m.s.drop()
}

// deviceTensor takes ownership of an OrtValue that is a tensor on device d.
func (s *session) deviceTensor(h uintptr, d driver.Device, from *allocator) (*deviceTensor, error) {
	r, st := s.lib, new(state)
	dtype, shape, err := r.typeAndShape(st, h)
	if err != nil {
		return nil, err
	}
	if err := r.do(fnGetTensorMutableData, h, uintptr(unsafe.Pointer(&st.res))); err != nil {
		return nil, err
	}
	t := &deviceTensor{s: s, h: h, device: d, dtype: dtype, shape: slices.Clone(shape), ptr: st.res}
	s.users.Add(1)
	runtime.AddCleanup(t, deviceMemory.release, deviceMemory{s, h, from})
	return t, nil
}

func (t *deviceTensor) Device() driver.Device   { return t.device }
func (t *deviceTensor) DType() tensor.DType     { return t.dtype }
func (t *deviceTensor) Shape() []int            { return t.shape }
func (t *deviceTensor) Pointer() unsafe.Pointer { return dl.Pointer(t.ptr) }

func (t *deviceTensor) CopyTo(dst *tensor.Tensor) error {
	return t.s.transfer(t.dtype, func(c *session, st *state) (in, out uintptr, err error) {
		dims := slices.Clone(st.shape(t.shape))
		if out, err = t.over(st, dst, dims); err != nil {
			return 0, 0, err
		}
		return t.h, out, nil
	}, false)
}

func (t *deviceTensor) CopyFrom(src *tensor.Tensor) error {
	return t.s.transfer(t.dtype, func(c *session, st *state) (in, out uintptr, err error) {
		dims := slices.Clone(st.shape(t.shape))
		if in, err = t.over(st, src, dims); err != nil {
			return 0, 0, err
		}
		return in, t.h, nil
	}, true)
}

// over creates an OrtValue for the CPU tensor x with the shape of the device tensor.
func (t *deviceTensor) over(st *state, x *tensor.Tensor, dims []int64) (uintptr, error) {
	if n, err := tensor.ByteLen(t.dtype, t.shape); err != nil || x.DType() != t.dtype || len(x.Bytes()) != n {
		return 0, fmt.Errorf("%s cannot be copied to or from %s%v on %s", x, t.dtype, t.shape, t.device)
	}
	y := new(tensor.Tensor)
	y.Reset(t.dtype, x.Bytes(), t.shape)
	return t.s.lib.tensorValue(st, y)
}

// transfer copies between two OrtValues, one of them on the CPU. The C API copies between
// devices only inside sessions, so a model of one Identity node does it. The OrtValue on
// the CPU is released.
func (s *session) transfer(d tensor.DType, values func(c *session, st *state) (in, out uintptr, err error), inIsCPU bool) error {
	c, err := s.copier(d)
	if err != nil {
		return fmt.Errorf("copy %s between devices: %w", d, err)
	}
	r, st := s.lib, new(state)
	in, out, err := values(c, st)
	if err != nil {
		return err
	}
	if inIsCPU {
		defer r.release(fnReleaseValue, in)
	} else {
		defer r.release(fnReleaseValue, out)
	}
	io := new(uintptr)
	if err := r.do(fnCreateIoBinding, c.handle, uintptr(unsafe.Pointer(io))); err != nil {
		return err
	}
	defer r.release(fnReleaseIoBinding, *io)
	if err := r.do(fnBindInput, *io, uintptr(unsafe.Pointer(c.inNames[0])), in); err != nil {
		return err
	}
	if err := r.do(fnBindOutput, *io, uintptr(unsafe.Pointer(c.outName[0])), out); err != nil {
		return err
	}
	err = c.watched(context.Background(), st, func() error { return r.do(fnRunWithBinding, c.handle, 0, *io) })
	if err == nil {
		err = r.do(fnSynchronizeBoundOutputs, *io)
	}
	runtime.KeepAlive(values) // keeps the tensors that it captures alive
	return err
}

// copier returns a session on the same execution provider that copies a tensor.
func (s *session) copier(d tensor.DType) (*session, error) {
	s.copy.Lock()
	defer s.copy.Unlock()
	if c := s.copiers[d]; c != nil {
		return c, nil
	}
	b := onnx.NewModel("copy").Opset("", 16).IRVersion(8)
	b.InputType("x", onnx.NewType(tensor.TensorType(d))).OutputType("y", onnx.NewType(tensor.TensorType(d)))
	b.Node("Identity", []string{"x"}, []string{"y"})
	m, err := b.Model()
	if err != nil {
		return nil, err
	}
	o, err := s.provider.parse(&driver.Options{Threads: 1}, s.config)
	if err != nil {
		return nil, err
	}
	c, err := s.lib.newSession("", m, o)
	if err != nil {
		return nil, err
	}
	if s.copiers == nil {
		s.copiers = map[tensor.DType]*session{}
	}
	s.copiers[d] = c
	return c, nil
}

// allocator is an OrtAllocator of a session. It is released with its last tensor.
type allocator struct {
	h     uintptr
	users atomic.Int64
}

func (a *allocator) drop(r *library) {
	if a != nil && a.users.Add(-1) == 0 {
		r.release(fnReleaseAllocator, a.h)
	}
}

// Allocate implements [driver.Allocator].
func (s *session) Allocate(d driver.Device, dtype tensor.DType, shape []int) (driver.DeviceTensor, error) {
	r, st := s.lib, new(state)
	elem, err := r.elementType(dtype)
	if err != nil {
		return nil, err
	}
	a, err := s.allocator(st, d)
	if err != nil {
		return nil, err
	}
	dims := st.shape(shape)
	st.res = 0
	if err := r.do(fnCreateTensorAsOrtValue, a.h, uintptr(dl.Array(dims)), uintptr(len(dims)), elem, uintptr(unsafe.Pointer(&st.res))); err != nil {
		a.drop(r)
		return nil, err
	}
	t, err := s.deviceTensor(st.res, d, a)
	if err != nil {
		r.release(fnReleaseValue, st.res)
		a.drop(r)
		return nil, err
	}
	return t, nil
}

// allocator returns the session's allocator on a device and increments its user count.
func (s *session) allocator(st *state, d driver.Device) (*allocator, error) {
	s.copy.Lock()
	defer s.copy.Unlock()
	a := s.allocators[d]
	if a == nil {
		info, err := s.lib.memoryInfo(d)
		if err != nil {
			return nil, err
		}
		st.res = 0
		if err := s.lib.do(fnCreateAllocator, s.handle, info, uintptr(unsafe.Pointer(&st.res))); err != nil {
			return nil, err
		}
		a = &allocator{h: st.res}
		a.users.Store(1)
		if s.allocators == nil {
			s.allocators = map[driver.Device]*allocator{}
		}
		s.allocators[d] = a
	}
	a.users.Add(1)
	return a, nil
}
