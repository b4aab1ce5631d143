package ort

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
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
		return 0, &driver.StatusError{Code: driver.CodeNotImplemented,
			Message: fmt.Sprintf("memory of device type %s cannot be bound: ONNX Runtime has no name for it", d.Type)}
	}
	const deviceAllocator, memTypeDefault = 0, 0
	out := new(uintptr)
	if err := r.do(fnCreateMemoryInfo, uintptr(unsafe.Pointer(dl.CString(name))), deviceAllocator, uintptr(d.ID),
		memTypeDefault, uintptr(unsafe.Pointer(out))); err != nil {
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
	device driver.Device
	dtype  tensor.DType
	shape  []int
	ptr    uintptr

	mu      sync.RWMutex // held for writing by Close
	closed  bool
	memory  deviceMemory
	cleanup runtime.Cleanup
}

// deviceMemory holds the ONNX Runtime resources that the cleanup of a deviceTensor
// releases.
type deviceMemory struct {
	s     *session
	h     uintptr
	alloc *allocator // allocator of the memory; nil for the result of a run
}

func (m deviceMemory) release() {
	m.s.release(fnReleaseValue, m.h)
	m.alloc.drop(m.s)
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
	t := &deviceTensor{s: s, device: d, dtype: dtype, shape: slices.Clone(shape), ptr: st.res}
	s.users.Add(1)
	t.memory = deviceMemory{s, h, from}
	t.cleanup = runtime.AddCleanup(t, deviceMemory.release, t.memory)
	return t, nil
}

// Close implements [driver.DeviceTensor].
func (t *deviceTensor) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		t.cleanup.Stop()
		t.memory.release()
	}
	return nil
}

func (t *deviceTensor) Device() driver.Device   { return t.device }
func (t *deviceTensor) DType() tensor.DType     { return t.dtype }
func (t *deviceTensor) Shape() []int            { return t.shape }
func (t *deviceTensor) Pointer() unsafe.Pointer { return dl.Pointer(t.ptr) }

// CopyTo implements [driver.DeviceTensor].
func (t *deviceTensor) CopyTo(dst *tensor.Tensor) error { return t.transfer(dst, nil, false) }

// CopyFrom implements [driver.DeviceTensor].
func (t *deviceTensor) CopyFrom(src *tensor.Tensor) error { return t.transfer(src, nil, true) }

// CopyFromDevice implements [driver.DeviceTensor].
func (t *deviceTensor) CopyFromDevice(src driver.DeviceTensor) error {
	if from, ok := src.(*deviceTensor); ok && from != t {
		from.mu.RLock()
		defer from.mu.RUnlock()
		if from.closed {
			return from.errClosed()
		}
	}
	return t.transfer(nil, src, true)
}

func (t *deviceTensor) errClosed() error {
	return &driver.StatusError{Code: driver.CodeInvalidArgument,
		Message: fmt.Sprintf("the tensor on %s is closed", t.device)}
}

// transfer copies between the device and the tensor x on the CPU, or other on a device. The
// C API copies between devices only inside sessions, so a model of one Identity node does
// it. It copies bytes: execution providers lack kernels for some element types (float8,
// 4-bit integers).
func (t *deviceTensor) transfer(x *tensor.Tensor, other driver.DeviceTensor, toDevice bool) error {
	n, err := tensor.ByteLen(t.dtype, t.shape)
	if err != nil {
		return err
	}
	r, st := t.s.lib, new(state)
	here := func() (uintptr, error) {
		return r.wrap(st, other.Device(), tensor.TypeUint8, []int{n}, uintptr(other.Pointer()))
	}
	if x != nil {
		if x.DType() != t.dtype || len(x.Bytes()) != n {
			return fmt.Errorf("%s cannot be copied to or from %s%v on %s", x, t.dtype, t.shape, t.device)
		}
		here = func() (uintptr, error) {
			host := new(tensor.Tensor)
			host.Reset(tensor.TypeUint8, x.Bytes(), []int{n})
			return r.tensorValue(st, host)
		}
	} else if size, err := tensor.ByteLen(other.DType(), other.Shape()); err != nil ||
		other.DType() != t.dtype || size != n {
		return fmt.Errorf("%s%v on %s cannot be copied to %s%v on %s", other.DType(), other.Shape(), other.Device(),
			t.dtype, t.shape, t.device)
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return t.errClosed()
	}
	if n == 0 {
		return nil
	}
	c, err := t.s.copying()
	if err != nil {
		return fmt.Errorf("copy %s between devices: %w", t.dtype, err)
	}
	from, err := here()
	if err != nil {
		return err
	}
	defer r.release(fnReleaseValue, from)
	to, err := r.wrap(st, t.device, tensor.TypeUint8, []int{n}, t.ptr)
	if err != nil {
		return err
	}
	defer r.release(fnReleaseValue, to)
	if !toDevice {
		from, to = to, from
	}
	io := new(uintptr)
	if err := c.do(fnCreateIoBinding, c.handle, uintptr(unsafe.Pointer(io))); err != nil {
		return err
	}
	defer c.release(fnReleaseIoBinding, *io)
	if err := c.do(fnBindInput, *io, uintptr(unsafe.Pointer(c.inNames[0])), from); err != nil {
		return err
	}
	if err := c.do(fnBindOutput, *io, uintptr(unsafe.Pointer(c.outName[0])), to); err != nil {
		return err
	}
	// The input's copy runs on a stream of its own, for which the run does not wait.
	if err := c.do(fnSynchronizeBoundInputs, *io); err != nil {
		return err
	}
	err = c.watched(context.Background(), st, func() error { return r.do(fnRunWithBinding, c.handle, 0, *io) })
	if err == nil {
		err = c.do(fnSynchronizeBoundOutputs, *io)
	}
	runtime.KeepAlive(x)
	runtime.KeepAlive(other)
	return err
}

