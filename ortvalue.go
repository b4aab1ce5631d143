package onward

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/tensor"
)

// Buffer describes memory that holds a tensor. Its elements are little-endian and in
// row-major order; elements of 2, 4 and 6 bits are packed. A bool is a byte of 0 or 1.
type Buffer struct {
	Device Device       // device of the memory
	Type   tensor.DType // element type; not string
	Shape  []int
	// Pointer is the address of the first element. It keeps Go memory alive; other
	// memory must stay valid while the buffer is in use. [Address] converts an address
	// from another library, such as one in the memory of a device.
	Pointer unsafe.Pointer
}

// Address converts an address outside of Go's memory to a [Buffer.Pointer].
func Address(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// check resolves the device, checks the other fields and returns the size in bytes.
func (b *Buffer) check() (int, error) {
	d, err := b.Device.Resolve()
	if err != nil {
		return 0, err
	}
	b.Device = d
	if b.Type == 0 {
		return 0, statusf(CodeInvalidArgument, "the buffer has no element type")
	}
	if b.Type == tensor.TypeString {
		return 0, statusf(CodeInvalidArgument, "Only binding non-string Tensors is currently supported")
	}
	n, err := tensor.ByteLen(b.Type, b.Shape)
	if err != nil {
		return 0, invalid(err)
	}
	if b.Pointer == nil && n > 0 {
		return 0, statusf(CodeInvalidArgument, "Pointer to data memory is not valid")
	}
	if w := max(b.Type.Bits()/8, 1); b.Device.IsCPU() && uintptr(b.Pointer)%uintptr(min(w, 8)) != 0 {
		return 0, statusf(CodeInvalidArgument,
			"the address %#x of the memory is not a multiple of %d, the size of its elements",
			uintptr(b.Pointer), min(w, 8))
	}
	return n, nil
}

// memory is memory on a device of which only the address is known. Only a session on that
// device can copy it, see [Session.OrtValueOfBuffer].
type memory struct{ Buffer }

func (m *memory) Device() Device          { return m.Buffer.Device }
func (m *memory) DType() tensor.DType     { return m.Type }
func (m *memory) Shape() []int            { return m.Buffer.Shape }
func (m *memory) Pointer() unsafe.Pointer { return m.Buffer.Pointer }
func (m *memory) CopyTo(*tensor.Tensor) error {
	return m.foreign()
}
func (m *memory) CopyFrom(*tensor.Tensor) error {
	return m.foreign()
}
func (m *memory) CopyFromDevice(driver.DeviceTensor) error {
	return m.foreign()
}
func (m *memory) Close() error { return nil }
func (m *memory) foreign() error {
	return statusf(CodeNotImplemented,
		"the memory on %s was given by its address: it can be bound, but copying it needs "+
			"a session on that device (Session.OrtValueOfBuffer)", m.Buffer.Device)
}

// OrtValue is a value and the device that holds it, like ONNX Runtime's OrtValue. It is
// a tensor on any device, or a sparse tensor, sequence, map or optional on the CPU.
// A [Binding] and [Session.RunWithOrtValues] take and return OrtValues.
type OrtValue struct {
	value  tensor.Value        // on the CPU, else nil
	device driver.DeviceTensor // on another device, else nil
}

// memory returns the driver's view of the value; v may be nil.
func (v *OrtValue) memory() driver.Memory {
	if v == nil {
		return driver.Memory{}
	}
	return driver.Memory{Value: v.value, Device: v.device}
}

// NewOrtValue returns an OrtValue for a value on the CPU. The value is not copied: both
// share its memory. Sparse tensors may have any format.
func NewOrtValue(v tensor.Value) (*OrtValue, error) {
	if tensor.IsNil(v) {
		return nil, statusf(CodeInvalidArgument, "the value is nil")
	}
	if s, ok := v.(*tensor.Sparse); ok {
		if _, err := s.COO(); err != nil {
			return nil, invalid(err)
		}
	}
	return &OrtValue{value: v}, nil
}

// NewOrtValueOf returns an OrtValue with a tensor of zeros on the CPU.
// [Session.NewOrtValueOf] allocates a tensor on another device.
func NewOrtValueOf(dtype tensor.DType, shape ...int) (*OrtValue, error) {
	if dtype == tensor.TypeString {
		return nil, statusf(CodeInvalidArgument,
			"Creation of OrtValues is currently only supported from non-string element types")
	}
	t, err := tensor.Zeros(dtype, shape...)
	if err != nil {
		return nil, invalid(err)
	}
	return &OrtValue{value: t}, nil
}

// OrtValueOfBuffer returns an OrtValue for memory of the caller. The memory is not
// copied and must stay valid while the OrtValue is in use. Memory on a device can be
// bound only: [Session.OrtValueOfBuffer] returns an OrtValue that can be copied, too.
func OrtValueOfBuffer(b Buffer) (*OrtValue, error) {
	n, err := b.check()
	if err != nil {
		return nil, err
	}
	b.Shape = slices.Clone(b.Shape)
	if !b.Device.IsCPU() {
		return &OrtValue{device: &memory{b}}, nil
	}
	t := new(tensor.Tensor)
	t.Reset(b.Type, unsafe.Slice((*byte)(b.Pointer), n), b.Shape)
	return &OrtValue{value: t}, nil
}

// Device returns the device that holds the memory.
func (v *OrtValue) Device() Device {
	if v.device != nil {
		return v.device.Device()
	}
	return Device{Type: "cpu"}
}

// DeviceName returns the type of the device that holds the memory: "cpu", "cuda".
func (v *OrtValue) DeviceName() string { return v.Device().Type }

// Pointer returns the address of the first element in the memory of the device. It
// returns nil if the value is not a dense tensor.
func (v *OrtValue) Pointer() unsafe.Pointer {
	if v.device != nil {
		return v.device.Pointer()
	}
	if t, ok := v.content().(*tensor.Tensor); ok {
		return unsafe.Pointer(unsafe.SliceData(t.Bytes()))
	}
	return nil
}

// Shape returns the dimensions of a tensor or sparse tensor, and nil for other values.
func (v *OrtValue) Shape() []int {
	switch t := v.content().(type) {
	case *tensor.Tensor:
		return slices.Clone(t.Shape())
	case *tensor.Sparse:
		return slices.Clone(t.Shape)
	}
	if v.device != nil {
		return slices.Clone(v.device.Shape())
	}
	return nil
}

// content returns the value on the CPU, or the value inside it if it is an optional.
func (v *OrtValue) content() tensor.Value {
	if o, ok := v.value.(*tensor.Optional); ok {
		return o.Value
	}
	return v.value
}

// DataType returns the type as a string of ONNX: "tensor(float)", "seq(tensor(int64))".
func (v *OrtValue) DataType() string { return v.Type().String() }

// Type returns the type of the value.
func (v *OrtValue) Type() tensor.Type {
	if v.device != nil {
		return tensor.TensorType(v.device.DType())
	}
	return v.value.Type()
}

// ElementType returns the element type of a tensor or sparse tensor, with the numbers of
// ONNX's TensorProto.DataType. It returns 0 for other values.
func (v *OrtValue) ElementType() tensor.DType {
	if v.device != nil {
		return v.device.DType()
	}
	switch t := v.content().(type) {
	case *tensor.Tensor:
		return t.DType()
	case *tensor.Sparse:
		return t.Values.DType()
	}
	return 0
}

// SizeInBytes returns the size of the elements of a tensor in bytes. It returns 0 for
// other values and for tensors of strings.
func (v *OrtValue) SizeInBytes() int {
	if v.device != nil {
		n, _ := tensor.ByteLen(v.device.DType(), v.device.Shape())
		return n
	}
	if t, ok := v.content().(*tensor.Tensor); ok {
		return len(t.Bytes())
	}
	return 0
}

// HasValue reports whether the value is present. It is false only for an empty optional.
func (v *OrtValue) HasValue() bool {
	o, ok := v.value.(*tensor.Optional)
	return !ok || o.Value != nil
}

// IsTensor reports whether the value is a dense tensor.
func (v *OrtValue) IsTensor() bool {
	_, ok := v.content().(*tensor.Tensor)
	return ok || v.device != nil
}

// IsSparseTensor reports whether the value is a sparse tensor.
func (v *OrtValue) IsSparseTensor() bool {
	_, ok := v.content().(*tensor.Sparse)
	return ok
}

// IsTensorSequence reports whether the value is a sequence of tensors.
func (v *OrtValue) IsTensorSequence() bool {
	s, ok := v.content().(*tensor.Sequence)
	return ok && s.Elem.Kind == tensor.KindTensor
}

// Sparse returns the sparse tensor in its original format. It fails on other values.
func (v *OrtValue) Sparse() (*tensor.Sparse, error) {
	s, ok := v.content().(*tensor.Sparse)
	if !ok {
		return nil, statusf(CodeInvalidArgument, "the value is of type %s, want a sparse tensor", v.DataType())
	}
	return s, nil
}

// Value returns the value on the CPU. It returns the value itself if it is on the CPU,
// and a copy if it is on another device.
func (v *OrtValue) Value() (tensor.Value, error) {
	if v.device == nil {
		return v.value, nil
	}
	t, err := tensor.Zeros(v.device.DType(), v.device.Shape()...)
	if err != nil {
		return nil, err
	}
	if err := v.device.CopyTo(t); err != nil {
		return nil, err
	}
	return t, nil
}

// Tensor is [OrtValue.Value] for tensors. It fails on other values.
func (v *OrtValue) Tensor() (*tensor.Tensor, error) {
	x, err := v.Value()
	if err != nil {
		return nil, err
	}
	if o, ok := x.(*tensor.Optional); ok {
		x = o.Value
	}
	t, ok := x.(*tensor.Tensor)
	if !ok {
		return nil, statusf(CodeInvalidArgument, "the value is of type %s, want a tensor", v.DataType())
	}
	return t, nil
}

// UpdateInPlace copies the elements of t into the memory of the OrtValue. Element type
// and size must be equal. The shape of the OrtValue does not change.
func (v *OrtValue) UpdateInPlace(t *tensor.Tensor) error {
	if t == nil {
		return statusf(CodeInvalidArgument, "the tensor is nil")
	}
	if !v.IsTensor() || v.ElementType() == tensor.TypeString {
		return statusf(CodeInvalidArgument, "only tensors of numbers can be updated in place, not %s", v.DataType())
	}
	if t.DType() != v.ElementType() {
		return statusf(CodeInvalidArgument, "Unexpected input data type. Actual: (%s) , expected: (%s)",
			t.Type(), v.Type())
	}
	if len(t.Bytes()) != v.SizeInBytes() {
		return statusf(CodeInvalidArgument,
			"the size of the data, %d bytes of %s, does not match the size of the OrtValue, %d bytes of %s%v",
			len(t.Bytes()), t, v.SizeInBytes(), v.ElementType(), v.Shape())
	}
	if v.device != nil {
		return v.device.CopyFrom(t)
	}
	copy(v.content().(*tensor.Tensor).Bytes(), t.Bytes())
	return nil
}

// CopyTensors copies the elements of src[i] to dst[i] for each i, like ONNX Runtime's copy_tensors.
// Types and sizes must be equal. The tensors may be on the CPU and on devices; memory given by its
// address must come from [Session.OrtValueOfBuffer].
func CopyTensors(dst, src []*OrtValue) error {
	if len(dst) != len(src) {
		return statusf(CodeInvalidArgument, "cannot copy %d tensors to %d", len(src), len(dst))
	}
	for i, from := range src {
		if err := copyTensor(dst[i], from); err != nil {
			return runStatus(fmt.Errorf("tensor %d: %w", i, err))
		}
	}
	return nil
}

func copyTensor(to, from *OrtValue) error {
	switch {
	case to == nil || from == nil:
		return statusf(CodeInvalidArgument, "the OrtValue is nil")
	case !from.IsTensor() || from.ElementType() == tensor.TypeString:
		return statusf(CodeInvalidArgument, "only tensors of numbers can be copied, not %s", from.DataType())
	case from.device == nil:
		return to.UpdateInPlace(from.content().(*tensor.Tensor))
	case !to.IsTensor() || to.ElementType() != from.ElementType() || to.SizeInBytes() != from.SizeInBytes():
		return statusf(CodeInvalidArgument, "%s cannot be copied to %s", from, to)
	case to.device == nil:
		return from.device.CopyTo(to.content().(*tensor.Tensor))
	}
	return to.device.CopyFromDevice(from.device)
}

// Close frees memory that a session has allocated on a device other than the CPU; the
// OrtValue must not be used or bound then. Without Close the memory is freed some time
// after the OrtValue has become unreachable. The garbage collector does not know the size of
// that memory, so a program that allocates much of it should call Close.
func (v *OrtValue) Close() error {
	if v.device == nil {
		return nil
	}
	return v.device.Close()
}

// String returns the type, shape and device: "tensor(float)[2 3] on cpu".
func (v *OrtValue) String() string {
	var b strings.Builder
	b.WriteString(v.DataType())
	if s := v.Shape(); s != nil || v.IsTensor() {
		fmt.Fprint(&b, s)
	}
	return b.String() + " on " + v.Device().String()
}

// NewOrtValue copies a tensor to the memory of device d, which must be the CPU or a
// device of the session's provider. The tensor is copied on the CPU, too.
func (s *Session) NewOrtValue(t *tensor.Tensor, d Device) (*OrtValue, error) {
	if t == nil {
		return nil, statusf(CodeInvalidArgument, "the tensor is nil")
	}
	v, err := s.NewOrtValueOf(d, t.DType(), t.Shape()...)
	if err != nil {
		return nil, err
	}
	return v, v.UpdateInPlace(t)
}

// NewOrtValueOf allocates a tensor in the memory of device d, which must be the CPU or
// a device of the session's provider. Its contents are undefined.
func (s *Session) NewOrtValueOf(d Device, dtype tensor.DType, shape ...int) (*OrtValue, error) {
	d, err := d.Resolve()
	if err != nil {
		return nil, err
	}
	if d.IsCPU() {
		return NewOrtValueOf(dtype, shape...)
	}
	if dtype == tensor.TypeString {
		return nil, statusf(CodeInvalidArgument,
			"Creation of OrtValues is currently only supported from non-string element types")
	}
	if _, err := tensor.ByteLen(dtype, shape); err != nil {
		return nil, invalid(err)
	}
	c, err := s.use()
	if err != nil {
		return nil, err
	}
	defer c.release()
	a, ok := c.engine.(driver.Allocator)
	if !ok {
		return nil, c.noDevice(d)
	}
	t, err := a.Allocate(d, dtype, shape)
	if err != nil {
		return nil, runStatus(err)
	}
	return &OrtValue{device: t}, nil
}

// OrtValueOfBuffer is the function [OrtValueOfBuffer] for memory on a device of the
// session's provider. The OrtValue can be copied to and from the CPU.
func (s *Session) OrtValueOfBuffer(b Buffer) (*OrtValue, error) {
	v, err := OrtValueOfBuffer(b)
	if err != nil {
		return nil, err
	}
	c, err := s.use()
	if err != nil {
		return nil, err
	}
	defer c.release()
	if _, ok := c.engine.(driver.Allocator); !ok && v.device != nil {
		return nil, c.noDevice(v.Device())
	}
	return c.wrap(v)
}

// wrap returns v as a value that the engine can copy if v is the address of memory on a
// device, and v otherwise.
func (c *compiled) wrap(v *OrtValue) (*OrtValue, error) {
	m, foreign := v.device.(*memory)
	a, ok := c.engine.(driver.Allocator)
	if !foreign || !ok {
		return v, nil
	}
	t, err := a.Wrap(m.Device(), m.Type, m.Shape(), m.Pointer())
	if err != nil {
		return nil, runStatus(err)
	}
	return &OrtValue{device: t}, nil
}

func (c *compiled) noDevice(d Device) error {
	return statusf(CodeInvalidArgument,
		"provider %s works on the memory of the cpu, not of %s: open the session with a "+
			"provider for that device, such as ort:%s", c.provider, d, d.Type)
}