// copyOptions are the provider options that decide where and on what stream a copy runs.
// Copies take no others: a CUDA graph, a profile or a saved model is the session's.
var copyOptions = []string{"library", namedProvider, pluginLibrary, pluginDevice, "device_type", "device_id",
	"has_user_compute_stream", "user_compute_stream",
	"deviceId", "webgpuInstance", "webgpuDevice", "dawnProcTable", "dawnBackendType", "powerPreference"}

// copying returns a session on the same device that copies bytes.
func (s *session) copying() (*session, error) {
	s.copy.Lock()
	defer s.copy.Unlock()
	if s.copier != nil {
		return s.copier, nil
	}
	u := onnx.NewType(tensor.TensorType(tensor.TypeUint8))
	b := onnx.NewModel("copy").Opset("", 16).IRVersion(8)
	b.InputType("x", u).OutputType("y", u).Node("Identity", []string{"x"}, []string{"y"})
	m, err := b.Model()
	if err != nil {
		return nil, err
	}
	p, config := s.provider, driver.Config{Name: s.provider.name, Options: map[string]string{}}
	if p.ep == tensorRT {
		p.ep = cuda // TensorRT would build an engine
	}
	for _, name := range copyOptions {
		if v, ok := s.config.Options[name]; ok {
			config.Options[name] = v
		}
	}
	o, err := p.parse(&driver.Options{Threads: 1}, config)
	if err != nil {
		return nil, err
	}
	s.copier, err = s.lib.newSession("", m, o)
	return s.copier, err
}

// allocator is an OrtAllocator of a session. It is released with its last tensor.
type allocator struct {
	h     uintptr
	users atomic.Int64
}

func (a *allocator) drop(s *session) {
	if a != nil && a.users.Add(-1) == 0 {
		s.release(fnReleaseAllocator, a.h)
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
	if err := s.do(fnCreateTensorAsOrtValue, a.h, uintptr(dl.Array(dims)), uintptr(len(dims)), elem,
		uintptr(unsafe.Pointer(&st.res))); err != nil {
		a.drop(s)
		return nil, err
	}
	t, err := s.deviceTensor(st.res, d, a)
	if err != nil {
		s.release(fnReleaseValue, st.res)
		a.drop(s)
		return nil, err
	}
	return t, nil
}

// Wrap implements [driver.Allocator].
func (s *session) Wrap(d driver.Device, dtype tensor.DType, shape []int,
	p unsafe.Pointer) (driver.DeviceTensor, error) {
	h, err := s.lib.wrap(new(state), d, dtype, shape, uintptr(p))
	if err != nil {
		return nil, err
	}
	t, err := s.deviceTensor(h, d, nil)
	if err != nil {
		s.lib.release(fnReleaseValue, h)
		return nil, err
	}
	return t, nil
}

// wrap creates an OrtValue over memory on a device.
func (r *library) wrap(st *state, d driver.Device, dtype tensor.DType, shape []int, p uintptr) (uintptr, error) {
	info, err := r.memoryInfo(d)
	if err != nil {
		return 0, err
	}
	elem, err := r.elementType(dtype)
	if err != nil {
		return 0, err
	}
	size, err := tensor.ByteLen(dtype, shape)
	if err != nil {
		return 0, err
	}
	dims := st.shape(shape)
	st.res = 0
	err = r.do(fnCreateTensorWithDataAsOrtValue, info, p, uintptr(size),
		uintptr(dl.Array(dims)), uintptr(len(dims)), elem, uintptr(unsafe.Pointer(&st.res)))
	return st.res, err
}

// location returns the device that holds an OrtValue with a tensor. Memory of the CPU that
// a device can read, such as pinned memory, is the CPU's.
func (r *library) location(st *state, h uintptr) (driver.Device, error) {
	if err := r.do(fnGetTensorMemoryInfo, h, uintptr(unsafe.Pointer(&st.res))); err != nil {
		return driver.Device{}, err
	}
	info := st.res
	if err := r.do(fnMemoryInfoGetName, info, uintptr(unsafe.Pointer(&st.res))); err != nil {
		return driver.Device{}, err
	}
	name := dl.String(st.res)
	for typ, n := range memoryNames {
		// Newer releases shorten the name of WebGPU.
		if n == name || typ == "webgpu" && name == "WebGPU_Buf" {
			err := r.do(fnMemoryInfoGetID, info, uintptr(unsafe.Pointer(&st.i32)))
			return driver.Device{Type: typ, ID: int(st.i32)}, err
		}
	}
	const ofCPU = 0
	st.i32 = ofCPU
	dl.Call(r.address(fnMemoryInfoGetDeviceType), info, uintptr(unsafe.Pointer(&st.i32)))
	if st.i32 != ofCPU {
		return driver.Device{},
			&driver.StatusError{Code: driver.CodeNotImplemented,
				Message: fmt.Sprintf(
					"the output is in memory %q of a device, which is not supported; bind it to the CPU", name)}
	}
	return driver.Device{}, nil
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
		if err := s.do(fnCreateAllocator, s.handle, info, uintptr(unsafe.Pointer(&st.res))); err != nil {
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
